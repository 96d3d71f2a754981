"""Many calls at a time, and no exception of a call to its caller: what breaks is an outcome too."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from spark_jobs.enrichment.protocol import Batch, Call, Outcome


def call_all(batches: Sequence[Batch], call: Call, max_in_flight: int) -> list[Sequence[Outcome]]:
    """Call for every batch, at most `max_in_flight` at a time; outcomes in the order of the batches."""
    if not batches:
        return []
    with ThreadPoolExecutor(min(max_in_flight, len(batches)), thread_name_prefix="enrichment") as pool:
        return list(pool.map(lambda batch: _outcomes(batch, call), batches))


def _outcomes(batch: Batch, call: Call) -> Sequence[Outcome]:
    try:
        outcomes = call(batch)
    except Exception as error:
        return [Outcome(None, 1, answer=f"{type(error).__name__}: {error}")] * len(batch)
    if len(outcomes) != len(batch):
        return [Outcome(None, 1, answer=f"{len(outcomes)} outcomes for {len(batch)} events")] * len(batch)
    return outcomes
