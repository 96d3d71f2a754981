"""The Spark home of local sessions: Spark's Python processes import the installed pyspark, and share one daemon."""

import os
from pathlib import Path

import pyspark
import pytest

from keyfold.session.scratch import make_spark_home, scratch_of_java


def test_the_home_has_all_of_spark_but_the_zip(tmp_path):
    home = make_spark_home(tmp_path)
    installed = Path(pyspark.__file__).parent
    assert {path.name for path in installed.iterdir()} - {path.name for path in home.iterdir()} == {"python"}
    assert (home / "bin" / "spark-submit").samefile(installed / "bin" / "spark-submit")


@pytest.mark.parametrize(
    ("master", "chosen", "is_made"),
    [("local[2]", None, True), ("local[2]", "/opt/spark", False), ("yarn", None, False)],
)
def test_only_local_sessions_without_a_home_of_the_user_s_get_it(monkeypatch, tmp_path, master, chosen, is_made):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.delenv("SPARK_HOME", raising=False)
    if chosen:
        monkeypatch.setenv("SPARK_HOME", chosen)
    with scratch_of_java({"spark.master": master}):
        home = os.environ.get("SPARK_HOME")
        assert (home not in (None, chosen)) == is_made
        assert not is_made or (Path(str(home)) / "jars").is_dir()
    assert os.environ.get("SPARK_HOME") == chosen


@pytest.mark.one_machine
def test_workers_import_the_installed_pyspark_and_share_one_daemon(spark):
    def look(_):
        import pyspark  # noqa: PLC0415 - in the worker

        yield pyspark.__file__, os.getppid()

    def look_by_table(batches):
        import pyarrow as pa  # noqa: PLC0415 - in the worker

        ((file, parent),) = look(batches)
        yield pa.RecordBatch.from_pylist([{"file": file, "parent": parent}])

    (of_job,) = spark.session.sparkContext.parallelize([0], 1).mapPartitions(look).collect()
    (of_plan,) = spark.session.range(1).coalesce(1).mapInArrow(look_by_table, "file string, parent long").collect()
    assert of_job[0] == pyspark.__file__
    assert tuple(of_plan) == of_job
