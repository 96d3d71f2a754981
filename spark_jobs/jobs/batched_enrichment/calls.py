"""Many calls at a time, and no exception of a call to its caller: what breaks is an outcome too."""

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from keyfold.keyed.rows.answers import Answers
from spark_jobs.jobs.batched_enrichment.protocol import Batch, Call, Outcome


def call_all(batches: Sequence[Batch], call: Call, max_in_flight: int, answers: Answers) -> list[Sequence[Outcome]]:
    """Call once for every batch that differs, at most `max_in_flight` at a time; outcomes in the order of the batches.

    Args:
        batches: what to ask about.
        call: asks.
        max_in_flight: how many calls are made at a time.
        answers: where outcomes are kept before they are used, and found by a batch that is asked about again.

    Raises:
        OSError: an outcome cannot be kept; none may be used then.
    """
    # Events without an id may be alike, and so may batches of them: one question, which must have one answer.
    asked = {batch.idempotency_key: batch for batch in batches}
    if not asked:
        return []
    with ThreadPoolExecutor(min(max_in_flight, len(asked)), thread_name_prefix="enrichment") as pool:
        outcomes = dict(
            zip(asked, pool.map(lambda batch: _known_outcomes(batch, call, answers), asked.values()), strict=True)
        )
    return [outcomes[batch.idempotency_key] for batch in batches]


def _known_outcomes(batch: Batch, call: Call, answers: Answers) -> Sequence[Outcome]:
    kept = answers.get(batch.idempotency_key)
    if kept is not None:
        return [Outcome(*fields) for fields in json.loads(kept)]
    outcomes = _outcomes(batch, call)
    answers.keep(batch.idempotency_key, json.dumps([list(outcome) for outcome in outcomes]))
    return outcomes


def _outcomes(batch: Batch, call: Call) -> Sequence[Outcome]:
    try:
        outcomes = call(batch)
    except Exception as error:
        return [Outcome(None, 1, answer=f"{type(error).__name__}: {error}")] * len(batch)
    if len(outcomes) != len(batch):
        return [Outcome(None, 1, answer=f"{len(outcomes)} outcomes for {len(batch)} events")] * len(batch)
    return outcomes
