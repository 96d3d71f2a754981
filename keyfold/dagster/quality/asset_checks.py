"""Build Dagster asset checks from Great Expectations 1.x: one check per expectation, one read of the table for all.

The modules of this package import nothing else of Keyfold, so another project can copy them. Expectations are given as values in
GX's serialised form (`serialised.py`); the table is a lazy frame of Polars (`validation.py`).

- **Severity.** `critical` becomes ERROR and blocks what is downstream; `warning` and `info` become WARN, which never
  blocks.
- **Not evaluated.** An expectation that could not be evaluated (a column is missing, a query is wrong) fails with
  `evaluated: false` and a description that begins with "could not be evaluated": a fault of the check or the schema,
  never to be read as bad rows. A critical one still blocks: what was not checked is not known to be good.
- **Scope.** A run validates what it wrote (`Scope.INCREMENTAL`); a run with the tag `gx/scope: full` validates the
  whole table, so give that tag to a scheduled job. Some expectations mean something over the whole table only (values
  are unique, a mean): they always see all of it, and the table is then read twice, once for them and once for the rest.
"""

import re
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

import dagster as dg
import polars as pl

from keyfold.dagster.quality.outcome import EXAMPLES, Outcome
from keyfold.dagster.quality.pages import ResultPages
from keyfold.dagster.quality.serialised import SerialisedExpectation, needs_whole_table, severity_of
from keyfold.dagster.quality.validation import validate

__all__ = ["SCOPE_TAG", "Read", "Scope", "SuiteChecks", "gx_checks", "validate"]

SCOPE_TAG = "gx/scope"
"""Run tag; `full` makes every check of the run see the whole table."""

_LONGEST_LITERAL = 200


class Scope(StrEnum):
    """Which rows of its table a check sees."""

    INCREMENTAL = "incremental"
    """The rows that the last run wrote, inserted or changed."""
    FULL = "full"
    """All rows that the table has now."""


Read = Callable[[dg.AssetCheckExecutionContext, Scope], pl.LazyFrame | None]
"""Scans the table with all its columns. None is allowed for `INCREMENTAL`, if new rows are not known: then all are read."""


