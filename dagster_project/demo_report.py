"""What the demo says when it is done: one screen."""

from collections.abc import Mapping
from typing import Any

import dagster as dg
import polars as pl
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from assets.metadata import table_key
from spark_jobs.lakehouse import Lakehouse
from spark_jobs.tables import count_rows

_REASONS = 3


def print_report(
    console: Console,
    lakehouse: Lakehouse,
    result: dg.ExecuteInProcessResult,
    instance: dg.DagsterInstance,
    *,
    stream: str,
    job: str,
    landed: str,
    seconds: float,
) -> bool:
    """Print what a run made, found and took; True when it succeeded, with every check that blocks."""
    told = _metadata(result)
    ingested, run = told.get(table_key(f"events.{stream}"), {}), told.get(table_key(job), {})
    counted = {f"events.{stream}": ingested.get("accepted"), f"quarantine.{stream}": ingested.get("quarantined")}

    console.print(f"\n[bold]Keyfold demo[/]  {escape(landed)}\n", highlight=False)
    tables = Table("table", box=None, pad_edge=False, header_style="bold")
    tables.add_column("rows", justify="right")
    tables.add_column("new", justify="right")
    for name, path in lakehouse.tables().items():
        new = counted.get(name, told.get(table_key(name), {}).get("rows_out"))
        tables.add_row(name, f"{count_rows(path):,}", "" if new is None else f"+{new:,}")
    console.print(tables)

    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="bold")
    if ingested:
        facts.add_row(
            "rows",
            f"{ingested['rows_read']:,} read = {ingested['accepted']:,} accepted + {ingested['quarantined']:,} "
            f"quarantined + {ingested['duplicates']:,} duplicates",
        )
        if ingested["quarantined"]:
            facts.add_row("", escape(_quarantine_reasons(lakehouse, stream)))
    if run:
        facts.add_row(
            "events",
            f"{run['events_in']:,} in; {run['late']:,} came late, {run['open_events']:,} wait in open rides; "
            f"{run['batches']} batches",
        )
        if run["events_in"] and run["late"] > run["events_in"] // 2:
            facts.add_row("", _mostly_late(lakehouse))
    facts.add_row("checks", _checks(result))
    facts.add_row("time", _times(result, instance, seconds))
    console.print()
    console.print(facts, highlight=False)
    for event in result.all_events:
        if event.is_step_failure:
            console.print(f"\n[bold red]failed[/]  {event.step_key}: {escape(_reason(event))}", highlight=False)
    good = result.success and not _held_back(result)
    if good:
        console.print("\nIn Dagster's pages: [bold]make ui[/], then Assets, group rides\n", highlight=False)
    return good


def _metadata(result: dg.ExecuteInProcessResult) -> dict[dg.AssetKey, dict[str, Any]]:
    told: dict[dg.AssetKey, dict[str, Any]] = {}
    for event in result.get_asset_materialization_events():
        if event.asset_key is not None:
            values: Mapping[str, dg.MetadataValue] = event.materialization.metadata
            told[event.asset_key] = {name: value.value for name, value in values.items()}
    return told


def _held_back(result: dg.ExecuteInProcessResult) -> list[dg.AssetCheckEvaluation]:
    evaluations = result.get_asset_check_evaluations()
    return [found for found in evaluations if not found.passed and found.severity is dg.AssetCheckSeverity.ERROR]


def _checks(result: dg.ExecuteInProcessResult) -> str:
    evaluations = result.get_asset_check_evaluations()
    failed = [found for found in evaluations if not found.passed]
    errors = len(_held_back(result))
    lines = [f"{len(evaluations) - len(failed)} passed, {errors} failed, {len(failed) - errors} warned"]
    lines += [f"{found.check_name}: {escape(found.description or 'failed')}" for found in failed]
    return "\n".join(lines)


def _quarantine_reasons(lakehouse: Lakehouse, stream: str) -> str:
    rows = pl.scan_delta(str(lakehouse.quarantine(stream)))
    # What comes after a colon is the row's own value.
    reasons = rows.group_by(pl.col("reason").str.split(": ").list.first()).len()
    first = reasons.sort("len", "reason", descending=[True, False]).head(_REASONS).collect()
    return "most often " + "; ".join(f"{reason} ({count:,})" for reason, count in first.iter_rows())


def _mostly_late(lakehouse: Lakehouse) -> str:
    return (
        "[yellow]most events are older than those that were here before, and so came late: read them into a lakehouse "
        f"of their own, KEYFOLD_HOME=DIR make demo FROM=…, or empty {escape(str(lakehouse.home))} with make reset[/]"
    )


def _times(result: dg.ExecuteInProcessResult, instance: dg.DagsterInstance, seconds: float) -> str:
    checks = {
        f"{found.asset_key.to_python_identifier()}_{found.check_name}" for found in result.get_asset_check_evaluations()
    }
    took: dict[str, float] = {}
    for stats in sorted(instance.get_run_step_stats(result.run_id), key=lambda stats: stats.start_time or 0):
        if stats.start_time and stats.end_time:
            is_check = stats.step_key in checks or stats.step_key.endswith("_expectations")
            name = "checks" if is_check else stats.step_key
            took[name] = took.get(name, 0) + stats.end_time - stats.start_time
    started = seconds - sum(took.values())
    return f"{seconds:.0f} s: start {started:.0f} s, " + ", ".join(
        f"{name} {time:.0f} s" for name, time in took.items()
    )


def _reason(event: dg.DagsterEvent) -> str:
    error = event.step_failure_data.error
    while error is not None and error.cause is not None:
        error = error.cause
    return error.message.strip() if error is not None else (event.message or "no reason given")
