"""The programs of the pages on deployment run as they stand, with another folder and without Spark; their settings are known."""

import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pyarrow as pa
import pytest
import yaml
from pyspark.sql import SparkSession

from keyfold import Input, Stream, required
from keyfold.operators import count, windows

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to"
PAGES = ("run-on-emr", "run-on-databricks", "run-on-kubernetes", "run-without-dagster")


def blocks(page: str, kind: str) -> list[str]:
    return re.findall(rf"```{kind}.*?\n(.*?)```", (HOW_TO / f"{page}.md").read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The package of the pages, with a stream and a job."""
    module = ModuleType("shop.orders")
    columns = [required("shop", pa.string(), "Where"), required("at", pa.timestamp("us", "UTC"), "When")]
    orders = Stream("orders", columns, event_time="at")
    vars(module)["ORDERS"] = orders
    vars(module)["ORDERS_PER_HOUR"] = windows("orders_per_hour", Input(orders), {"n": count()}, key="shop", length="1h")
    monkeypatch.setitem(sys.modules, "shop", ModuleType("shop"))
    monkeypatch.setitem(sys.modules, "shop.orders", module)
    return module


@pytest.mark.parametrize("page", ["run-on-emr", "run-on-databricks"])
def test_the_task_of_a_page_ingests_runs_and_counts(page, shop, tmp_path, monkeypatch, capsys):
    (program,) = blocks(page, "python")
    landing = tmp_path / "home" / "landing" / "orders"
    landing.mkdir(parents=True)
    (landing / "1.csv").write_text("shop,at\nOslo,2026-01-01T10:05Z\nOslo,2026-01-01T11:05Z\n")
    # A session is handed over, and not asked: so little is done in this process.
    monkeypatch.setattr(SparkSession, "builder", SimpleNamespace(getOrCreate=object))
    exec(program.replace("s3://lake/home", str(tmp_path / "home")), {"__name__": "page"})  # noqa: S102 - our own page
    ingested, run, counted = capsys.readouterr().out.splitlines()
    assert "accepted=2" in ingested
    assert "'orders_per_hour': 1" in run
    assert "open_events=1" in counted


def test_settings_that_pages_show_are_those_of_the_reference():
    reference = HOW_TO.parent / "reference"
    known = (reference / "configuration.md").read_text() + (HOW_TO / "use-a-bucket.md").read_text()
    for page in PAGES:
        shown = set(re.findall(r"\bKEYFOLD_[A-Z_]+\b", (HOW_TO / f"{page}.md").read_text(encoding="utf-8")))
        assert {name for name in shown if name not in known} <= {"KEYFOLD_MODULE"}


def test_the_cron_job_names_commands_and_one_run_at_a_time():
    (manifest,) = blocks("run-on-kubernetes", "yaml")
    spec = yaml.safe_load(manifest)["spec"]
    assert spec["concurrencyPolicy"] == "Forbid"
    (container,) = spec["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    assert container["command"][-1] == "keyfold ingest orders && keyfold run orders_per_hour"
