"""What runs promise of any job: rows, state and watermark are those of plain Python, however events come and wherever a run dies.

Each case has a job and an oracle; all play the same histories: in files of any sizes and orders, cut into any batches, on time
and late, by event time and by arrival, with power cuts at any points, and state in parts of any sizes.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from keyfold import KeyedJob, Lakehouse, Step, TestHarness
from keyfold.errors import KeyfoldError
from keyfold.keyed.execution import operator
from keyfold.keyed.generation.generations import live_generation
from keyfold.keyed.generation.run_mode import FullRefresh, Incremental
from keyfold.keyed.job.step import DEADLINE
from keyfold.keyed.job_run import RunOptions
from keyfold.keyed.state_parts.part_rows import Sizes
from keyfold.lakehouse import create_table, fail_points
from keyfold.lakehouse.commits import append_files
from keyfold.lakehouse.data_files import write_data_file
from keyfold.maintenance.compaction import compact
from keyfold.storage.place import Place
from keyfold.stream import INGESTED_AT, TIMESTAMP
from tests.examples import examples
from tests.keyfold.keyed.contract_oracles import Clicks, Notes, Passed, Windows
from tests.keyfold.keyed.toy_jobs import notes, windows
from tests.keyfold.state.local_state import frames_of_state
from tests.lake import Lake, minutes
from tests.on_a_grid import moments
from tests.power_cuts import Cut, PowerCut
from tests.shop import CLICK, clicks

ARRIVED = CLICK.append(pa.field(INGESTED_AT, TIMESTAMP))
CRASHES = [
    point for point in fail_points.POINTS if point.startswith(("plan", "work", "state", "done", "commit", "merge"))
]


def passed(state: pl.DataFrame, events: pl.DataFrame, clock: Any) -> Step:
    known = pl.concat([state.drop(DEADLINE), events])
    is_over = pl.col("at") <= clock.watermark
    return Step(state=known.filter(~is_over).with_columns(deadline="at"), output=known.filter(is_over))


def passing(**changes: Any) -> KeyedJob:
    kept = CLICK.append(pa.field(DEADLINE, TIMESTAMP))
    counts = {"output_events": pl.len(), "state_events": pl.len()}
    return windows(step=passed, state=kept, output=CLICK, final_at="at", **counts, **changes)


@dataclass(frozen=True)
class Case:
    """A job under test.

    Attributes:
        job: makes it, of settings.
        oracle: says what it gives.
        by_batch: whether a batch without events may change its state too, so that it matters how a run is divided.
        by_arrival: whether it goes by when events arrived.
    """

    job: Callable[..., KeyedJob]
    oracle: type[Any]
    by_batch: bool = False
    by_arrival: bool = False


CASES = {
    "windows": Case(windows, Windows),
    "passing, by arrival": Case(passing, Passed, by_arrival=True),
    "rows added and dropped": Case(notes, Notes, by_batch=True),
}


@dataclass(frozen=True)
class Run:
    """Files that come, and how they are read: in batches of a size, after runs that die."""

    files: list[list[tuple[str, float]]]
    by_ingest: bool
    batch_bytes: int
    crashes: list[tuple[str, int]]

    @property
    def events(self) -> list[tuple[str, float]]:
        return [event for file in self.files for event in file]


EVENT = st.tuples(st.sampled_from(["ann", "bob", "cid", "eve"]), moments(90, 5))
RUNS = st.lists(
    st.builds(
        Run,
        st.lists(st.lists(EVENT, min_size=1, max_size=6), min_size=1, max_size=3),
        st.booleans(),
        st.sampled_from([1, 128 << 20]),
        st.lists(st.tuples(st.sampled_from(CRASHES), st.integers(1, 3)), max_size=2),
    ),
    min_size=1,
    max_size=4,
)
SIZES = st.sampled_from(
    [Sizes(rows_a_group=2, rows_a_segment=4, inline_bytes=0, small_bytes=0), Sizes(small_bytes=0), Sizes()]
)


JOINS = st.sampled_from(
    [None, lambda table: DeltaTable(str(table)).optimize.compact(), lambda table: compact(table, "at")]
)
"""Who joins files before a refresh: nobody, another program, or maintenance."""


class Played:
    """A job that runs beside its oracle and the harness."""

    def __init__(self, folder: Path, case: Case, delay: timedelta) -> None:
        self.case, self.delay = case, delay
        self.lake = Lake(Lakehouse(folder / "home"))
        self.oracle, self.harness = case.oracle(), TestHarness(self.job())
        self.oracle.delay = delay
        self.watermark: datetime | None = None
        self.came, self.batches = 0, 0
        create_table(self.lake.lakehouse.events("clicks"), ARRIVED)

    def job(self) -> KeyedJob:
        clock = {"time_from": INGESTED_AT} if self.case.by_arrival else {}
        return self.case.job(delay=self.delay, **clock)

    def land(self, file: list[tuple[str, float]], *, by_ingest: bool) -> None:
        arrived = [self.arrival(self.came + number) for number in range(len(file))]
        self.came += len(file)
        frame = clicks(*file).with_columns(pl.Series(INGESTED_AT, arrived, pl.Datetime("us", "UTC")))
        table = self.lake.lakehouse.events("clicks")
        if by_ingest:
            append_files(table, [write_data_file(frame, table, ARRIVED)], "ingest", self.came)
        else:
            # Delta's library tells times to the millisecond.
            self.lake.put(frame)

    def arrival(self, number: int) -> datetime:
        return minutes(5 * number) + timedelta(microseconds=number % 3 - 1)

    def run(self, run: Run) -> None:
        first = self.came
        for file in [run.events] if self.case.by_batch else run.files:
            self.land(file, by_ingest=run.by_ingest)
        job = self.job()
        options = RunOptions(max_bytes_per_batch=128 << 20 if self.case.by_batch else run.batch_bytes)
        for crash in run.crashes:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(fail_points, "act", Cut(*crash))
                self.attempt(job, options)
        summary = self.lake.run(job, options=options)
        came = [(user, minutes(at)) for user, at in run.events]
        if self.case.by_arrival:
            came = [(user, self.arrival(first + number)) for number, (user, _) in enumerate(came)]
        before, newest = self.watermark, max(at for _, at in came) - self.delay
        self.watermark = newest if before is None else max(before, newest)
        done = self.lake.done(job.name)
        # A run that died had its batch, and the one after it has another: rows that a job keeps though they are due are so again.
        for number in range(done.batch + 1 - self.batches if self.case.by_batch else 1):
            given_out = came if number == 0 else []
            self.oracle.take(given_out, before, self.watermark)
            self.harness.batch(frame_of(given_out))
        self.batches = done.batch + 1
        assert summary.watermark == self.harness.watermark == self.watermark
        assert summary.totals.events == self.came
        self.check_state(done.batch)
        assert summary.totals.open_events == self.oracle.events()

    def attempt(self, job: KeyedJob, options: RunOptions) -> None:
        try:
            self.lake.run(job, options=options)
        except Exception as error:
            assert isinstance(error, PowerCut) or isinstance(error.__cause__, PowerCut)  # noqa: PT017

    def check_state(self, batch: int) -> None:
        frames = [self.harness.state.clear(), *frames_of_state(self.lake.live(self.job().name), batch)]
        expected = sorted(self.oracle.rows(), key=str)
        for state in (pl.concat(frames, how="diagonal"), self.harness.state):
            assert sorted(state.select(self.oracle.columns).rows(), key=str) == expected

    def check_tables(self) -> None:
        job = self.job()
        expected = {job.name: self.oracle.output, job.late_table: self.oracle.late}
        for name, rows in expected.items():
            columns = ("user", "at") if name == job.late_table or "at" in job.main.schema.names else self.oracle.columns
            assert self.lake.rows(name, *columns) == sorted(rows)
            assert sorted(self.harness.written[name].select(columns).rows()) == sorted(rows)
        self.harness.assert_nothing_lost()


def frame_of(came: Clicks) -> pl.DataFrame:
    return pl.DataFrame([(*one, 1) for one in came], schema=clicks().schema, orient="row")


@pytest.mark.parametrize("name", CASES)
@examples(60)
@given(runs=RUNS, delay=moments(10, 5), sizes=SIZES, joins=JOINS)
def test_any_history_gives_the_rows_the_state_and_the_watermark_of_plain_python(name, runs, delay, sizes, joins):
    case = CASES[name]
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(operator, "SIZES", sizes)
        played = Played(Path(folder), case, max(timedelta(0), timedelta(minutes=delay)))
        for run in runs:
            played.run(run)
        played.check_tables()
        if not case.by_batch:
            refresh(played, runs, joins)


def refresh(played: Played, runs: list[Run], joins: Callable[[Place], object] | None) -> None:
    """A refresh reads the same events as one run, whatever files they lie in by then: none is late."""
    job, came = played.job(), [(user, minutes(at)) for run in runs for user, at in run.events]
    if played.case.by_arrival:
        came = [(user, played.arrival(number)) for number, (user, _) in enumerate(came)]
    if joins:
        joins(played.lake.lakehouse.events("clicks"))
        assert played.lake.run(job).counts.events == 0
    played.lake.run(job, FullRefresh(), options=RunOptions(max_bytes_per_batch=runs[0].batch_bytes))
    played.oracle, played.harness = played.case.oracle(), TestHarness(job)
    played.oracle.take(came, None, max(at for _, at in came) - played.delay)
    played.harness.batch(frame_of(came))
    played.check_state(played.lake.done(job.name).batch)
    played.check_tables()


def test_an_event_table_without_arrivals_is_told_of_before_anything_is_made(lake):
    lake.click(("ann", 0))
    with pytest.raises(KeyfoldError, match=r"goes by ingested_at, a column .*keyfold ingest clicks --rebuild"):
        lake.run(passing(time_from=INGESTED_AT))
    assert live_generation(lake.lakehouse, "windows") is None


def test_files_that_each_span_all_of_the_time_are_cut_and_it_is_said(lake):
    for number in range(12):
        lake.click(*[("ann", minute + number) for minute in range(0, 3000, 50)])
    told = []
    options = RunOptions(max_bytes_per_batch=1, on_batch=lambda progress, counts: told.append(counts))
    summary = lake.run(windows(), Incremental(advance_to=minutes(10_000)), options=options)
    assert len(told) == 12
    assert summary.counts.rows["late.windows"] == 0
    # Had the files been read one after the other, nothing could have closed before the last.
    assert [counts.rows["windows"] > 0 for counts in told] == [True] * 12
    assert "are read 12.0 times" in " ".join(summary.warnings)


@pytest.mark.parametrize("name", ["late.clicks", "changes.clicks", "late.windows"])
def test_an_author_s_own_table_cannot_have_the_name_of_one_of_the_engine(name):
    job = windows()
    side = replace(job.main, name=name)
    with pytest.raises(KeyfoldError, match=f"name is '{name}': it must be lower-case"):
        replace(job, tables=(job.main, side))
