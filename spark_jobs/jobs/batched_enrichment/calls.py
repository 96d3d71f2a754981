"""Make many calls concurrently; a failed call is an outcome, not an exception."""

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from keyfold.keyed.rows.answers import Answers
from spark_jobs.jobs.batched_enrichment.protocol import Batch, Call, Outcome


def call_all(batches: Sequence[Batch], call: Call, max_in_flight: int, answers: Answers) -> list[Sequence[Outcome]]:
    """Call once per distinct batch, at most `max_in_flight` at a time; return the outcomes in the order of the batches.

    Args:
        batches: the batches of events.
        call: makes one call.
        max_in_flight: largest number of concurrent calls.
        answers: stores outcomes before they are used, and returns them if a batch is repeated.

    Raises:
        OSError: an outcome cannot be stored; then none may be used.
    """
    # Batches of events without an id may be equal. They share one call, so that they get the same answer.
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
