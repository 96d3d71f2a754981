"""Events in batches, as tests of all jobs bring them: cut anywhere, late, and replayed after a crash; and their rows."""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import polars as pl
import pytest

from keyfold import KeyedJob, TestHarness

BEGINNING = datetime(1, 1, 1, tzinfo=UTC)
"""The watermark of a job that has seen nothing."""


def in_batches(events: list[Any], cuts: Sequence[int]) -> list[list[Any]]:
    """Cut the events at these places."""
    cuts = sorted(min(cut, len(events)) for cut in cuts)
    return [events[a:b] for a, b in zip([0, *cuts], [*cuts, len(events)], strict=True)]


def late_and_on_time(
    batches: Sequence[Sequence[dict[str, Any]]], time: str, delay: timedelta
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], datetime]:
    """Which events are not behind the watermark of the batches before theirs; and the last watermark."""
    watermark, late, on_time = BEGINNING, [], []
    for batch in batches:
        for one in batch:
            (late if one[time] <= watermark else on_time).append(one)
        watermark = max([watermark, *(one[time] - delay for one in batch)])
    return late, on_time, watermark


def played_with_a_crash(
    job: KeyedJob,
    batches: Sequence[Sequence[Any]],
    frame: Callable[[Sequence[Any]], pl.DataFrame],
    crash: int,
    random: Random,
    after_batch: Callable[[TestHarness], None] = lambda _: None,
) -> tuple[TestHarness, TestHarness]:
    """Play batches, and play them where the state of one is lost and it is replayed, with rows in another order."""
    unbroken, broken = TestHarness(job), TestHarness(job)
    for number, batch in enumerate(batches):
        if number == crash:
            lost = TestHarness(job)
            lost.state, lost.watermark = broken.state, broken.watermark
            lost.batch(frame(batch))
        unbroken.batch(frame(batch))
        broken.batch(frame(random.sample(batch, len(batch))))
        after_batch(broken)
    return unbroken, broken


def assert_close(
    rows: Iterable[dict[str, Any]],
    expected: Iterable[dict[str, Any]],
    order: Callable[[dict[str, Any]], Any],
    *,
    rel: float,
    abs: float,
) -> None:
    """Assert that rows are those expected, in any order; floats within tolerances of `pytest.approx`."""
    found, wanted = sorted(rows, key=order), sorted(expected, key=order)
    assert len(found) == len(wanted)
    for row, other in zip(found, wanted, strict=True):
        assert row.keys() == other.keys()
        for name, value in row.items():
            assert value == (pytest.approx(other[name], rel=rel, abs=abs) if isinstance(value, float) else other[name])
