"""Secrets of Spark's settings and Dagster: its pages and its records have the variable's name, and never what it holds."""

import json
import os
import sys
import textwrap
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest
from dagster._core.remote_representation.external_data import RepositorySnap
from dagster._serdes import serialize_value

from keyfold.dagster import Keyfold, KeyfoldResource
from keyfold.session import SparkSettings
from keyfold.session.settings import spark_conf
from keyfold.session.start import check_same
from tests.commands import ended_well
from tests.java_for_tests import fast_starts

SECRET = "planted-in-this-test"  # noqa: S105

PROGRAM = textwrap.dedent("""
    import json, os
    import dagster as dg
    from dagster._core.remote_representation.external_data import RepositorySnap
    from dagster._serdes import serialize_value
    from keyfold.dagster import Keyfold, KeyfoldResource
    from keyfold.session import SparkSettings, build_session

    @dg.asset
    def uses(context: dg.AssetExecutionContext, keyfold: dg.ResourceParam[Keyfold]) -> dg.MaterializeResult:
        key = keyfold.runners.session._jsc.hadoopConfiguration().get("fs.s3a.secret.key")
        context.log.info(f"settings: {sorted(name for name, _ in keyfold.runners.session.sparkContext.getConf().getAll())}")
        return dg.MaterializeResult(metadata={"letters": len(key)})

    resources = {"keyfold": KeyfoldResource.from_environment()}
    definitions = dg.Definitions(assets=[uses], resources=resources, jobs=[dg.define_asset_job("all_of_it", [uses])])
    shown = serialize_value(RepositorySnap.from_def(definitions.get_repository_def()))
    job = definitions.resolve_job_def("all_of_it")
    with dg.DagsterInstance.get() as instance:
        # Another session is there, so that the first run fails, and its error is recorded.
        other = build_session(SparkSettings(master="local[1]"))
        refused = job.execute_in_process(instance=instance, raise_on_error=False)
        other.stop()
        ran = job.execute_in_process(instance=instance, raise_on_error=False)
        (error,) = [
            event.event_specific_data.error.to_string()
            for event in refused.all_events
            if event.event_type_value == "STEP_FAILURE" and event.event_specific_data.error
        ] or [""]
        letters = ran.asset_materializations_for_node("uses")[0].metadata["letters"].value if ran.success else None
    print(json.dumps({"shown": shown, "refused": refused.success, "error": error, "letters": letters}))
""")


def test_a_secret_reaches_the_session_and_is_in_no_page_no_record_and_no_error(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("KEYFOLD_SPARK_CONF", f"spark.hadoop.fs.s3a.secret.key={SECRET}")
    monkeypatch.delenv("KEYFOLD_SPARK_MASTER", raising=False)
    asked: list[SparkSettings] = []

    def start(settings: SparkSettings) -> Any:
        asked.append(settings)
        if len(asked) == 1:
            # As where another session runs already: the error is recorded.
            check_same({}, spark_conf(settings))
        return SimpleNamespace(stop=lambda: None)

    monkeypatch.setattr("keyfold.session.start.build_session", start)
    monkeypatch.setattr("keyfold.session.start.work_ends_on_interrupt", lambda _: nullcontext())

    @dg.asset
    def uses(context: dg.AssetExecutionContext, keyfold: dg.ResourceParam[Keyfold]) -> None:
        context.log.info(f"settings: {context.run.run_config} of {keyfold.runners.session}")

    jobs = [dg.define_asset_job("all_of_it", [uses])]
    definitions = dg.Definitions(assets=[uses], resources={"keyfold": KeyfoldResource.from_environment()}, jobs=jobs)
    page = serialize_value(RepositorySnap.from_def(definitions.get_repository_def()))
    job = definitions.resolve_job_def("all_of_it")
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        refused, ran = (job.execute_in_process(instance=instance, raise_on_error=False) for _ in range(2))
    (error,) = [event.step_failure_data.error for event in refused.all_events if event.is_step_failure]
    assert ran.success
    assert [settings.conf["spark.hadoop.fs.s3a.secret.key"] for settings in asked] == [SECRET] * 2
    assert "(hidden) is requested" in str(error)
    assert "shuffle_partitions" in page
    records = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert b"(hidden) is requested" in records, "the records are where they are looked for"
    printed = capfd.readouterr()
    texts = (page, str(error), records.decode(errors="replace"), *printed)
    assert [SECRET in text for text in texts] == [False] * 5


# The test above does without Spark. `tests/private_values` looks for such a secret in all that runs with Spark leave, of a
# resource that is given as a session, and `tests/keyfold/session/test_secrets.py` in Spark's files and processes.
@pytest.mark.long
@pytest.mark.slow
def test_a_secret_of_spark_reaches_it_and_is_in_no_page_no_record_and_no_error_of_dagster(tmp_path):
    home = tmp_path / "dagster"
    home.mkdir()
    environment = {
        **{name: value for name, value in os.environ.items() if "SPARK" not in name},
        **fast_starts(),
        "DAGSTER_HOME": str(home),
        "KEYFOLD_SPARK_MASTER": "local[1]",
        "KEYFOLD_SPARK_CONF": f"spark.hadoop.fs.s3a.secret.key={SECRET}",
    }
    run = ended_well(sys.executable, "-c", PROGRAM, folder=tmp_path, environment=environment)
    told = json.loads(run.stdout.splitlines()[-1])
    assert told["letters"] == len(SECRET), run.stderr
    assert not told["refused"]
    assert "spark.hadoop.fs.s3a.secret.key" in told["error"]
    assert "(hidden) is requested" in told["error"]
    assert "shuffle_partitions" in told["shown"]
    records = b"".join(file.read_bytes() for file in home.rglob("*") if file.is_file())
    assert b"(hidden) is requested" in records, "the records are where they are looked for"
    for where in (records, run.stdout.encode(), run.stderr.encode()):
        assert SECRET.encode() not in where
