"""Evaluate expectations on a lazy frame of any size, with examples of violating rows and with masked columns.

- **The frequent expectations are counted by Polars' streaming engine in one pass**, which holds a few blocks of rows, however many
  the frame has (`plans.py`). Uniqueness takes one more pass for each `KEYS_AT_ONCE` rows. A query holds what its SQL needs: its
  groups, or the columns of its window functions.
- **Great Expectations evaluates all others** on pandas, with the columns that they name (`gx_on_pandas.py`).
- **An expectation that cannot be evaluated is not bad data.** A missing column or a wrong query gives an outcome with a `problem`.
- **Masking.** No value of a masked column leaves this module: not in examples, observed values or errors.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import polars as pl

from keyfold.dagster.quality.gx_on_pandas import evaluate_by_gx
from keyfold.dagster.quality.outcome import MOST_EXAMPLES, Masking, Outcome, Validation
from keyfold.dagster.quality.plans import TIMES, Plan, holds, plan_of
from keyfold.dagster.quality.serialised import (
    Refused,
    SerialisedExpectation,
    arguments_of,
    columns_of,
    is_of_the_schema,
    message_of,
    row_condition,
)

KEYS_AT_ONCE = 2_000_000
"""Number of rows whose keys are compared with each other in one pass: 400 MiB at keys of 36 bytes."""

Rows = Sequence[Mapping[str, Any]]

_OF_CONDITIONS = ("row_condition", "condition_parser")
_NUMBER_OF_ROWS = pl.len().cast(pl.Int64)
_PROBLEMS = (pl.exceptions.PolarsError, OSError)


def validate(
    rows: pl.LazyFrame,
    expectations: Mapping[str, SerialisedExpectation],
    *,
    masked: Collection[str] = (),
    name: str = "suite",
) -> Validation:
    """Validate rows.

    >>> fares = {"there": {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "fare"}}}
    >>> validate(pl.LazyFrame({"fare": [3.5, None]}), fares).outcomes[0].result["unexpected_count"]
    1

    Args:
        rows: the rows.
        expectations: the expectations, by name of their checks.
        masked: columns whose values must not appear.
        name: the suite's name.
    """
    schema = rows.collect_schema()
    masking = Masking(schema.names(), masked)
    prepared = _prepare(rows, schema, expectations)
    counted = _count({check: one for check, one in prepared.items() if isinstance(one, Plan)})
    outcomes = []
    for check, one in prepared.items():
        found, examples = Outcome(check, expectations[check], success=False), ()
        if isinstance(one, Refused):
            found.problem = str(one)
        else:
            try:
                if isinstance(one, Plan):
                    examples = _evaluate(found, one, counted[check])
                else:
                    examples = evaluate_by_gx(found, _without_condition(found.expectation), one, schema)
            except _PROBLEMS as error:
                found.problem = f"{type(error).__name__}: {message_of(error)}"
        masking.hide(found, examples, problem_quotes_rows=not isinstance(one, Refused))
        outcomes.append(found)
    return Validation(name, outcomes)


def _prepare(
    rows: pl.LazyFrame, schema: pl.Schema, expectations: Mapping[str, SerialisedExpectation]
) -> dict[str, Plan | pl.LazyFrame | Refused]:
    """Return for each expectation its plan, or else the rows for GX, or why it cannot be evaluated on such columns."""
    # Expectations on the same rows share a frame, so that one pass over it counts for all of them.
    frames = {"null": rows}
    found: dict[str, Plan | pl.LazyFrame | Refused] = {}
    for check, one in expectations.items():
        condition = arguments_of(one).get("row_condition")
        about = json.dumps(condition, default=str)
        try:
            _refuse_missing_columns(one, schema)
            if about not in frames:
                frames[about] = rows.filter(row_condition(condition, schema))
            plan = plan_of(_without_condition(one), frames[about], schema)
            for frame in _counts({check: plan}) if plan else [frames[about]]:
                frame.collect_schema()
            found[check] = plan or frames[about]
        except pl.exceptions.PolarsError as error:
            found[check] = Refused(message_of(error))
        except Refused as refused:
            found[check] = refused
    return found


def _refuse_missing_columns(expectation: SerialisedExpectation, schema: pl.Schema) -> None:
    for name in columns_of(expectation):
        if name not in schema and not is_of_the_schema(expectation):
            raise Refused(f'the column "{name}" does not exist')


def _counts(plans: Mapping[str, Plan]) -> list[pl.LazyFrame]:
    """Return frames of one row that have the numbers of plans, named CHECK/NUMBER: one for each frame of rows or of a query."""
    frames: dict[int, tuple[pl.LazyFrame, list[pl.Expr]]] = {}

    def add(rows: pl.LazyFrame, check: str, numbers: Mapping[str, pl.Expr]) -> None:
        _, wanted = frames.setdefault(id(rows), (rows, []))
        wanted += [number.alias(f"{check}/{name}") for name, number in numbers.items()]

    for check, plan in plans.items():
        add(plan.rows, check, {"element_count": _NUMBER_OF_ROWS, **plan.numbers})
        if not plan.numbers and plan.violating is not None:
            add(plan.violating, check, {"observed_value": _NUMBER_OF_ROWS})
    return [rows.select(wanted) for rows, wanted in frames.values()]


def _count(plans: Mapping[str, Plan]) -> dict[str, dict[str, Any] | Exception]:
    """Return the numbers of each plan, or the error that its rows made."""
    try:
        tables = pl.collect_all(_counts(plans), engine="streaming")
    except _PROBLEMS as error:
        # One of many has failed the others' query.
        return {check: error if len(plans) == 1 else _count({check: plan})[check] for check, plan in plans.items()}
    found: dict[str, Any] = {check: {} for check in plans}
    for table in tables:
        for place, value in table.row(0, named=True).items():
            check, _, name = place.rpartition("/")
            found[check][name] = value
    return found


def _evaluate(outcome: Outcome, plan: Plan, numbers: dict[str, Any] | Exception) -> Rows:
    """Fill an outcome with the numbers that were counted; return some of the violating rows."""
    if isinstance(numbers, Exception):
        raise numbers
    violating = plan.violating
    if plan.unique:
        numbers["unexpected_count"], violating = _repeated(plan, numbers["element_count"])
    outcome.success = holds(outcome.expectation, numbers)
    outcome.result = numbers | _shares(numbers)
    if violating is None or not numbers.get("unexpected_count", numbers.get("observed_value")):
        return ()
    return violating.head(MOST_EXAMPLES).collect(engine="streaming").to_dicts()


def _repeated(plan: Plan, rows: int) -> tuple[int, pl.LazyFrame | None]:
    """Return how many rows have a key that another row has too, and some of them."""
    total, some = 0, None
    parts = rows // KEYS_AT_ONCE + 1
    for part in range(parts):
        repeated = plan.repeated(part, parts)
        total += repeated.select(pl.col(TIMES).sum().cast(pl.Int64)).collect(engine="streaming").item()
        if total and some is None:
            keys = repeated.head(MOST_EXAMPLES).select(plan.unique).collect(engine="streaming")
            some = plan.rows.join(keys.lazy(), on=plan.unique, how="semi", nulls_equal=True)
    return total, some


def _shares(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the percentages that GX gives of numbers of rows."""
    rows, missing, unexpected = (numbers.get(f"{name}_count") for name in ("element", "missing", "unexpected"))
    if not rows or unexpected is None:
        return {}
    considered = rows - (missing or 0)
    shares = {"unexpected_percent": unexpected / considered * 100 if considered else None}
    if missing is not None:
        shares["missing_percent"] = missing / rows * 100
    return shares


def _without_condition(expectation: SerialisedExpectation) -> SerialisedExpectation:
    kept = {name: one for name, one in arguments_of(expectation).items() if name not in _OF_CONDITIONS}
    return {**expectation, "kwargs": kept}
