"""Evaluate Great Expectations 1.x on a Spark frame, with samples of violating rows and with masked columns.

Imports only its neighbours (see `checks.py`), and no Dagster.

**Few rows and many, same results.** A Spark job takes tens of milliseconds however little it reads, a suite takes GX about forty
jobs, and to import GX takes seconds. So a few rows become an Arrow table once (`rows.py`), and the usual expectations are
evaluated on that in one pass (`usual_expectations.py`). Of either, queries are evaluated by `row_queries.py`, and all other
expectations by GX on Spark (`gx_on_spark.py`).

**An expectation that cannot be evaluated is not bad data.** A missing column or a wrong query gives an outcome with a
`problem`.

**Masking.** No value of a masked column leaves this module: not in samples, observed values or errors.
"""

from collections.abc import Collection, Mapping
from contextlib import nullcontext

import polars as pl
from pyspark.sql import DataFrame

from keyfold.dagster.quality.gx_on_spark import evaluate_by_gx
from keyfold.dagster.quality.outcome import Outcome, Validation
from keyfold.dagster.quality.row_queries import Violations, find_violations, query_of
from keyfold.dagster.quality.rows import FEW, Rows
from keyfold.dagster.quality.samples import Sampling, no_values_in_logs
from keyfold.dagster.quality.serialised import SerialisedExpectation
from keyfold.dagster.quality.usual_expectations import OfRows, evaluate_usual, meaning_of


def validate(
    rows: Rows | DataFrame,
    expectations: Mapping[str, SerialisedExpectation],
    *,
    few: int = FEW,
    masked: Collection[str] = (),
    name: str = "suite",
) -> Validation:
    """Validate rows.

    Args:
        rows: the rows, or a batch frame that has them; it is cached during the validation, unless it is cached already.
        expectations: the expectations, by name of their checks.
        few: number of rows from which Spark evaluates all expectations.
        masked: columns whose values must not appear.
        name: the suite's name.

    Raises:
        ValueError: GX refuses an expectation; the message names its check.
    """
    given = rows if isinstance(rows, Rows) else Rows.of(rows)
    sampling = Sampling(given.schema, masked)
    with (
        given.collected(few) as (collected, number),
        no_values_in_logs() if masked else nullcontext(),
    ):
        found = _evaluate(collected, expectations, sampling)
    return Validation(name, [_counted(found[check], number) for check in expectations])


def _evaluate(rows: Rows, expectations: Mapping[str, SerialisedExpectation], sampling: Sampling) -> dict[str, Outcome]:
    table = pl.DataFrame() if rows.table is None else pl.DataFrame(rows.table)
    meanings = (
        {}
        if rows.table is None
        else {name: meaning for name, one in expectations.items() if (meaning := meaning_of(one, table)) is not None}
    )
    queries = {name: query for name, one in expectations.items() if (query := query_of(one)) is not None}
    of_rows = {name: one.violated for name, one in meanings.items() if isinstance(one, OfRows)}
    asked = queries | {name: one for name, one in of_rows.items() if isinstance(one, str)}
    others = {name: one for name, one in expectations.items() if name not in meanings and name not in queries}
    violations: Mapping[str, Violations] = {}
    found: dict[str, Outcome] = {}
    if asked or others:
        # Great Expectations runs several jobs per expectation, a query reads only the columns that it uses.
        with rows.on_spark(once=not others) as frame:
            violations = find_violations(frame, asked)
            found = evaluate_by_gx(frame, others)
    for name in queries:
        seen = violations[name]
        result = {} if seen.problem else {"observed_value": seen.number}
        found[name] = Outcome(name, expectations[name], not (seen.problem or seen.number), result, seen.problem)
        sampling.show(found[name], seen.rows)
    for name in others:
        sampling.show(found[name])
    return found | evaluate_usual(table, expectations, meanings, violations, sampling)


def _counted(outcome: Outcome, rows: int) -> Outcome:
    if not outcome.problem:
        outcome.result.setdefault("element_count", rows)
        if outcome.result.get("unexpected_count", 0) is None:
            # On an empty table, Spark's count is None.
            outcome.result["unexpected_count"] = 0
    return outcome
