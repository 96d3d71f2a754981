"""How event time moves: by times that events have of their own, and by arrivals only where there are no others."""

from datetime import UTC, datetime, timedelta

import polars as pl
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from keyfold.journal.clock import Reading
from keyfold.keyed.generation.batch_records import ClockRecord, KeyedDone
from keyfold.keyed.job.building import build_job
from keyfold.keyed.plans.event_time import NewestTimes, newest_times
from keyfold.keyed.plans.planning import RunBounds, plan_run
from keyfold.lakehouse.log_changes import DataFile
from keyfold.storage.disk_path import DiskPath
from keyfold.stream import INGESTED_AT
from keyfold.times import BEGINNING, END, micros, shifted
from spark_jobs.jobs.purchase_totals import PURCHASE_TOTALS
from tests.examples import examples
from tests.on_a_grid import on_grid
from tests.shop import NOON

DELAY, IDLE = timedelta(minutes=10), timedelta(hours=2)
JOB = build_job(PURCHASE_TOTALS, {"delay": "10m", "idle_timeout": "2h"})
TABLE, SALES = "events.sales", "sales"
UTC_TIME = pl.Datetime("us", "UTC")


def minutes(count: float) -> datetime:
    return NOON + timedelta(minutes=count)


def sales(own: list[datetime], arrived: datetime, lacking: int) -> pl.DataFrame:
    """Events of these times of their own, and so many that are of their arrival."""
    times = sorted([*own, *[arrived] * lacking])
    return pl.DataFrame(
        {"time": times, INGESTED_AT: [arrived] * len(times)}, schema=dict.fromkeys(("time", INGESTED_AT), UTC_TIME)
    )


class Runs:
    """Runs of a job on sales, as the planner has them; whatever it plans counts as done."""

    def __init__(self, table, max_bytes=1 << 30, job=JOB):
        self._table, self._max_bytes, self._job = table, max_bytes, job
        self._done, self._clock = None, None

    def run(self, now, events=None):
        """Let events come, if any, and plan a run; gives what was planned."""
        if events is not None and events.height:
            events.write_delta(str(self._table), mode="append")
        bounds, reading = RunBounds(self._max_bytes), Reading(wall=now, uptime=0, boot="")
        planned = plan_run(self._job, {TABLE: self._table}, self._done, self._clock, reading, bounds)
        self._clock = planned.clock
        for plan in planned.plans:
            told = {name: getattr(plan, name) for name in ("batch", "run", "times")}
            self._done = KeyedDone(
                **told,
                finished_at=now,
                seconds=0,
                tables={},
                last_written={},
                last_files={},
                positions={one.table: one.position for one in plan.inputs},
                watermark=plan.clock.watermark,
                rows={},
                total_rows={},
            )
        return planned


class Definition:
    """The clock by its definition, a run at a time, without files, slices or records."""

    def __init__(self):
        self.watermark, self.newest, self.arrived_at, self.is_arrival = BEGINNING, None, None, False

    def run(self, now, own, lacking):
        if own or (lacking and (self.newest is None or self.is_arrival)):
            times = [*own] if own else [now]
            newest: datetime = max([*times, *([self.newest] if self.newest else [])])
            self.newest, self.arrived_at, self.is_arrival = newest, now, not own
            self.watermark = max(self.watermark, newest - DELAY)
        elif self.newest and now - self.arrived_at >= IDLE:
            gone_by = self.newest + (now - self.arrived_at)
            furthest = max(self.newest, self.watermark + DELAY) + timedelta(days=1)
            self.watermark = max(self.watermark, min(gone_by, furthest) - DELAY)


RUNS = st.lists(
    st.tuples(on_grid(300, 10, 1), st.lists(on_grid(0, 60, -9000), max_size=4), st.integers(0, 2)),
    min_size=1,
    max_size=6,
)


