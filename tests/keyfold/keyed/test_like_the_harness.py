"""The engine and the in-memory harness have one clock: the same events give the same rows, state and watermark."""

from datetime import timedelta

import polars as pl
import pyarrow as pa
from deltalake import write_deltalake
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from keyfold.keyed.calling.harness import TestHarness
from keyfold.keyed.job.step import DEADLINE, Step
from keyfold.keyed.runner import run_job
from keyfold.lakehouse.commits import append_files
from keyfold.lakehouse.data_files import write_data_file
from keyfold.lakehouse.reading import scan_table
from keyfold.stream import INGESTED_AT
from tests.examples import examples
from tests.keyfold.keyed.toy_jobs import CLICK, START, TIME, windows

ARRIVED = CLICK.append(pa.field(INGESTED_AT, TIME))


def passed(state, events, clock):
    """Clicks, each given out once the watermark has passed it."""
    known = pl.concat([state.drop(DEADLINE), events])
    is_over = pl.col("at") <= clock.watermark
    return Step(state=known.filter(~is_over).with_columns(deadline="at"), output=known.filter(is_over))


def passing(delay, time):
    return windows(
        step=passed,
        watermark_delay=timedelta(microseconds=delay),
        state=CLICK.append(pa.field(DEADLINE, TIME)),
        output=CLICK,
        output_events=pl.len(),
        state_events=pl.len(),
        key_groups=1,
        time_from=INGESTED_AT if time == "arrival" else "",
    )


def clicked(rows):
    """Clicks of (user, microseconds after START), which arrive in this order a microsecond after one another."""
    at = [START + timedelta(microseconds=moment) for _, moment in rows]
    arrived = [START + timedelta(microseconds=5_000_000 + number) for number, _ in enumerate(rows)]
    columns = {"user": [user for user, _ in rows], "at": at, "clicks": [1] * len(rows), INGESTED_AT: arrived}
    return pl.DataFrame(
        columns, schema_overrides={"at": pl.Datetime("us", "UTC"), INGESTED_AT: pl.Datetime("us", "UTC")}
    )


RUNS = st.lists(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(-3_000, 3_000)), min_size=1, max_size=6),
    min_size=1,
    max_size=3,
)


@examples(40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(runs=RUNS, delay=st.integers(0, 2_500), time=st.sampled_from(["event", "arrival"]), by_ingest=st.booleans())
def test_any_microseconds_give_the_same_rows_state_and_watermark(without_spark, new_home, runs, delay, time, by_ingest):
    lakehouse, job = new_home("lake"), passing(delay, time)
    table, harness = lakehouse.events("clicks"), TestHarness(job)
    table.parent.mkdir(parents=True)
    begun = clicked([row for run in runs for row in run])
    write_deltalake(str(table), begun.clear())
    read = 0
    for number, run in enumerate(runs):
        events = begun.slice(read, len(run))
        read += len(run)
        if by_ingest:
            append_files(table, [write_data_file(events, table, ARRIVED)], "ingest", number)
        else:
            # Delta's library tells times to the millisecond.
            write_deltalake(str(table), events, mode="append")
        summary = run_job(without_spark, lakehouse, job)
        harness.batch((events if time == "event" else events.with_columns(at=INGESTED_AT)).drop(INGESTED_AT))
        assert summary.watermark == harness.watermark
        assert summary.totals.open_events == harness.state.height
        for name, expected in harness.written.items():
            assert sorted(scan_table(lakehouse.table(name)).collect().rows()) == sorted(expected.rows()), name
