"""The programs of the page read a job's table at its address, before and after a refresh."""

import re
from pathlib import Path

import pytest

from keyfold.keyed.generation.run_mode import FullRefresh
from keyfold.keyed.job_run import run_job
from tests.keyfold.keyed.toy_jobs import windows

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "read-tables.md"
SECTIONS = re.split(r"^## (.*)\n", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
PROGRAMS = {
    title: program
    for title, text in zip(SECTIONS[::2], SECTIONS[1::2], strict=True)
    for program in re.findall(r"```python\n(.*?)```", text, re.DOTALL)
}


def test_the_page_has_programs_for_these():
    assert list(PROGRAMS) == ["Polars", "pandas and PyArrow", "DuckDB"]


@pytest.mark.parametrize("title", PROGRAMS)
def test_a_program_of_the_page_counts_the_rows_of_the_newest_version(without_spark, lakehouse, land, capsys, title):
    for user, minute in (("ann", 1), ("bob", 25), ("cat", 50)):
        land((user, minute))
        run_job(lakehouse, windows(), runners=without_spark)
    names = {"home": lakehouse.home, "table": "windows"}
    exec(PROGRAMS[title], dict(names))  # noqa: S102 - the page's
    assert capsys.readouterr().out.split()[0] == "2"
    land(("ann", 2), ("dan", 90))
    run_job(lakehouse, windows(), FullRefresh(), runners=without_spark)
    exec(PROGRAMS[title], dict(names))  # noqa: S102 - the page's
    assert capsys.readouterr().out.split()[0] == "3"
