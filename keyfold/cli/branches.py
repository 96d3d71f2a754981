"""`keyfold try`, `keyfold redrive` and `keyfold promote`: history read anew beside what is live."""

from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from keyfold.cli.options import DEFAULT_HOME, AsJson, Home, Parameters, WithConsumers, given_parameters
from keyfold.cli.plain_text import cell, message
from keyfold.cli.run import run_summary, run_text
from keyfold.cli.spark import spark_of_environment
from keyfold.cli.state_jobs import build_live_job
from keyfold.cli.terminal import failures, progress_of, report, usage_faults
from keyfold.keyed.runner import RunOptions
from keyfold.lakehouse import Lakehouse
from keyfold.project import project_jobs
from keyfold.runs import JobRun, consumers_of, promote_with_consumers
from keyfold.state.changing.promoting import promote
from keyfold.state.changing.trying import redrive, try_job
from keyfold.state.differences.comparing import TableDifference
from keyfold.state.rows.lines import json_lines
from keyfold.times import parse_time

_Job = Annotated[str, typer.Argument(help="The job.")]
_Promote = Annotated[bool, typer.Option("--promote", help="Make the branch the live generation at the end.")]


def try_(
    job: _Job,
    branch: Annotated[str, typer.Argument(help="A name for the branch.")],
    param: Parameters = None,
    since: Annotated[str | None, typer.Option(metavar="ISO_TIME", help="Read events from this time on.")] = None,
    until: Annotated[str | None, typer.Option(metavar="ISO_TIME", help="Read events before this time.")] = None,
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Run a changed job over history into a branch, and show how its tables differ from the live ones."""
    with usage_faults():
        span = {"since": parse_time("--since", since), "until": parse_time("--until", until)}
    with failures():
        lakehouse = Lakehouse(home)
        keyed_job = build_live_job(lakehouse, job, given_parameters(param))
        with spark_of_environment(home) as spark, progress_of(job) as report_progress:
            options = RunOptions(on_batch=lambda progress, _: report_progress(progress))
            trial = try_job(spark, lakehouse, keyed_job, branch, **span, options=options)
        summary = {"job": job, "branch": branch, "live": trial.live, "tables": _as_json(trial.tables)}
        report(summary, as_json, f"{job}: branch {branch} beside {trial.live}, {trial.run.counts.events:,} events")
        if not as_json:
            _print(trial.tables)
            report({}, as_json, f"make it live: `keyfold promote {job} {branch}`")


def redrive_(
    job: _Job,
    branch: Annotated[str, typer.Option(help="A name for the branch.")] = "redrive",
    since: Annotated[
        str | None, typer.Option(metavar="ISO_TIME", help="Of late events, those from this time on.")
    ] = None,
    live_after: _Promote = False,
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Show what a job's tables would be had its late events come in time; with --promote make it so."""
    with usage_faults():
        moment = parse_time("--since", since)
    with failures():
        lakehouse = Lakehouse(home)
        keyed_job = build_live_job(lakehouse, job, {})
        with spark_of_environment(home) as spark, progress_of(job) as report_progress:
            options = RunOptions(on_batch=lambda progress, _: report_progress(progress))
            found = redrive(spark, lakehouse, keyed_job, branch, since=moment, options=options)
        live = promote(lakehouse, job, branch).name if live_after else None
        summary = {
            "job": job,
            "branch": branch,
            "late_before": found.late_before,
            "late_after": found.late_after,
            "tables": _as_json(found.trial.tables),
            "live": live,
        }
        report(
            summary, as_json, f"{job}: {found.late_before:,} late events, {found.late_after:,} still late in {branch}"
        )
        if not as_json:
            _print(found.trial.tables)
            report({}, as_json, f"{live} is live now" if live else f"make it live: `keyfold promote {job} {branch}`")


def promote_(
    job: _Job,
    branch: Annotated[str, typer.Argument(help="The branch, of `keyfold try`, `redrive` or `run --replay`.")],
    with_consumers: WithConsumers = False,
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Make a branch the live generation; the next run goes on from there."""
    with failures():
        lakehouse, runs = Lakehouse(home), list[JobRun]()
        if with_consumers:
            consumers = consumers_of(lakehouse, job, project_jobs())
            with spark_of_environment(home) as spark, progress_of(job) as report_progress:
                options = RunOptions(on_batch=lambda progress, _: report_progress(progress))
                live, runs = promote_with_consumers(spark, lakehouse, job, branch, consumers, options=options)
        else:
            live = promote(lakehouse, job, branch)
        text = f"{job}: {live.name} is live, which was branch {branch}; the one before stays until `keyfold state prune {job}`"
        summary = {"job": job, "branch": branch, "generation": live.name}
        summary |= {"consumers": [run_summary(one) for one in runs]} if with_consumers else {}
        report(summary, as_json, "\n".join([text, *map(run_text, runs)]))


def _as_json(tables: tuple[TableDifference, ...]) -> list[dict[str, Any]]:
    return [{**asdict(one), "samples": one.samples.to_dicts()} for one in tables]


def _print(tables: tuple[TableDifference, ...]) -> None:
    console = Console()
    shown = Table("table", "before", "after", "alike", "added", "removed", "changed", box=None, header_style="bold")
    for one in tables:
        counts = (one.rows_before, one.rows_after, one.same, one.added, one.removed, one.changed)
        shown.add_row(cell(one.table), *(f"{count:,}" for count in counts))
    console.print(shown)
    for one in tables:
        for name, count in one.changed_columns.items():
            console.print(message(f"{one.table}.{name} differs in {count:,} rows"))
        for line in json_lines(one.samples, (), "jsonl"):
            console.print(message(f"  {line}"), soft_wrap=True)
