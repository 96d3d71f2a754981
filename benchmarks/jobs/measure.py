"""A fair race: the two take turns, so that what else the machine does hits both, and the best of each counts."""

import gc
import time
from collections.abc import Callable

import polars as pl


def compare(name: str, events: int, ours: Callable[[], object], theirs: Callable[[], object], repeat: int = 3) -> None:
    """Time both by turns and print events/s of each and the ratio, ours to theirs (above 1: ours is faster).

    Args:
        name: what is compared.
        events: how many events each of the two works through.
        ours: the job.
        theirs: what it is measured by.
        repeat: how often each runs, after one run of each that does not count.
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
    """End the benchmark where the two do not give the same rows in the same order: it would compare two questions."""
    if not ours.equals(theirs):
        raise SystemExit(f"the two give different answers:\n{ours}\n{theirs}")


def seconds_of(run: Callable[[], object]) -> float:
    """How long a call takes, in seconds of wall time, with what earlier calls left collected first."""
    gc.collect()
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def batches_of(events: pl.DataFrame, batches: int) -> list[pl.DataFrame]:
    """Cut events into micro-batches of one size."""
    rows = -(-events.height // batches)
    return [events.slice(start, rows) for start in range(0, events.height, rows)]
