"""No layout of files, no batch size, no order of arrival within a run and no crash shows in a table: against plain Python."""

from collections import Counter, defaultdict
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from keyfold.keyed import runner
from keyfold.keyed.generation.run_mode import FullRefresh, Incremental
from keyfold.keyed.runner import RunOptions, run_job
from keyfold.lakehouse import Lakehouse, fail_points
from tests.examples import examples
from tests.keyfold.keyed.toy_jobs import LENGTH, START, clicks, windows
from tests.keyfold.keyed.without_spark import SPARK, Cut, PowerCut

DELAY = timedelta(minutes=5)
EVENTS = st.tuples(st.sampled_from(["ann", "bob", "eve", "cid"]), st.integers(0, 90))
FILES = st.lists(st.lists(EVENTS, min_size=1, max_size=6), min_size=1, max_size=4)
CRASHES = st.sampled_from(
    [point for point in fail_points.POINTS if point.startswith(("plan", "work", "done", "commit", "merge"))]
)


def answer(runs):
    """What the job must make of runs of events: late is who comes behind the watermark of the run's start, to no state."""
    watermark: datetime | None = None
    newest: datetime | None = None
    open_, closed, late = defaultdict(Counter), Counter(), Counter()
    for events in runs:
        standing = {user for user, kept in open_.items() if kept}
        for user, minute in events:
            at = START + timedelta(minutes=minute)
            if watermark is not None and at <= watermark and user not in standing:
                late[user, at] += 1
            else:
                open_[user][at.replace(minute=at.minute // 10 * 10)] += 1
            newest = at if newest is None else max(newest, at)
        assert newest
        watermark = newest - DELAY if watermark is None else max(watermark, newest - DELAY)
        for user, kept in open_.items():
            for window in [window for window in kept if window + LENGTH <= watermark]:
                closed[user, window, kept.pop(window)] += 1
    return closed, late, {user: dict(kept) for user, kept in open_.items() if kept}


def tables(lakehouse):
    closed = Counter(pl.read_delta(str(lakehouse.table("windows"))).rows())
    late = Counter(row[:2] for row in pl.read_delta(str(lakehouse.table("late.windows"))).rows())
    return closed, late


def land(lakehouse, events):
    lakehouse.events("clicks").parent.mkdir(parents=True, exist_ok=True)
    clicks(*events).write_delta(str(lakehouse.events("clicks")), mode="append")


@examples(60)
@given(
    runs=st.lists(st.tuples(FILES, st.sampled_from([1, 128 << 20])), min_size=1, max_size=3),
    crashes=st.lists(st.tuples(CRASHES, st.integers(1, 3)), max_size=3),
)
def test_any_layout_any_batch_size_any_crash_gives_the_tables_that_plain_python_gives(runs, crashes):
    expected = answer([[event for file in files for event in file] for files, _ in runs])
    with TemporaryDirectory() as folder:
        lakehouse = Lakehouse(Path(folder) / "home")
        for files, size in runs:
            for file in files:
                land(lakehouse, file)
            for crash in crashes:
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(fail_points, "act", Cut(*crash))
                    attempt(lakehouse, size)
            run_job(SPARK, lakehouse, windows(), options=RunOptions(max_bytes_per_batch=size))
        assert tables(lakehouse) == expected[:2]
        (generation,) = lakehouse.job("windows").glob("generation-*")
        done = runner.Generation(generation, {}).journal.last_done()
        assert done
        assert done.open_events == sum(sum(kept.values()) for kept in expected[2].values())
        assert done.total_events == sum(len(file) for files, _ in runs for file in files)


def attempt(lakehouse, size):
    try:
        run_job(SPARK, lakehouse, windows(), options=RunOptions(max_bytes_per_batch=size))
    except Exception as error:
        assert isinstance(error, PowerCut) or isinstance(error.__cause__, PowerCut)  # noqa: PT017


@examples(40)
@given(files=FILES, size=st.sampled_from([1, 128 << 20]), joined=st.booleans(), order=st.randoms())
def test_a_refresh_of_the_same_events_gives_the_same_tables_whatever_files_they_lie_in(files, size, joined, order):
    closed, _, _ = answer([[event for file in files for event in file]])
    events = [event for file in files for event in file]
    order.shuffle(events)
    with TemporaryDirectory() as folder:
        lakehouse = Lakehouse(Path(folder) / "home")
        for start in range(0, len(events), 3):
            land(lakehouse, events[start : start + 3])
        run_job(SPARK, lakehouse, windows())
        if joined:
            DeltaTable(str(lakehouse.events("clicks"))).optimize.compact()
            assert run_job(SPARK, lakehouse, windows()).counts.events == 0
        run_job(SPARK, lakehouse, windows(), FullRefresh(), options=RunOptions(max_bytes_per_batch=size))
        assert tables(lakehouse) == (closed, Counter())


def test_files_that_each_span_all_of_the_time_are_cut_and_it_is_said(without_spark, lakehouse, minutes):
    for number in range(12):
        land(lakehouse, [("ann", minute + number) for minute in range(0, 3000, 50)])
    told = []
    options = RunOptions(max_bytes_per_batch=1, on_batch=lambda progress, counts: told.append(counts))
    summary = run_job(without_spark, lakehouse, windows(), Incremental(advance_to=minutes(10_000)), options=options)
    assert len(told) == 12
    assert summary.counts.rows["late.windows"] == 0
    # Had the files been read one after the other, nothing could have closed before the last.
    assert [counts.rows["windows"] > 0 for counts in told] == [True] * 12
    assert "are read 12.0 times" in " ".join(summary.warnings)
