"""The example in docs/engine.md is run as it stands, without Spark and with it."""

import re
from datetime import UTC, datetime
from pathlib import Path

import polars as pl

PAGE = Path(__file__).parents[2] / "docs" / "engine.md"


def example(number):
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[number]


ANN = {"user": "ann", "start": datetime(2026, 1, 1, 12, tzinfo=UTC), "clicks": 2}


def test_the_example_runs_in_memory_and_tells_of_the_session_that_is_over(capsys):
    module = {}
    exec(example(0), module)  # noqa: S102 - our own page
    (row,) = module["harness"].written["sessions"].to_dicts()
    assert {name: row[name] for name in ANN} == ANN
    assert "ann" in capsys.readouterr().out


def test_the_example_runs_on_spark_and_says_the_same(spark, lakehouse):
    module = {"spark": spark, "lakehouse": lakehouse}
    exec(example(0), module)  # noqa: S102 - our own page
    lakehouse.events("clicks").parent.mkdir(parents=True)
    module["clicks"].write_delta(str(lakehouse.events("clicks")))
    exec(example(1), module)  # noqa: S102 - our own page
    (row,) = pl.read_delta(str(lakehouse.table("sessions"))).to_dicts()
    assert {name: row[name] for name in ANN} == ANN
    assert module["summary"].totals.open_events == 1
