"""The program and the asset of *Run a job on your own launcher* work as they stand on the page, in real processes."""

import os
import re
import sys
from datetime import datetime, timedelta
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import dagster as dg
import polars as pl
import pytest

from keyfold.lakehouse import Lakehouse
from spark_jobs.simulation import simulate
from tests.commands import ended_well
from tests.spark_jobs.jobs import ride_oracle

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "run-on-your-launcher.md"
KEYFOLD = Path(sys.executable).with_name("keyfold")


@pytest.fixture
def launched(tmp_path, monkeypatch):
    """The asset of the page, beside its program; both find Keyfold and a new home in their environment."""
    for name, code in re.findall(r'```python title="(\w+\.py)"\n(.*?)```', PAGE.read_text(encoding="utf-8"), re.DOTALL):
        (tmp_path / name).write_text(code, encoding="utf-8")
    monkeypatch.setenv("PATH", str(KEYFOLD.parent), prepend=os.pathsep)
    monkeypatch.setenv("KEYFOLD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("KEYFOLD_SPARK_MASTER", "local[2]")
    spec = spec_from_file_location("launched", tmp_path / "launched.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def materialized(launched):
    job = launched.defs.resolve_implicit_global_asset_job_def()
    with dg.DagsterInstance.ephemeral() as instance:
        return job.execute_in_process(instance=instance, raise_on_error=False)


@pytest.mark.long
def test_a_launched_run_writes_the_rides_and_shows_its_counts(launched, tmp_path):
    lakehouse = Lakehouse(tmp_path / "home")
    simulate("ride_points", tmp_path / "home" / "landing" / "ride_points", size=20, seed=3, files=4)
    ended_well(KEYFOLD, "ingest", "ride_points", "--settle", "0", folder=tmp_path, environment=dict(os.environ))
    result = materialized(launched)
    assert result.success
    (event,) = result.get_asset_materialization_events()
    shown = {name: found.value for name, found in event.step_materialization_data.materialization.metadata.items()}
    points = pl.read_delta(str(lakehouse.table("events.ride_points"))).to_dicts()
    summaries = pl.read_delta(str(lakehouse.table("ride_summaries")))
    watermark = datetime.fromisoformat(shown["watermark"])
    answer = ride_oracle.complete(points, watermark, timedelta(minutes=30), timedelta(days=1))
    keys = set(summaries.select("ride_id", "start_time").iter_rows())
    assert keys == answer.summaries.keys()
    assert keys
    assert (shown["events"], shown["ride_summaries"]) == (len(points), len(keys))


def test_a_launched_run_that_fails_fails_the_asset_with_its_own_words(launched, monkeypatch):
    monkeypatch.setenv("KEYFOLD_SPARK_MASTER", "nonsense")
    result = materialized(launched)
    assert not result.success
    (failed,) = [event for event in result.all_events if event.is_step_failure]
    assert "error: KEYFOLD_SPARK_MASTER: 'nonsense' is not a Spark master" in str(failed.step_failure_data.error)
    assert not result.get_asset_materialization_events()
