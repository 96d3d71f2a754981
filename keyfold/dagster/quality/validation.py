"""Evaluate expectations on a lazy frame of any size, with examples of violating rows and with masked columns.

- **The frequent expectations are counted by Polars' streaming engine in one pass**, which holds a few blocks of rows, however many
  the frame has (`plans.py`). Uniqueness takes one more pass for each `KEYS_AT_ONCE` rows, and a query one of its own, which holds
  what its SQL needs: its groups, or the columns of its window functions.
- **Great Expectations evaluates all others** on pandas, with the columns that they name (`gx_on_pandas.py`).
- **An expectation that cannot be evaluated is not bad data.** A missing column or a wrong query gives an outcome with a `problem`.
- **Masking.** No value of a masked column leaves this module: not in examples, observed values or errors.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import polars as pl

from keyfold.dagster.quality.evaluation_plans import Plan, all_missing, holds, plan_of
from keyfold.dagster.quality.gx_on_pandas import evaluate_by_gx
from keyfold.dagster.quality.outcome import MOST_EXAMPLES, Outcome, hide
from keyfold.dagster.quality.serialised import (
    Refused,
    SerialisedExpectation,
    arguments_of,
    columns_of,
    is_of_the_schema,
    message_of,
    rows_where,
)

KEYS_AT_ONCE = 2_000_000
"""Number of rows whose keys are compared with each other in one pass: 400 MiB at keys of 36 bytes."""

_TIMES = "__times"
_OF_CONDITIONS = ("row_condition", "condition_parser")
_NUMBER_OF_ROWS = pl.len().cast(pl.Int64)
_PROBLEMS = (pl.exceptions.PolarsError, OSError)


def validate(
    rows: pl.LazyFrame,
    expectations: Mapping[str, SerialisedExpectation],
    *,
    masked: Collection[str] = (),
) -> dict[str, Outcome]:
    """Validate rows, and return the outcomes, by name of their checks.

    >>> fares = {"there": {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "fare"}}}
    >>> validate(pl.LazyFrame({"fare": [3.5, None]}), fares)["there"].result["unexpected_count"]
    1

    Args:
        rows: the rows.
        expectations: the expectations, by name of their checks.
        masked: columns whose values must not appear.
    """
    schema = rows.collect_schema()
    outcomes = {check: Outcome(expectation) for check, expectation in expectations.items()}
    # Expectations on the same rows share a frame, so that one pass over it counts for all of them.
    frames = {"None": rows}
    prepared = dict[str, tuple[pl.LazyFrame, Plan | None]]()
    for check, expectation in expectations.items():
        try:
            _refuse_missing_columns(expectation, schema)
            condition = arguments_of(expectation).get("row_condition")
            if repr(condition) not in frames:
                frames[repr(condition)] = rows_where(condition, rows, schema)
            chosen = frames[repr(condition)]
            prepared[check] = chosen, plan_of(_without_condition(expectation), chosen, schema)
        except Refused as refused:
            outcomes[check].problem = str(refused)
    counted = _count({check: plan for check, (_, plan) in prepared.items() if plan})
    for check, (chosen, plan) in prepared.items():
        outcome, examples = outcomes[check], ()
        try:
            # GX evaluates what Polars fails at, but for queries.
            if plan and (isinstance(counted[check], dict) or not plan.numbers):
                examples = _evaluate(outcome, plan, counted[check])
            else:
                examples = evaluate_by_gx(outcome, _without_condition(outcome.expectation), chosen, schema)
        except _PROBLEMS as error:
            outcome.problem = f"{type(error).__name__}: {message_of(error)}"
        hide(outcome, examples, schema.names(), masked)
    return outcomes


def _refuse_missing_columns(expectation: SerialisedExpectation, schema: pl.Schema) -> None:
    for name in columns_of(expectation):
        if name not in schema and not is_of_the_schema(expectation):
            raise Refused(f'the column "{name}" does not exist')


def _without_condition(expectation: SerialisedExpectation) -> SerialisedExpectation:
    arguments = {name: value for name, value in arguments_of(expectation).items() if name not in _OF_CONDITIONS}
    return {**expectation, "kwargs": arguments}


def _count(plans: Mapping[str, Plan]) -> dict[str, dict[str, Any] | Exception]:
    """Return the numbers of each plan, or the error that its rows made."""
    frames: dict[int, tuple[pl.LazyFrame, list[pl.Expr]]] = {}

    def add(rows: pl.LazyFrame, check: str, numbers: Mapping[str, pl.Expr]) -> None:
        _, wanted = frames.setdefault(id(rows), (rows, []))
        wanted += [number.alias(f"{check}/{name}") for name, number in numbers.items()]

    for check, plan in plans.items():
        add(plan.rows, check, {"element_count": _NUMBER_OF_ROWS, **plan.numbers})
        if not plan.numbers and plan.violating is not None:
            add(plan.violating, check, {"observed_value": _NUMBER_OF_ROWS})
    try:
        tables = pl.collect_all([rows.select(wanted) for rows, wanted in frames.values()], engine="streaming")
    except _PROBLEMS as error:
        # One of many has failed the others' query.
        return {check: error if len(plans) == 1 else _count({check: plan})[check] for check, plan in plans.items()}
    numbers: dict[str, Any] = {check: {} for check in plans}
    for table in tables:
        for place, value in table.row(0, named=True).items():
            check, _, name = place.rpartition("/")
            numbers[check][name] = value
    return numbers


def _evaluate(outcome: Outcome, plan: Plan, numbers: dict[str, Any] | Exception) -> Sequence[Mapping[str, Any]]:
    """Fill an outcome with the numbers that were counted; return some of the violating rows."""
    if isinstance(numbers, Exception):
        raise numbers
    violating = plan.violating
    if plan.unique:
        numbers["unexpected_count"], violating = _repeated(plan, numbers["element_count"])
    outcome.success = holds(outcome.expectation, numbers)
    outcome.result = numbers
    if violating is None or not numbers.get("unexpected_count", numbers.get("observed_value")):
        return ()
    return violating.head(MOST_EXAMPLES).collect(engine="streaming").to_dicts()


def _repeated(plan: Plan, rows: int) -> tuple[int, pl.LazyFrame | None]:
    """Return how many rows have a key that another row has too, and some of them."""
    total, some, names = 0, None, list(plan.unique)
    keys, parts = plan.rows.select(names).filter(~all_missing(names)), rows // KEYS_AT_ONCE + 1
    for part in range(parts):
        chosen = keys.filter(pl.struct(names).hash() % parts == part) if parts > 1 else keys
        repeated = chosen.group_by(names).len(_TIMES).filter(pl.col(_TIMES) > 1)
        total += repeated.select(pl.col(_TIMES).sum().cast(pl.Int64)).collect(engine="streaming").item()
        if total and some is None:
            few = repeated.head(MOST_EXAMPLES).select(names).collect(engine="streaming")
            some = plan.rows.join(few.lazy(), on=names, how="semi", nulls_equal=True)
    return total, some
