"""The examples in the pages on writing jobs are run as they stand, without Spark."""

import re
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

DOCS = Path(__file__).parents[2] / "docs"
JOB_PAGE = DOCS / "how-to" / "write-a-job.md"
SHAPES_PAGE = DOCS / "reference" / "state-shapes.md"
PRINTING = {
    **dict.fromkeys(("aggregate-events", "join-inputs", "test-a-job", "use-a-timeout"), "how-to"),
    **dict.fromkeys(("job-contract", "state-shapes"), "reference"),
    "patterns": "tutorial",
}
"""Pages whose examples print something, by name, with their folders."""


def job_page(**names):
    """Run the blocks of the page on writing a job, and return what they name; the last one runs the job."""
    *blocks, run = re.findall(r"```python\n(.*?)```", JOB_PAGE.read_text(encoding="utf-8"), re.DOTALL)
    exec("".join(blocks), names)  # noqa: S102 - our own page
    return names, run


def test_the_job_of_the_page_runs_in_the_engine_and_gives_the_row_of_its_test(lakehouse):
    names, run = job_page(lakehouse=lakehouse)
    lakehouse.events("clicks").parent.mkdir(parents=True)
    names["clicks"].write_delta(str(lakehouse.events("clicks")))
    exec(run, names)  # noqa: S102 - our own page
    found = pl.read_delta(str(lakehouse.table("sessions"))).select("user", "start", "clicks").rows()
    assert found == [("ann", datetime(2026, 1, 1, 12, tzinfo=UTC), 2)]
    assert names["summary"].totals.open_events == 1


@pytest.mark.parametrize("page", PRINTING)
def test_the_examples_of_a_page_print_what_it_says_one_after_the_other(page, capsys):
    text = (DOCS / PRINTING[page] / f"{page}.md").read_text(encoding="utf-8")
    examples = re.findall(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", text, re.DOTALL)
    assert any(printed for _, printed in examples)
    names = {"__name__": "page"}
    for code, printed in examples:
        exec(code, names)  # noqa: S102 - our own page
        assert capsys.readouterr().out == printed


def test_every_shape_of_the_table_has_its_part_with_an_example():
    page = SHAPES_PAGE.read_text(encoding="utf-8")
    linked = re.findall(r"^\| \[[\w-]+\]\(#([\w-]+)\)", page, re.MULTILINE)
    parts = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", page, re.DOTALL | re.MULTILINE))
    assert linked == [re.sub("[^a-z -]", "", title.lower()).replace(" ", "-") for title in parts]
    assert all(re.search(r"```python\n.*?```\n\n```text\n", text, re.DOTALL) for text in parts.values())
