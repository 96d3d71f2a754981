"""Tables of a continuous run keep few files, and all rows."""

import pytest
from deltalake import DeltaTable

from spark_jobs.cli import care
from spark_jobs.cli.care import TableCare
from spark_jobs.errors import KeyfoldError
from spark_jobs.keyed.runner import RunOptions, run_job
from spark_jobs.lakehouse import Lakehouse
from tests.spark_jobs.keyed.without_spark import SPARK, without_spark
from tests.spark_jobs.state.job_histories import History, put

__all__ = ["without_spark"]

HISTORY = History("anomaly_predictions", {"order": "arrival", "emit": "all", "model": "ewma"})


def run(lakehouse, job, parts, every):
    careful = TableCare(lakehouse, job, every)
    for part in parts:
        put(lakehouse, job.stream, part)
        run_job(SPARK, lakehouse, job, options=RunOptions(on_batch=lambda *_: careful.after_batch()))


def files(lakehouse):
    return len(DeltaTable(str(lakehouse.table("anomaly_predictions"))).file_uris())


@pytest.mark.usefixtures("without_spark")
def test_small_files_are_joined_every_so_many_batches_and_no_row_is_lost_or_comes_again(tmp_path):
    job, parts = HISTORY.job(), [small for part in HISTORY.parts() for small in part.iter_slices(12)]
    plain, careful = Lakehouse(tmp_path / "plain"), Lakehouse(tmp_path / "careful")
    run(plain, job, parts, every=len(parts) + 1)
    run(careful, job, parts, every=5)
    assert files(plain) >= len(parts)
    assert files(careful) < 5 * 3
    tables = [DeltaTable(str(home.table("anomaly_predictions"))).to_pyarrow_table() for home in (plain, careful)]
    one, other = (sorted(map(str, table.to_pylist())) for table in tables)
    assert one == other
    assert len(one) == sum(part.height for part in parts)


@pytest.mark.usefixtures("without_spark")
def test_a_run_goes_on_where_files_cannot_be_joined_and_says_so(tmp_path, monkeypatch, capsys):
    def maintain(*_, **__):
        raise KeyfoldError("the disk is full")

    monkeypatch.setattr(care, "maintain", maintain)
    lakehouse, job = Lakehouse(tmp_path), HISTORY.job()
    run(lakehouse, job, HISTORY.parts(), every=2)
    assert capsys.readouterr().err.count("were not joined: the disk is full") == 2
