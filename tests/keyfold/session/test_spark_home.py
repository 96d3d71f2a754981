"""The Spark home of local sessions: Spark's Python processes import the installed pyspark."""

from pathlib import Path

import pyspark
import pytest

from keyfold.session import java
from keyfold.session.scratch import spark_home


def test_the_home_has_all_of_spark_but_the_zip(tmp_path):
    home = spark_home(tmp_path)
    installed = Path(pyspark.__file__).parent
    assert {path.name for path in installed.iterdir()} - {path.name for path in home.iterdir()} == {"python"}
    assert (home / "bin" / "spark-submit").samefile(installed / "bin" / "spark-submit")


@pytest.mark.parametrize(
    ("master", "chosen", "is_made"),
    [("local[2]", None, True), ("local[2]", "/opt/spark", False), ("yarn", None, False)],
)
def test_only_local_sessions_without_a_home_of_the_user_s_get_it(monkeypatch, tmp_path, master, chosen, is_made):
    monkeypatch.delenv("SPARK_HOME", raising=False)
    if chosen:
        monkeypatch.setenv("SPARK_HOME", chosen)
    home = java.variables({"spark.master": master}, tmp_path).get("SPARK_HOME")
    assert (home is not None) == is_made
    assert not is_made or (Path(str(home)) / "jars").is_dir()


@pytest.mark.one_machine
def test_workers_import_the_installed_pyspark(spark):
    assert spark.spark.map(where_pyspark_is, [0]) == [pyspark.__file__]


def where_pyspark_is(_: int) -> str:
    import pyspark  # noqa: PLC0415 - in the worker

    return pyspark.__file__
