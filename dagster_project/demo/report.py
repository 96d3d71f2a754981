"""Print the demo's report, on one screen."""

from collections.abc import Mapping
from textwrap import shorten
from typing import Any

import dagster as dg
from rich.console import Console
from rich.table import Table
from rich.text import Text

from keyfold import Lakehouse
from keyfold.cli.terminal import message, visible
from keyfold.dagster.assets.metadata import EVENTS
from keyfold.dagster.translator import DEFAULT
from keyfold.ingestion import ingest_totals
from spark_jobs.jobs.registry import JOBS
from spark_jobs.streams import STREAMS

_FAILED_CHECKS = 5
_ONE_LINE, _WORD = 100, 16

Metadata = Mapping[dg.AssetKey, Mapping[str, Any]]
"""Metadata of a run's materializations and observations, by asset."""


def assets_of(definitions: dg.Definitions, group: str) -> list[dg.AssetKey]:
    """Return the assets of a group that a run can materialize."""
    graph = definitions.resolve_asset_graph()
    return sorted(key for key in graph.executable_asset_keys if graph.get(key).group_name == group)


def print_report(
    console: Console, lakehouse: Lakehouse, result: dg.ExecuteInProcessResult, *, landed: str, seconds: float
) -> bool:
    """Print the lakehouse's totals and a run's findings; return whether it and all blocking checks succeeded."""
    metadata_of = _metadata(result)
    console.print(Text.assemble(("Keyfold demo", "bold"), "  ", message(landed), "\n"))
    console.print(_streams(lakehouse, metadata_of))
    console.print()
    console.print(_jobs(metadata_of))
    console.print()
    console.print(_facts(result, metadata_of, seconds), highlight=False)
    for event in result.all_events:
        if event.is_step_failure:
            reason = message(f"{event.step_key}: {_reason(event)}")
            console.print(Text.assemble("\n", ("failed", "bold red"), "  ", reason))
    without = _without_any_event(metadata_of)
    for stream, reason in without.items():
        console.print(Text.assemble("\n", ("failed", "bold red"), "  ", message(f"{stream}: {reason}")))
    good = result.success and not _held_back(result) and not without
    if good:
        console.print("\nIn Dagster's pages: [bold]make ui[/]. Rows: [bold]keyfold show TABLE[/]")
    return good


def _without_any_event(metadata_of: Metadata) -> dict[str, str]:
    """Return the streams without any accepted row, with the reason; usually their files have another format."""
    reasons: dict[str, str] = {}
    for stream in STREAMS:
        metadata = metadata_of.get(DEFAULT.get_asset_key(f"events.{stream}"))
        if not metadata or metadata["accepted"] or metadata["duplicates"] or metadata.get("dagster/row_count"):
            continue
        why = f"; keyfold show quarantine.{stream} tells why" if metadata["quarantined"] else ""
        reasons[stream] = f"none of the {metadata['rows_read']:,} rows read was accepted{why}"
    return reasons


def _streams(lakehouse: Lakehouse, metadata_of: Metadata) -> Table:
    table = Table("stream", box=None, pad_edge=False, header_style="bold")
    for name in ("rows read", "accepted", "quarantined", "duplicates", "seconds"):
        table.add_column(name, justify="right")
    for stream in STREAMS:
        metadata = metadata_of.get(DEFAULT.get_asset_key(f"events.{stream}"))
        if metadata:
            totals = ingest_totals(lakehouse, stream)
            counts = (totals.rows_read, totals.accepted, totals.quarantined, totals.duplicates)
            table.add_row(stream, *(f"{count:,}" for count in counts), metadata["seconds"])
    return table


def _jobs(metadata_of: Metadata) -> Table:
    table = Table("job", box=None, pad_edge=False, header_style="bold")
    for name in ("events", "rows", "new", "late", "open", "seconds"):
        table.add_column(name, justify="right")
    for job in JOBS:
        metadata = metadata_of.get(DEFAULT.get_asset_key(job))
        if metadata:
            counts = [f"{int(metadata[EVENTS]):,}", f"{metadata['dagster/row_count']:,}", f"+{metadata['rows_out']:,}"]
            counts += [f"{metadata[name]:,}" for name in ("late", "open_events")]
            table.add_row(job, *counts, metadata["seconds"])
    return table


def _facts(result: dg.ExecuteInProcessResult, metadata_of: Metadata, seconds: float) -> Table:
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="bold")
    for metadata in metadata_of.values():
        if warnings := metadata.get("warnings"):
            facts.add_row("warned", Text(visible(warnings, keep="\n"), "yellow"))
    facts.add_row("checks", message(_checks(result)))
    facts.add_row("time", f"{seconds:.0f} s")
    return facts


def _metadata(result: dg.ExecuteInProcessResult) -> Metadata:
    reports = [event.materialization for event in result.get_asset_materialization_events()]
    # A table without new rows.
    reports += [event.asset_observation_data.asset_observation for event in result.get_asset_observation_events()]
    return {report.asset_key: {name: value.value for name, value in report.metadata.items()} for report in reports}


def _held_back(result: dg.ExecuteInProcessResult) -> list[dg.AssetCheckEvaluation]:
    return [check for check in _errors(result) if check.blocking]


def _errors(result: dg.ExecuteInProcessResult) -> list[dg.AssetCheckEvaluation]:
    evaluations = result.get_asset_check_evaluations()
    return [check for check in evaluations if not check.passed and check.severity is dg.AssetCheckSeverity.ERROR]


def _checks(result: dg.ExecuteInProcessResult) -> str:
    evaluations = result.get_asset_check_evaluations()
    failed = [check for check in evaluations if not check.passed]
    errors = len(_errors(result))
    lines = [f"{len(evaluations) - len(failed)} passed, {errors} failed, {len(failed) - errors} warned"]
    lines += [
        f"{check.asset_key.to_user_string()}.{check.check_name}: {_in_brief(check.description or 'failed')}"
        for check in failed[:_FAILED_CHECKS]
    ]
    if len(failed) > _FAILED_CHECKS:
        lines.append(f"and {len(failed) - _FAILED_CHECKS} more: see the checks in Dagster's pages")
    return "\n".join(lines)


def _in_brief(text: str) -> str:
    """Return the begin of a text, with long words, such as names of files, cut in their middle."""
    words = [f"{word[:_WORD]}…{word[-_WORD:]}" if len(word) > 2 * _WORD else word for word in text.split()]
    return shorten(" ".join(words), _ONE_LINE, placeholder=" …")


def _reason(event: dg.DagsterEvent) -> str:
    error = event.step_failure_data.error
    # Dagster wraps errors of steps; the innermost one has the reason.
    while error is not None and error.cause is not None:
        error = error.cause
    return error.message.strip() if error is not None else (event.message or "no reason given")
