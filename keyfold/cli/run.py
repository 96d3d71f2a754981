"""`keyfold run` and `verify`: run a keyed job over new events; see whether its answer depends on how they come."""

from pathlib import Path
from typing import Annotated, Any

import typer

from keyfold.cli.options import (
    Continuous,
    Every,
    Metrics,
    Parameters,
    RunnerChoice,
    given_pairs,
    look_up,
    one_of,
    runners_for,
)
from keyfold.cli.terminal import progress_of, report, until_signal, usage_faults, warn
from keyfold.errors import KeyfoldError
from keyfold.keyed.generation.configured import live_parameters
from keyfold.keyed.generation.run_mode import FullRefresh, Incremental
from keyfold.keyed.job.building import build_job
from keyfold.keyed.job_run import RunOptions
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.reading import read_table
from keyfold.project import project_jobs
from keyfold.runs import consumers_of, refresh_with_consumers, run_continuously
from keyfold.runs import run as run_job
from keyfold.runs.jobs import refuse_to_forget, run_summary, run_text
from keyfold.testing.verifying import verify as find_counterexample
from keyfold.times import parse_time


def run(
    job: Annotated[str, typer.Argument(help=one_of("jobs"))],
    lakehouse: Lakehouse,
    param: Parameters = None,
    advance_to: Annotated[
        str | None,
        typer.Option(
            metavar="ISO_TIME", help="Advance the watermark to this time after the new events; due timers fire."
        ),
    ] = None,
    full_refresh: Annotated[
        bool,
        typer.Option(
            "--full-refresh", help="Read all events again into a new generation, which goes live when it is complete."
        ),
    ] = False,
    with_consumers: Annotated[
        bool,
        typer.Option(
            "--with-consumers",
            help="Full refresh of this job and of all jobs that read its tables; all become live in one step.",
        ),
    ] = False,
    continuous: Continuous = False,
    every: Every = None,
    metrics: Metrics = None,
    runner: RunnerChoice = None,
) -> None:
    """Run a keyed job over the new events of its streams."""
    declared, parameters = look_up("job", job, project_jobs()), dict(given_pairs("--param", param))
    continuous = continuous or every is not None or metrics is not None
    with usage_faults():
        time = parse_time("--advance-to", advance_to)
        mode = FullRefresh(time) if full_refresh or with_consumers else Incremental(time)
        if continuous and mode != Incremental():
            raise KeyfoldError(
                "a continuous run takes no --advance-to, --full-refresh or --with-consumers: leave them out, or run without --continuous, --every and --metrics"
            )
    of_generation = live_parameters(lakehouse, job, mode)
    with usage_faults():
        keyed_job = build_job(declared, parameters, of_generation)
    if isinstance(mode, FullRefresh):
        refuse_to_forget(lakehouse, declared, parameters)
    until_stopped = until_signal(every, metrics) if continuous else {}
    with runners_for(runner, lakehouse.home) as runners, progress_of(job) as report_progress:
        options: Any = {
            "options": RunOptions(on_batch=lambda progress, _: report_progress(progress)),
            "runners": runners,
        }
        if with_consumers and isinstance(mode, FullRefresh):
            consumers = consumers_of(lakehouse, job, project_jobs())
            summaries = refresh_with_consumers(lakehouse, keyed_job, consumers, mode, **options)
        elif continuous:
            summaries = [run_continuously(lakehouse, keyed_job, **until_stopped, **options)]
        else:
            summaries = [run_job(lakehouse, keyed_job, mode, **options)]
    warn(line for summary in summaries for line in summary.warnings)
    summary, *consumer_runs = map(run_summary, summaries)
    report(summary, "\n".join(map(run_text, summaries)), consumers=consumer_runs)


def verify(
    job: Annotated[str, typer.Argument(help=one_of("jobs"))],
    lakehouse: Lakehouse,
    rounds: Annotated[int, typer.Option(min=1, help="Number of rounds, each with new events.")] = 50,
    sample: Annotated[
        bool, typer.Option("--sample", help="Draw events from the event tables instead of making them up.")
    ] = False,
) -> None:
    """Check that a job's answers do not depend on order and batching; the exit code is 1 if they do.

    The events that show it are written to `test_counterexample.py`, as a test.
    """
    declared = look_up("job", job, project_jobs())
    tables = {name: read_table(lakehouse, input_.table) for name, input_ in declared.inputs.items()} if sample else {}
    rows = {
        name: table.head(100_000).collect().sample(fraction=1, shuffle=True, seed=0).head(500)
        for name, table in tables.items()
    }
    counterexample = find_counterexample(declared, rows, rounds=rounds)
    if counterexample is None:
        same = f"{job}: one answer, whatever the order, the runs, the slices and the files, in {rounds} rounds"
        report({"job": job, "rounds": rounds}, same)
        return
    file = Path("test_counterexample.py")
    file.write_text(counterexample.as_test(), encoding="utf-8")
    events = sum(len(rows) for run in counterexample.runs for rows in run.values())
    raise KeyfoldError(
        f"{job}: the answer differs when the same events come {counterexample.way}; {file} has {events} of them, and fails until "
        f"the job gives one answer:\n{counterexample.difference}"
    )
