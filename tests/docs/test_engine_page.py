"""The examples in the pages on writing jobs are run as they stand, without Spark."""

import re
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

DOCS = Path(__file__).parents[2] / "docs"
JOB_PAGE = DOCS / "how-to" / "write-a-job.md"
PRINTING = [
    DOCS / "how-to" / f"{name}.md" for name in ("aggregate-events", "join-inputs", "test-a-job", "use-a-timeout")
]
SHAPES_PAGE = DOCS / "reference" / "state-shapes.md"


def job_page(**names):
    """Run the blocks of the page on writing a job, and return what they name; the last one runs the job."""
    *blocks, run = re.findall(r"```python\n(.*?)```", JOB_PAGE.read_text(encoding="utf-8"), re.DOTALL)
    exec("".join(blocks), names)  # noqa: S102 - our own page
    return names, run


def shapes_of_state():
    """The page on shapes of state: the blocks of each, by its title, and what the last one prints."""
    shared, *parts = re.split(r"^## (.*)\n", SHAPES_PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    (prelude,) = re.findall(r"```python\n(.*?)```", shared, re.DOTALL)
    for title, part in zip(parts[::2], parts[1::2], strict=True):
        ((code, printed),) = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", part, re.DOTALL)
        yield pytest.param(prelude, code, printed, id=title)


SHAPES = list(shapes_of_state())


def test_the_job_of_the_page_runs_in_the_engine_and_gives_the_row_of_its_test(lakehouse):
    names, run = job_page(lakehouse=lakehouse)
    lakehouse.events("clicks").parent.mkdir(parents=True)
    names["clicks"].write_delta(str(lakehouse.events("clicks")))
    exec(run, names)  # noqa: S102 - our own page
    found = pl.read_delta(str(lakehouse.table("sessions"))).select("user", "start", "clicks").rows()
    assert found == [("ann", datetime(2026, 1, 1, 12, tzinfo=UTC), 2)]
    assert names["summary"].totals.open_events == 1


@pytest.mark.parametrize(("prelude", "code", "printed"), SHAPES)
def test_a_shape_of_state_prints_what_the_page_says(prelude, code, printed, capsys):
    exec(prelude + code, {})  # noqa: S102 - our own page
    assert capsys.readouterr().out == printed


@pytest.mark.parametrize("page", PRINTING, ids=lambda page: page.stem)
def test_an_example_prints_what_its_page_says(page, capsys):
    page = page.read_text(encoding="utf-8")
    examples = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", page, re.DOTALL)
    assert len(examples) == page.count("```python")
    for code, printed in examples:
        exec(code, {"__name__": "page"})  # noqa: S102 - our own page
        assert capsys.readouterr().out == printed


def test_every_shape_of_the_table_has_its_part():
    page = SHAPES_PAGE.read_text(encoding="utf-8")
    linked = re.findall(r"^\| \[[\w-]+\]\(#([\w-]+)\)", page, re.MULTILINE)
    assert linked == [re.sub("[^a-z -]", "", str(shape.id).lower()).replace(" ", "-") for shape in SHAPES]
