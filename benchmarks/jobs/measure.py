"""Compare two computations fairly: they run in turn, so that other load affects both, and the best run of each counts."""

import gc
import time
from collections.abc import Callable

import polars as pl


def compare(name: str, events: int, ours: Callable[[], object], theirs: Callable[[], object], repeat: int = 3) -> None:
    """Time both in turn, and print events/s of each and the ratio of ours to theirs (above 1: ours is faster).

    Args:
        name: name of the comparison.
        events: number of events that each processes.
        ours: the job.
        theirs: the computation to compare it with.
        repeat: number of runs of each, after one run of each that does not count.
    """
    ours()
    theirs()
    our_best = their_best = float("inf")
    for _ in range(repeat):
        our_best = min(our_best, seconds_of(ours))
        their_best = min(their_best, seconds_of(theirs))
    print(
        f"{name}: {events / our_best:,.0f} events/s, plain {events / their_best:,.0f} events/s, "
        f"ratio {their_best / our_best:.2f} ({events:,} events, best of {repeat})"
    )


def require_same(ours: pl.DataFrame, theirs: pl.DataFrame) -> None:
    """Stop the benchmark unless both return the same rows in the same order."""
    if not ours.equals(theirs):
        raise SystemExit(f"the two give different answers:\n{ours}\n{theirs}")


def seconds_of(run: Callable[[], object]) -> float:
    """Wall-clock seconds of a call, after garbage collection of what earlier calls left."""
    gc.collect()
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def batches_of(events: pl.DataFrame, batches: int) -> list[pl.DataFrame]:
    """Cut events into micro-batches of equal size."""
    rows = -(-events.height // batches)
    return [events.slice(start, rows) for start in range(0, events.height, rows)]