@examples(40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(RUNS, st.sampled_from([1, 1 << 30]))
def test_only_times_of_their_own_move_event_time_and_arrivals_do_where_there_are_no_others(
    tmp_path_factory, runs, max_bytes
):
    table = DiskPath(tmp_path_factory.mktemp("sales")) / "table"
    sales([], NOON, 0).write_delta(str(table))
    engine, definition, now = Runs(table, max_bytes), Definition(), NOON
    for later, offsets, lacking in runs:
        now += timedelta(minutes=later)
        before = definition.watermark
        # A time of its own is never the very moment of the arrival.
        own = [now + timedelta(minutes=offset, microseconds=-1) for offset in offsets]
        planned = engine.run(now, sales(own, now, lacking))
        definition.run(now, own, lacking)
        assert planned.clock.watermark == definition.watermark
        for plan, following in zip(planned.plans, planned.plans[1:], strict=False):
            # What is still to come in the run is ahead of the watermark, unless it was behind when the run began.
            assert following.since is not None
            assert plan.clock.watermark <= max(before, following.since - DELAY)
            assert plan.clock.watermark == following.clock.previous_watermark


def test_an_arrival_makes_no_history_late_and_waits_where_it_is(tmp_path):
    runs = Runs(tmp_path)
    year = timedelta(days=365)
    runs.run(NOON, sales([NOON - 2 * year], NOON, 1))
    planned = runs.run(minutes(1), sales([NOON - year], minutes(1), 3))
    assert planned.clock.watermark == NOON - year - DELAY
    (told,) = planned.warnings
    assert "have no time of their own and are of their arrival, up to 2026-01-01 12:01" in told
    assert "time=arrival" in told


def test_a_table_of_before_there_were_arrivals_is_of_its_events_own_times(tmp_path):
    runs = Runs(tmp_path)
    planned = runs.run(NOON, sales([minutes(-60)], NOON, 0).drop(INGESTED_AT))
    assert planned.clock.watermark == minutes(-60) - DELAY


FILES = st.lists(
    st.tuples(st.lists(st.integers(-1000, 100), max_size=8), st.integers(0, 100), st.integers(0, 4)),
    min_size=1,
    max_size=4,
)


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(FILES, st.integers(1, 5))
def test_the_newest_time_of_its_own_is_found_however_rows_lie_in_files_and_their_groups(
    tmp_path_factory, files, rows_a_group
):
    table = DiskPath(tmp_path_factory.mktemp("table"))
    own, everything, chosen = [], [], []
    for at, (offsets, arrived, lacking) in enumerate(files):
        times = [minutes(offset) + timedelta(microseconds=1) for offset in offsets]
        rows = sales(times, minutes(arrived), lacking)
        if not rows.height:
            continue
        rows.write_parquet(table / f"{at}.parquet", row_group_size=rows_a_group)
        first, last = (micros(rows["time"][place]) for place in (0, -1))
        chosen.append((DataFile(f"{at}.parquet", rows.height, 1, first, last), True))
        own += times
        everything += rows["time"].to_list()
    came = newest_times(JOB.inputs[SALES], table, [file for file, _ in chosen])
    assert came == NewestTimes(max(everything, default=None), max(own, default=None))


@examples(40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    times=st.lists(st.datetimes(timezones=st.just(UTC)), min_size=1, max_size=3),
    reached=st.datetimes(timezones=st.just(UTC)) | st.just(END),
    delay=st.integers(0, 365_000),
    until=st.datetimes(timezones=st.just(UTC)) | st.just(BEGINNING),
)
def test_a_run_is_planned_whatever_times_events_have_and_however_far_event_time_was_moved(
    tmp_path_factory, times, reached, delay, until
):
    table = DiskPath(tmp_path_factory.mktemp("sales")) / "table"
    job = build_job(PURCHASE_TOTALS, {"delay": f"{delay}d", "idle_timeout": "365000d"})
    runs = Runs(table, job=job)
    runs.run(NOON, sales(times, NOON, 0))
    # As a home that an older version moved to the end of all time.
    runs._clock = ClockRecord(watermark=reached, processing_time=NOON, reading=Reading(wall=NOON, uptime=0, boot=""))
    for now in (NOON + timedelta(days=1), END):
        planned = runs.run(now, sales(times, NOON, 1))
        assert planned.clock.watermark >= reached
        is_far = planned.clock.watermark > shifted(now, timedelta(days=366))
        assert any("--full-refresh" in one for one in planned.warnings) or not is_far
    bounds, reading = RunBounds(1 << 30, until=until), Reading(wall=NOON, uptime=0, boot="")
    for plan in plan_run(job, {TABLE: table}, None, None, reading, bounds).plans:
        assert (newest := plan.times[SALES].newest) is None or newest < until
