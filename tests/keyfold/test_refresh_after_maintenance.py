"""Whatever the layout of an event table's files, a job that reads it from the beginning makes the same tables."""

import polars as pl
import pytest
from deltalake import DeltaTable

from keyfold.ingestion import ingest
from keyfold.keyed.generation.run_mode import FullRefresh, Replay
from keyfold.keyed.job.building import build_job
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.runner import RunOptions, run_job
from keyfold.lakehouse import Lakehouse
from keyfold.maintenance import MaintainedTable, maintain
from keyfold.storage.place import Place
from spark_jobs.jobs.registry import JOBS
from spark_jobs.streams import STREAMS
from tests.folders import simulate_into
from tests.keyfold.keyed.without_spark import SPARK


@pytest.mark.parametrize(
    ("name", "size", "files"),
    [("moving_averages", 6, 12), pytest.param("ride_summaries", 60, 6, marks=pytest.mark.slow)],
)
def test_a_refresh_and_a_replay_after_maintenance_make_the_tables_of_before(lakehouse, name, size, files):
    job = build_job(JOBS[name], {"key_groups": 8})
    stream = STREAMS[job.only_input.stream.name]
    made = simulate_into(lakehouse.landing(stream.name), stream.name, size=size, seed=5, files=files)
    ingest(lakehouse, stream, max_bytes_per_batch=1, runners=SPARK)
    events = lakehouse.events(stream.name)
    small_batches = RunOptions(max_bytes_per_batch=DeltaTable(str(events)).get_add_actions()["size_bytes"][0].as_py())
    summary = run_job(lakehouse, job, options=small_batches, runners=SPARK)
    assert (summary.counts.events, summary.counts.rows[job.late_table]) == (made.events, 0)
    assert len(summary.batch_seconds) > 3
    expected = contents(lakehouse, job)
    assert expected[job.name]

    before = len(DeltaTable(str(events)).file_uris())
    DeltaTable(str(events)).alter.set_table_properties({"delta.targetFileSize": str(files_size(events) // 3)})
    table = MaintainedTable(f"events.{stream.name}", events, time=stream.event_time)
    assert 1 < maintain(lakehouse, table).files_after < before
    assert run_job(lakehouse, job, runners=SPARK).counts.events == 0

    refreshed = run_job(lakehouse, job, FullRefresh(), options=small_batches, runners=SPARK)
    assert (refreshed.counts.events, refreshed.counts.rows[job.late_table]) == (made.events, 0)
    assert contents(lakehouse, job) == expected
    run_job(lakehouse, job, Replay("again"), runners=SPARK)
    assert contents(lakehouse, job, "@again") == expected


def contents(lakehouse: Lakehouse, job: KeyedJob, branch: str = "") -> dict[str, list[tuple]]:
    """Every table's rows, in one order."""
    return {
        table.name: sorted(pl.read_delta(str(lakehouse.table(table.name + branch))).rows(), key=repr)
        for table in job.tables
    }


def files_size(table: Place) -> int:
    return sum(DeltaTable(str(table)).get_add_actions()["size_bytes"].to_pylist())
