"""Jobs are modules of their package, and their tables say what they hold."""

import subprocess
import sys
from pathlib import Path

import pytest

import spark_jobs.jobs
from keyfold.columns import describe, lineage_of
from keyfold.discovery import declarations, import_modules
from keyfold.keyed.job.building import build_job
from keyfold.keyed.job.contract import KeyedJob
from spark_jobs.jobs.registry import JOBS, SHIPPED

MINE = """
from dataclasses import replace
from spark_jobs.jobs.event_index import EVENT_INDEX, EventIndexParameters
from keyfold import build_job, with_parameters

def build(parameters: EventIndexParameters):
    return replace(EVENT_INDEX, name="my_numbers")

NUMBERS = with_parameters(build)
"""
ROOT = Path(__file__).parents[3]
_TABLES = [(job, table) for job in map(build_job, JOBS.values()) for table in job.tables]


def test_the_shipped_jobs_stand_in_the_order_of_the_pages():
    assert tuple(JOBS)[: len(SHIPPED)] == SHIPPED


def test_a_job_has_the_name_of_its_template():
    assert all(build_job(template).name == name for name, template in JOBS.items())


def test_a_file_or_a_folder_with_a_job_that_is_put_there_is_a_job(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "__init__.py").write_text("")
    (tmp_path / "deep" / "job.py").write_text(MINE.replace("my_numbers", "deep_numbers"))
    monkeypatch.setattr(spark_jobs.jobs, "__path__", [*spark_jobs.jobs.__path__, str(tmp_path)])
    found = declarations(
        import_modules("spark_jobs.jobs", within="job", skip=frozenset({"registry"})), KeyedJob, first=tuple(JOBS)
    )
    assert list(found) == [*JOBS, "deep_numbers", "my_numbers"]


@pytest.mark.parametrize(("job", "table"), _TABLES, ids=[table.name for _, table in _TABLES])
def test_every_table_says_what_its_columns_mean_and_of_what_they_are_made(job, table):
    known = {name for one in job.inputs.values() for name in one.stream.event_schema.names}
    for field in table.schema:
        assert describe(field), field.name
        assert set(lineage_of(field)) <= known, field.name
    if table.name != job.name:
        assert table.description


def test_every_column_of_a_table_is_made_of_something_but_for_what_no_stream_knows():
    told = {(table.name, field.name) for job, table in _TABLES for field in table.schema if not lineage_of(field)}
    late = {
        (table.name, field.name) for job, table in _TABLES if table.name == job.late_table for field in table.schema
    }
    dead = {("batched_enrichment_dead_letters", name) for name in ("attempts", "status", "answer", "failed_at")}
    of_products = {("sales_with_products", name) for name in ("product_name", "category", "list_price")}
    assert told - late == dead | of_products


def test_the_import_of_all_jobs_starts_no_threads_of_polars_that_a_fork_would_lack():
    threads = 'import os; print({open(f"/proc/self/task/{one}/comm").read().strip() for one in os.listdir("/proc/self/task")})'
    code = f"import spark_jobs.jobs.registry; {threads}"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert "python" in told
    assert "tokio" not in told
    assert "polars-0" not in told
