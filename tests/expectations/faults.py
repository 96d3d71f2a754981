"""Rows with faults, and which checks of a suite find them. Each table of cases is held against its suites by `check_case`."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa
import pytest

from keyfold.dagster.quality.validation import validate
from keyfold.suite import Suite

Row = dict[str, Any]
Faults = Mapping[str, Row | Sequence[Any]]
"""By check, the row that it finds; or rows; or first how many rows it finds, where these are not all."""


class Case(NamedTuple):
    """Rows of a table whose every column may be missing, and the checks that fail, with how many rows each finds; None: any number."""

    suite: Suite
    schema: pa.Schema
    rows: list[Row]
    found: Mapping[str, Any]


def case(suite: Any, schema: pa.Schema, good: list[Row], faults: Faults) -> Case:
    """With good rows and faults in one table, and as many found as there are faults about a check, each was found by its check alone."""
    rows, found = list(good), dict[str, Any]()
    for check, of_check in faults.items():
        some = [of_check] if isinstance(of_check, dict) else list(of_check)
        given = [one for one in some if isinstance(one, dict)]
        found[check] = len(given) if len(given) == len(some) else some[0]
        rows += given
    return Case(getattr(suite, "EXPECTATIONS", suite), schema, rows, found)


def told(suite: Any, schema: pa.Schema, rows: list[Row], *checks: str) -> Case:
    """What rows come to together is told by these checks, in whatever numbers."""
    return Case(getattr(suite, "EXPECTATIONS", suite), schema, rows, dict.fromkeys(checks))


def check_case(one: Case) -> None:
    """Evaluate the suite on the rows, and compare the checks that fail."""
    nullable = pa.schema([field.with_nullable(True) for field in one.schema])
    outcomes = validate(pl.DataFrame(pa.Table.from_pylist(one.rows, nullable)).lazy(), one.suite)
    assert [check for check, outcome in outcomes.items() if outcome.problem] == []
    failed = {
        check: outcome.result.get("unexpected_count", outcome.result.get("observed_value"))
        for check, outcome in outcomes.items()
        if not outcome.success
    }
    assert {name: failed[name] if one.found.get(name) else None for name in failed} == one.found


def each(cases: Mapping[str, Case]) -> pytest.MarkDecorator:
    """The cases of a table, by name."""
    return pytest.mark.parametrize("one", cases.values(), ids=cases)
