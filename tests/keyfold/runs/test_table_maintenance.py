"""Tables of a continuous run keep few files and short logs, and all rows."""

import threading

import pytest
from deltalake import DeltaTable

from keyfold.errors import KeyfoldError
from keyfold.ingestion import ingest_totals
from keyfold.keyed.job_run import RunOptions, run_job
from keyfold.lakehouse import Lakehouse
from keyfold.maintenance import maintain
from keyfold.runs import ingest, table_maintenance
from keyfold.runs.table_maintenance import TableMaintenance, tables_of_ingest, tables_of_job
from tests.keyfold.state.job_histories import History, put
from tests.lake import LOCAL
from tests.landings import EVENTS, event, land

HISTORY = History("anomaly_predictions", {"order": "arrival", "emit": "all", "model": "ewma"})


def run(lakehouse, job, parts, every, **options):
    with TableMaintenance(lakehouse, lambda: tables_of_job(lakehouse, job), every, **options) as maintenance:
        for part in parts:
            put(lakehouse, job.only_input.stream.name, part)
            run_job(lakehouse, job, options=RunOptions(on_batch=lambda *_: maintenance.after_batch()), runners=LOCAL)


def files(lakehouse):
    return len(DeltaTable(str(lakehouse.table("anomaly_predictions"))).file_uris())


@pytest.mark.usefixtures("without_spark")
def test_small_files_are_joined_every_so_many_batches_and_no_row_is_lost_or_comes_again(tmp_path):
    job, parts = HISTORY.job(), [small for part in HISTORY.parts() for small in part.iter_slices(48)]
    plain, maintained = Lakehouse(tmp_path / "plain"), Lakehouse(tmp_path / "maintained")
    run(plain, job, parts, every=len(parts) + 1)
    run(maintained, job, parts, every=5)
    assert files(plain) >= len(parts)
    # What goes on beside may be busy when it is time again.
    assert files(maintained) < files(plain) / 2
    tables = [DeltaTable(str(home.table("anomaly_predictions"))).to_pyarrow_table() for home in (plain, maintained)]
    one, other = (sorted(map(str, table.to_pylist())) for table in tables)
    assert one == other
    assert len(one) == sum(part.height for part in parts)


@pytest.mark.usefixtures("without_spark")
def test_a_run_goes_on_where_files_cannot_be_joined_and_says_so(tmp_path, monkeypatch):
    def maintain(*_, **__):
        raise KeyfoldError("the disk is full")

    monkeypatch.setattr(table_maintenance, "maintain", maintain)
    lakehouse, job = Lakehouse(tmp_path), HISTORY.job()
    told: list[str] = []
    run(lakehouse, job, HISTORY.parts(), every=2, on_warning=told.append)
    assert "small files of latest_predictions were not compacted: the disk is full" in told
    assert "small files of anomaly_predictions were not compacted: the disk is full" in told


def test_files_of_an_event_table_are_joined_beside_the_batches_and_batches_wait_for_none_of_it(tmp_path, monkeypatch):
    lakehouse, landing, joining, joined = Lakehouse(tmp_path / "home"), tmp_path / "landing", threading.Event(), []

    def slow(*given, **named):
        assert joining.wait(60)
        joined.append(maintain(*given, **named))

    monkeypatch.setattr(table_maintenance, "maintain", slow)
    with TableMaintenance(lakehouse, lambda: tables_of_ingest(lakehouse, EVENTS), every=3) as maintenance:
        for number in range(9):
            land(landing / f"{number}.ndjson", [event(seq=number)])
            ingest(lakehouse, EVENTS, landing, on_batch=lambda _: maintenance.after_batch(), runners=LOCAL)
        # Nothing was joined yet, and nine batches are through.
        assert ingest_totals(lakehouse, EVENTS).accepted == 9
        assert not joined
        joining.set()
    table = DeltaTable(str(lakehouse.events("clicks")))
    assert joined[0].files_after < 9
    assert sorted(row["seq"] for row in table.to_pyarrow_table().to_pylist()) == list(range(9))
    # As long as replaced files are kept: else each checkpoint would name those of a week.
    assert table.metadata().configuration["delta.deletedFileRetentionDuration"] == "interval 3600 seconds"
