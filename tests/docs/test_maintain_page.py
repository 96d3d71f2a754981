"""The script of the page deletes old runs, and keeps new ones, running ones and the last run of an asset."""

import re
from pathlib import Path

import dagster as dg

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "maintain.md"


@dg.asset
def totals() -> None: ...


def test_the_script_of_the_page_deletes_old_runs_that_no_asset_needs(tmp_path, monkeypatch):
    (script,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    with dg.DagsterInstance.get() as instance:
        ended = [dg.materialize([totals], instance=instance).run_id for _ in range(3)]
        going_on = instance.create_run_for_job(
            dg.Definitions([totals]).resolve_implicit_global_asset_job_def(), status=dg.DagsterRunStatus.STARTED
        ).run_id
        exec(script, {})  # noqa: S102 - the page's
        assert {run.run_id for run in instance.get_runs()} == {*ended, going_on}
        exec(script.replace("timedelta(days=90)", "timedelta(0)"), {})  # noqa: S102 - as if months had passed
        assert {run.run_id for run in instance.get_runs()} == {ended[-1], going_on}
