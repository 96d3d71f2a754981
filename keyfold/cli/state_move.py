"""`keyfold plan`, `keyfold state move` and `keyfold state prune`: what a change of a job means, and what it takes."""

from dataclasses import asdict
from typing import Annotated

import typer

from keyfold.cli.options import DEFAULT_HOME, AsJson, Home, Parameters, given_parameters
from keyfold.cli.spark import spark_of_environment
from keyfold.cli.state_jobs import build_live_job
from keyfold.cli.terminal import failures, report
from keyfold.lakehouse import Lakehouse
from keyfold.state.changing.moving import ChangePlan, move, plan_change
from keyfold.state.changing.pruning import prune

_Partitions = Annotated[int | None, typer.Option(min=1, max=32_768, help="Partitions of Spark's state store.")]


def plan(
    job: Annotated[str, typer.Argument(help="The job.")],
    param: Parameters = None,
    partitions: _Partitions = None,
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Say what a change of a job means before anything runs: free, a move, or a refresh."""
    with failures():
        lakehouse = Lakehouse(home)
        told = plan_change(lakehouse, build_live_job(lakehouse, job, given_parameters(param)), partitions)
        report(asdict(told), as_json, _plan_text(told))


def state_move(
    job: Annotated[str, typer.Argument(help="The job.")],
    param: Parameters = None,
    partitions: _Partitions = None,
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Take a job's state and tables along into a new generation, as the job is now."""
    with failures():
        lakehouse = Lakehouse(home)
        keyed_job = build_live_job(lakehouse, job, given_parameters(param))
        with spark_of_environment(home) as spark:
            moved = move(spark, lakehouse, keyed_job, partitions)
        summary = {
            "job": job,
            "generation": moved.generation.name,
            "state_rows_before": moved.rows_before,
            "state_rows": moved.rows,
            "table_rows": moved.table_rows,
        }
        tables = ", ".join(f"{count:,} {name}" for name, count in moved.table_rows.items())
        text = (
            f"{job}: {moved.generation.name} is live, with {moved.rows:,} rows of state (of {moved.rows_before:,}) and "
            f"{tables}; the one before stays until `keyfold state prune {job}`"
        )
        report(summary, as_json, text)


def state_prune(
    job: Annotated[str, typer.Argument(help="The job.")],
    branches: Annotated[bool, typer.Option("--branches", help="Remove its branches too.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go; remove nothing.")] = False,
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Remove all generations of a job but the live one."""
    with failures():
        gone = prune(Lakehouse(home), job, branches=branches, dry_run=dry_run)
        would = "would go" if dry_run else "is gone"
        text = "\n".join(f"{one.name}, {one.bytes:,} bytes: {would}" for one in gone) or "there is nothing to remove"
        report({"job": job, "removed": [asdict(one) for one in gone], "dry_run": dry_run}, as_json, text)


def _plan_text(told: ChangePlan) -> str:
    if told.generation is None:
        return f"{told.job} has never run: its first run reads {told.events:,} events ({told.event_bytes:,} bytes)"
    lines = [f"{one.setting}: {one.before} -> {one.after}: {one.verdict} ({one.why})" for one in told.changes]
    if told.verdict == "free":
        lines.append(f"{told.job} goes on in {told.generation}: `keyfold run {told.job}`")
    elif told.verdict == "move":
        lines.append(
            f"a move rewrites {told.state_bytes:,} bytes of state, which stand for {told.open_events:,} open events; tables "
            f"are taken over as they are: `keyfold state move {told.job}`"
        )
    else:
        lasts = f", about {told.seconds:,.0f} s by the speed of its last batches" if told.seconds else ""
        lines.append(
            f"a refresh reads {told.events:,} events again ({told.event_bytes:,} bytes{lasts}): `keyfold run {told.job} "
            f"--full-refresh`; see first what it would change: `keyfold try {told.job} BRANCH`"
        )
    lines.append("of changes in the code of its step this knows nothing: `keyfold try` shows what they do")
    return "\n".join(lines)