@dataclass(frozen=True)
class SuiteChecks:
    """The checks of a suite on an asset: their specs, and what evaluates them in a step.

    Attributes:
        asset: the asset that they check.
        expectations: by check name, in GX's serialised form, which `expectation.configuration.to_json_dict()` gives of an object
            of GX.
        read: scans the table; called once in a run, or twice where an incremental run has checks of the whole table.
        masked: columns whose values are shown nowhere, or a function that returns them in a run: not in examples, observed values,
            errors or Data Docs.
        data_docs: returns the pages that show validations to people, if there are any.
        partitions: the asset's partitions, if the checks are evaluated of each (`partition_checks`).
        automation_condition: when they are evaluated of a partition.
    """

    asset: dg.AssetKey
    expectations: Mapping[str, SerialisedExpectation]
    read: Read
    masked: Collection[str] | Callable[[dg.AssetCheckExecutionContext], Collection[str]] = ()
    data_docs: Callable[[dg.AssetCheckExecutionContext], ResultPages] | None = None
    partitions: dg.PartitionsDefinition | None = None
    automation_condition: dg.AutomationCondition[Any] | None = None

    @cached_property
    def _of_whole_table(self) -> frozenset[str]:
        return frozenset(name for name, expectation in self.expectations.items() if needs_whole_table(expectation))

    @cached_property
    def specs(self) -> Sequence[dg.AssetCheckSpec]:
        """One spec an expectation."""
        of_partitions: Any = (
            {}
            if self.partitions is None
            else {"partitions_def": self.partitions, "automation_condition": self.automation_condition}
        )
        with warnings.catch_warnings():
            # Checks of partitions are a preview in Dagster 1.13.
            warnings.simplefilter("ignore")
            return self._specs(of_partitions)

    def _specs(self, of_partitions: Mapping[str, Any]) -> Sequence[dg.AssetCheckSpec]:
        return [
            dg.AssetCheckSpec(
                name,
                asset=self.asset,
                blocking=severity_of(expectation) == "critical",
                description=str(expectation.get("description") or expectation["type"]),
                metadata={
                    "expectation": str(expectation["type"]),
                    "severity": severity_of(expectation),
                    "always_full": name in self._of_whole_table,
                },
                **of_partitions,
            )
            for name, expectation in self.expectations.items()
        ]

    def evaluate_rows(
        self, context: dg.AssetCheckExecutionContext, rows: pl.LazyFrame
    ) -> Iterator[dg.AssetCheckResult]:
        """Evaluate the checks that a step selects on rows such as those of a partition, without Data Docs."""
        checks = [spec for spec in self.specs if spec.key in context.selected_asset_check_keys]
        outcomes = validate(
            rows, {spec.name: self.expectations[spec.name] for spec in checks}, masked=self._hidden(context)
        )
        for spec in checks:
            yield _result(spec, outcomes[spec.name], Scope.FULL, None)

    def _hidden(self, context: dg.AssetCheckExecutionContext) -> Collection[str]:
        return self.masked(context) if callable(self.masked) else self.masked

    def evaluate(self, context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        """Evaluate the checks that a step selects."""
        selected = context.selected_asset_check_keys
        specs = [spec for spec in self.specs if spec.key in selected]
        docs = self.data_docs(context) if self.data_docs and specs else None
        hidden = self._hidden(context)
        for rows, scope, checks in _reads(context, self.read, specs, self._of_whole_table):
            outcomes = validate(rows, {spec.name: self.expectations[spec.name] for spec in checks}, masked=hidden)
            address = None
            try:
                if docs:
                    suite = "__".join(self.asset.path)
                    address = docs.add(suite, outcomes.values(), scope=scope.value, run=context.run.run_id)
            except Exception as error:  # a page that cannot be written must not fail the check
                context.log.warning(f"Data Docs were not written: {type(error).__name__}: {error}")
            for spec in checks:
                yield _result(spec, outcomes[spec.name], scope, address)


def gx_checks(suite: SuiteChecks, *, required_resource_keys: set[str]) -> dg.AssetChecksDefinition:
    """Build asset checks from expectations on a table: one step evaluates them.

    >>> fares = {"fare_is_there": {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "fare"}}}
    >>> def read(context, scope):
    ...     return pl.scan_parquet(context.resources.folder / "fares.parquet")
    >>> checks = gx_checks(SuiteChecks(dg.AssetKey("fares"), fares, read), required_resource_keys={"folder"})
    >>> [key.name for key in checks.check_keys]
    ['fare_is_there']

    Args:
        suite: the expectations, and how the table is read.
        required_resource_keys: resources that `read` and `data_docs` find in `context.resources`.
    """

    @dg.multi_asset_check(
        name=f"{'__'.join(suite.asset.path)}_expectations",
        specs=suite.specs,
        can_subset=True,
        required_resource_keys=required_resource_keys,
        description=f"Great Expectations suite of {suite.asset.to_user_string()}",
    )
    def evaluate(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        yield from suite.evaluate(context)

    return evaluate


def _result(spec: dg.AssetCheckSpec, outcome: Outcome, scope: Scope, address: str | None) -> dg.AssetCheckResult:
    if outcome.problem:
        description = f"could not be evaluated: {_literal(outcome.problem)}"
    else:
        description = None if outcome.success else _violation(outcome.result)
    # A browser does not open a file from a page served over http, but people can copy the path.
    shown = dg.MetadataValue.url if (address or "").startswith("http") else dg.MetadataValue.path
    return dg.AssetCheckResult(
        passed=outcome.is_good,
        asset_key=spec.asset_key,
        check_name=spec.name,
        severity=dg.AssetCheckSeverity.ERROR if spec.blocking else dg.AssetCheckSeverity.WARN,
        description=description,
        metadata={
            "evaluated": not outcome.problem,
            "scope": scope.value,
            **_metadata(outcome.result),
            **({"data_docs": shown(address)} if address else {}),
        },
    )


def _reads(
    context: dg.AssetCheckExecutionContext, read: Read, chosen: list[dg.AssetCheckSpec], whole: Collection[str]
) -> Iterator[tuple[pl.LazyFrame, Scope, list[dg.AssetCheckSpec]]]:
    """Read the table once, or new rows and the whole table; return each with the checks that see it."""
    of_new_rows = [spec for spec in chosen if spec.name not in whole]
    if of_new_rows and Scope(context.run.tags.get(SCOPE_TAG, Scope.INCREMENTAL)) is Scope.INCREMENTAL:
        new_rows = read(context, Scope.INCREMENTAL)
        if new_rows is not None:
            yield new_rows, Scope.INCREMENTAL, of_new_rows
            chosen = [spec for spec in chosen if spec.name in whole]
    if chosen:
        table = read(context, Scope.FULL)
        if table is None:
            raise ValueError("`read` returned None for Scope.FULL; it must return the whole table")
        yield table, Scope.FULL, chosen


def _violation(result: Mapping[str, Any]) -> str:
    if "unexpected_count" in result:
        bad, rows = result["unexpected_count"], result["element_count"]
        share = 100 * bad / max(rows - result.get("missing_count", 0), 1)
        return f"{bad:,} of {rows:,} rows violate the expectation ({share:.3g} %)"
    if EXAMPLES in result:
        return f"{result['observed_value']:,} unexpected rows; the table has {result['element_count']:,} rows"
    return f"observed {_literal(str(result['observed_value']))}" if "observed_value" in result else "violated"


def _literal(text: str) -> str:
    """Quote text that may come from rows: Dagster's pages render descriptions as Markdown, and would fetch its images."""
    line = " ".join(text.split())
    shown = line if len(line) <= _LONGEST_LITERAL else f"{line[: _LONGEST_LITERAL - 1]}…"
    if re.fullmatch(r"[\w .,+-]*", shown):
        return shown
    # A code span ends with as many backticks as it begins with, so the fence must be longer than any in the text.
    fence = "`" * (1 + max(map(len, re.findall("`+", shown)), default=0))
    # The text may not touch the fence; Markdown drops one blank at both ends.
    return f"{fence} {shown} {fence}"


def _metadata(result: Mapping[str, Any]) -> dict[str, Any]:
    named = {"element_count": "rows", "unexpected_count": "unexpected", "missing_count": "missing"}
    metadata: dict[str, Any] = {name: int(result[key]) for key, name in named.items() if result.get(key) is not None}
    if "observed_value" in result:
        metadata["observed"] = str(result["observed_value"])
    if rows := result.get(EXAMPLES):
        columns = dg.TableSchema([dg.TableColumn(name) for name in rows[0]])
        metadata["sample"] = dg.MetadataValue.table([dg.TableRecord(row) for row in rows], columns)
    return metadata
