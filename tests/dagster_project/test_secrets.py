"""Secrets of Spark's settings and Dagster: its pages and its records have the variable's name, and never what it holds."""

from typing import Any
from unittest.mock import MagicMock

import dagster as dg
from dagster._core.remote_representation.external_data import RepositorySnap
from dagster._serdes import serialize_value

from keyfold.dagster import Keyfold, KeyfoldResource
from keyfold.session import SparkSettings
from keyfold.session.start import check_same

SECRET = "planted-in-this-test"  # noqa: S105


def test_a_secret_reaches_the_session_and_is_in_no_page_no_record_and_no_error(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("KEYFOLD_SPARK_CONF", f"spark.hadoop.fs.s3a.secret.key={SECRET}")
    monkeypatch.delenv("KEYFOLD_SPARK_MASTER", raising=False)
    asked: list[SparkSettings] = []

    def start(settings: SparkSettings) -> Any:
        asked.append(settings)
        if len(asked) == 1:
            # As where another session runs already: the error is recorded.
            check_same(SparkSettings(), settings)
        return MagicMock()

    monkeypatch.setattr("keyfold.session.start.build_session", start)

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
    assert "with other settings (spark.hadoop.fs.s3a.secret.key)" in str(error)
    assert "local or spark" in page
    records = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert b"with other settings (spark.hadoop.fs.s3a.secret.key)" in records, (
        "the records are where they are looked for"
    )
    printed = capfd.readouterr()
    texts = (page, str(error), records.decode(errors="replace"), *printed)
    assert [SECRET in text for text in texts] == [False] * 5
