"""The examples in the pages on writing jobs are run as they stand, without Spark."""

import re
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

DOCS = Path(__file__).parents[2] / "docs"
JOB_PAGE = DOCS / "how-to" / "write-a-job.md"
TIMEOUT_PAGE = DOCS / "how-to" / "use-a-timeout.md"
HARNESS_PAGE = DOCS / "how-to" / "test-a-job.md"
SHAPES_PAGE = DOCS / "reference" / "state-shapes.md"


def example(number):
    return re.findall(r"```python\n(.*?)```", JOB_PAGE.read_text(encoding="utf-8"), re.DOTALL)[number]


def shapes_of_state():
    """The page on shapes of state: the blocks of each, by its title, and what the last one prints."""
    shared, *parts = re.split(r"^## (.*)\n", SHAPES_PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    (prelude,) = re.findall(r"```python\n(.*?)```", shared, re.DOTALL)
    for title, part in zip(parts[::2], parts[1::2], strict=True):
        ((code, printed),) = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", part, re.DOTALL)
        yield pytest.param(prelude, code, printed, id=title)


SHAPES = list(shapes_of_state())

ANN = {"user": "ann", "start": datetime(2026, 1, 1, 12, tzinfo=UTC), "clicks": 2}


def test_the_example_runs_in_memory_and_tells_of_the_session_that_is_over(capsys):
    module = {}
    exec(example(0), module)  # noqa: S102 - our own page
    (row,) = module["harness"].written["sessions"].to_dicts()
    assert {name: row[name] for name in ANN} == ANN
    assert "ann" in capsys.readouterr().out


def test_the_example_runs_in_the_engine_and_says_the_same(lakehouse):
    module = {"lakehouse": lakehouse}
    exec(example(0), module)  # noqa: S102 - our own page
    lakehouse.events("clicks").parent.mkdir(parents=True)
    module["clicks"].write_delta(str(lakehouse.events("clicks")))
    exec(example(1), module)  # noqa: S102 - our own page
    (row,) = pl.read_delta(str(lakehouse.table("sessions"))).to_dicts()
    assert {name: row[name] for name in ANN} == ANN
    assert module["summary"].totals.open_events == 1


@pytest.mark.parametrize(("prelude", "code", "printed"), SHAPES)
def test_a_shape_of_state_prints_what_the_page_says(prelude, code, printed, capsys):
    exec(prelude + code, {})  # noqa: S102 - our own page
    assert capsys.readouterr().out == printed


@pytest.mark.parametrize("page", [TIMEOUT_PAGE, HARNESS_PAGE], ids=lambda page: page.stem)
def test_an_example_prints_what_its_page_says(page, capsys):
    page = page.read_text(encoding="utf-8")
    examples = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", page, re.DOTALL)
    assert len(examples) == page.count("```python")
    for code, printed in examples:
        exec(code, {})  # noqa: S102 - our own page
        assert capsys.readouterr().out == printed


def test_every_shape_of_the_table_has_its_part():
    page = SHAPES_PAGE.read_text(encoding="utf-8")
    linked = re.findall(r"^\| \[[\w-]+\]\(#([\w-]+)\)", page, re.MULTILINE)
    assert linked == [re.sub("[^a-z -]", "", str(shape.id).lower()).replace(" ", "-") for shape in SHAPES]
