"""Summarize a run of a job, as JSON and as a line for people."""

from dataclasses import asdict
from typing import Any

from keyfold.runs.jobs import JobRun


def run_summary(summary: JobRun) -> dict[str, Any]:
    """Return the summary of a run, as `--json` prints it."""
    return {
        "job": summary.job,
        "generation": summary.generation,
        "mode": summary.mode,
        **asdict(summary.counts),
        "totals": asdict(summary.totals),
        "watermark": summary.watermark,
        "batches": len(summary.batch_seconds),
        "seconds": round(summary.seconds, 3),
        "warnings": summary.warnings,
        "published": {one.table: one.rows for one in summary.published},
    }


def run_text(summary: JobRun) -> str:
    """Return the summary of a run as a line for people."""
    rows = ", ".join(f"{count:,} {name}" for name, count in summary.counts.rows.items())
    published = "".join(f"; {one.rows:,} rows of {one.table} to topic {one.topic}" for one in summary.published)
    return (
        f"{summary.job} ({summary.generation}): {summary.counts.events:,} events in {summary.seconds:.1f} s: {rows}; "
        f"{summary.totals.open_events:,} events open; watermark {summary.watermark or 'not set'}{published}"
    )
