"""Conservation where it is hard to count: odd paths, events that combined rows stand for, tables beside the main one."""

from datetime import timedelta

import polars as pl
import pyarrow as pa

from keyfold.keyed.job.inputs import STEP_DECIDES
from keyfold.keyed.job.step import Clock, Step
from keyfold.keyed.job.tables import Append
from keyfold.keyed.reporting.conservation import Conservation, check_conservation
from keyfold.keyed.runner import run_job
from keyfold.lakehouse import Lakehouse
from keyfold.stream import Stream
from tests.keyfold.keyed.toy_jobs import START, TIME, job_of, windows
from tests.lake import Lake

CLOSED = pa.schema([("user", pa.string()), ("n_events", pa.int64())])
USER, HOUR = pa.field("user", pa.string(), nullable=False), pa.field("hour", TIME, nullable=False)
JOINED = pa.schema([USER, HOUR, ("at", TIME), ("n_events", pa.int64())])
HOURS = pa.schema([*JOINED, ("deadline", TIME)])


def test_state_is_counted_in_a_folder_of_any_name(without_spark, tmp_path):
    lakehouse = Lakehouse(tmp_path / "a home, 100% é")
    Lake(lakehouse).click(("ann", 0), ("bob", 30))
    run_job(lakehouse, windows(), runners=without_spark)
    assert check_conservation(lakehouse, windows()) == Conservation(2, 1, 1, 0, 2)


def test_inputs_that_are_counted_apart_are_something_to_compare():
    assert Conservation(0, 0, 0, 0, 0, by_input={"clicks": (0, 0)}).is_empty
    assert not Conservation(0, 0, 0, 0, 0, by_input={"clicks": (3, 3)}).is_empty


def join(events: pl.DataFrame) -> pl.DataFrame:
    return events.group_by("user", "hour").agg(pl.col("at").max(), pl.col("n_events").sum())


def hourly(state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
    """Counts an hour's clicks; says nothing of them in its own table, and what closed in the one beside it."""
    is_late = pl.col("hour") + timedelta(hours=1) <= clock.previous_watermark
    late = events.filter(is_late)
    all_ = pl.concat([state.drop("deadline"), events.filter(~is_late)])
    sums = join(all_).with_columns(deadline=pl.col("hour") + timedelta(hours=1)).select(HOURS.names)
    is_over = pl.col("deadline") <= clock.watermark
    closed = sums.filter(is_over).select("user", "n_events")
    return Step(sums.filter(~is_over), pl.DataFrame(schema={"user": pl.String}), late, {"closed": closed})


HOURLY = job_of(
    name="hourly",
    stream=Stream("clicks", JOINED, event_time="at"),
    key=("hour", "user"),
    final_at=STEP_DECIDES,
    columns=JOINED,
    state=HOURS,
    output=pa.schema([("user", pa.string())]),
    step=hourly,
    derive={
        "hour": pl.col("at").dt.truncate("1h"),
        "n_events": pl.lit(1, pl.Int64),
    },
    combine=join,
    event_count=pl.col("n_events").sum(),
    more=(Append(CLOSED, name="closed", events=pl.col("n_events").sum()),),
    key_groups=4,
    output_events=pl.lit(0),
    state_events=pl.col("n_events").sum(),
)


def test_a_key_may_be_derived_and_rows_may_stand_for_many_events_wherever_they_end(without_spark, lakehouse):
    Lake(lakehouse).click(*[("ann", minute) for minute in range(10)], ("bob", 70), ("bob", 71))
    summary = run_job(lakehouse, HOURLY, runners=without_spark)
    assert summary.counts.events == 12
    assert check_conservation(lakehouse, HOURLY) == Conservation(12, 10, 2, 0, 12)
    # Behind the watermark but in an hour that is still open, and in one that is over.
    Lake(lakehouse).click(("cid", 65), ("ann", 20), ("ann", 21))
    run_job(lakehouse, HOURLY, runners=without_spark)
    assert check_conservation(lakehouse, HOURLY) == Conservation(15, 10, 3, 2, 15)
    late = pl.read_delta(str(lakehouse.table("late.hourly")))
    assert late["n_events"].sum() == 2
    assert late["hour"].unique().to_list() == [START]
