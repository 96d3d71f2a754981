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
from collections.abc import Callable, Collection, Iterator, Mapping
from enum import StrEnum
from typing import Any

import dagster as dg
import polars as pl

from keyfold.dagster.quality.outcome import EXAMPLES, Outcome
from keyfold.dagster.quality.pages import ResultPages
from keyfold.dagster.quality.serialised import SerialisedExpectation, needs_whole_table, severity_of
from keyfold.dagster.quality.validation import validate

__all__ = ["SCOPE_TAG", "Read", "Scope", "gx_checks", "validate"]

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


def gx_checks(
    asset: dg.AssetKey,
    expectations: Mapping[str, SerialisedExpectation],
    read: Read,
    *,
    required_resource_keys: set[str],
    masked: Collection[str] | Callable[[dg.AssetCheckExecutionContext], Collection[str]] = (),
    data_docs: Callable[[dg.AssetCheckExecutionContext], ResultPages] | None = None,
) -> dg.AssetChecksDefinition:
    """Build asset checks from expectations on a table.

    >>> fares = {"fare_is_there": {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "fare"}}}
    >>> def read(context, scope):
    ...     return pl.scan_parquet(context.resources.folder / "fares.parquet")
    >>> checks = gx_checks(dg.AssetKey("fares"), fares, read, required_resource_keys={"folder"})
    >>> [key.name for key in checks.check_keys]
    ['fare_is_there']

    Args:
        asset: the asset that they check.
        expectations: by check name, in GX's serialised form, which `expectation.configuration.to_json_dict()` gives of an object
            of GX.
        read: scans the table; called once in a run, or twice where an incremental run has checks of the whole table.
        required_resource_keys: resources that `read` and `data_docs` find in `context.resources`.
        masked: columns whose values show nowhere, or what tells them in a run: not in examples, observed values, errors
            or Data Docs.
        data_docs: gives what shows validations to people, if anything does.
    """
    whole = {name for name, one in expectations.items() if needs_whole_table(one)}
    planned = [
        dg.AssetCheckSpec(
            name,
            asset=asset,
            blocking=severity_of(one) == "critical",
            description=str(one.get("description") or one["type"]),
            metadata={"expectation": str(one["type"]), "severity": severity_of(one), "always_full": name in whole},
        )
        for name, one in expectations.items()
    ]

    @dg.multi_asset_check(
        name=f"{'__'.join(asset.path)}_expectations",
        specs=planned,
        can_subset=True,
        required_resource_keys=required_resource_keys,
        description=f"Great Expectations suite of {asset.to_user_string()}",
    )
    def evaluate(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        wanted = {key.name for key in context.selected_asset_check_keys}
        chosen = [one for one in planned if one.name in wanted]
        docs = data_docs(context) if data_docs else None
        hidden = masked(context) if callable(masked) else masked
        for rows, scope, checks in _reads(context, read, chosen, whole):
            found = validate(rows, {one.name: expectations[one.name] for one in checks}, masked=hidden)
            address = None
            try:
                if docs:
                    suite = "__".join(asset.path)
                    address = docs.add(suite, found.values(), scope=scope.value, run=context.run.run_id)
            except Exception as error:  # a page that cannot be written must not fail the check
                context.log.warning(f"Data Docs were not written: {type(error).__name__}: {error}")
            for one in checks:
                yield _result(one, found[one.name], scope, address)

    return evaluate


def _result(spec: dg.AssetCheckSpec, found: Outcome, scope: Scope, address: str | None) -> dg.AssetCheckResult:
    if found.problem:
        description = f"could not be evaluated: {_literal(found.problem)}"
    else:
        description = None if found.success else _violation(found.result)
    # A browser does not open a file from a page served over http, but people can copy the path.
    shown = dg.MetadataValue.url if (address or "").startswith("http") else dg.MetadataValue.path
    return dg.AssetCheckResult(
        passed=found.is_good,
        asset_key=spec.asset_key,
        check_name=spec.name,
        severity=dg.AssetCheckSeverity.ERROR if spec.blocking else dg.AssetCheckSeverity.WARN,
        description=description,
        metadata={
            "evaluated": not found.problem,
            "scope": scope.value,
            **_metadata(found.result),
            **({"data_docs": shown(address)} if address else {}),
        },
    )


def _reads(
    context: dg.AssetCheckExecutionContext, read: Read, chosen: list[dg.AssetCheckSpec], whole: Collection[str]
) -> Iterator[tuple[pl.LazyFrame, Scope, list[dg.AssetCheckSpec]]]:
    """The table once, or new rows and the whole table, each with the checks that see it."""
    new_only = [one for one in chosen if one.name not in whole]
    if new_only and Scope(context.run.tags.get(SCOPE_TAG, Scope.INCREMENTAL)) is Scope.INCREMENTAL:
        new = read(context, Scope.INCREMENTAL)
        if new is not None:
            yield new, Scope.INCREMENTAL, new_only
            chosen = [one for one in chosen if one.name in whole]
    if chosen:
        table = read(context, Scope.FULL)
        if table is None:
            raise ValueError("`read` returned None for Scope.FULL; it must return the whole table")
        yield table, Scope.FULL, chosen


def _violation(found: Mapping[str, Any]) -> str:
    if "unexpected_count" in found:
        bad, rows = found["unexpected_count"], found["element_count"]
        share = 100 * bad / max(rows - found.get("missing_count", 0), 1)
        return f"{bad:,} of {rows:,} rows violate the expectation ({share:.3g} %)"
    if EXAMPLES in found:
        return f"{found['observed_value']:,} unexpected rows; the table has {found['element_count']:,} rows"
    return f"observed {_literal(str(found['observed_value']))}" if "observed_value" in found else "violated"


def _literal(text: str) -> str:
    """Quote text that may come from rows: Dagster's pages render descriptions as Markdown, and would fetch its images."""
    one_line = " ".join(text.split())
    shown = one_line if len(one_line) <= _LONGEST_LITERAL else f"{one_line[: _LONGEST_LITERAL - 1]}…"
    if re.fullmatch(r"[\w .,+-]*", shown):
        return shown
    # A code span ends with as many backticks as it begins with, so the fence must be longer than any in the text.
    fence = "`" * (1 + max(map(len, re.findall("`+", shown)), default=0))
    # The text may not touch the fence; Markdown drops one blank at both ends.
    return f"{fence} {shown} {fence}"


def _metadata(found: Mapping[str, Any]) -> dict[str, Any]:
    named = {"element_count": "rows", "unexpected_count": "unexpected", "missing_count": "missing"}
    metadata: dict[str, Any] = {name: int(found[key]) for key, name in named.items() if found.get(key) is not None}
    if "observed_value" in found:
        metadata["observed"] = str(found["observed_value"])
    if rows := found.get(EXAMPLES):
        columns = dg.TableSchema([dg.TableColumn(name) for name in rows[0]])
        metadata["sample"] = dg.MetadataValue.table([dg.TableRecord(row) for row in rows], columns)
    return metadata
