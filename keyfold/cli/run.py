"""`keyfold run` and `verify`: run a keyed job over new events; see whether its answer depends on how they come."""

import random
from pathlib import Path
from typing import Annotated

import polars as pl
import typer

from keyfold.cli.options import (
    DEFAULT_HOME,
    AsJson,
    Continuous,
    Every,
    Home,
    Metrics,
    Parameters,
    RunnerChoice,
    given_pairs,
    require_known,
    runners_for,
)
from keyfold.cli.terminal import progress_of, report, until_signal, usage_faults, warn
from keyfold.errors import KeyfoldError
from keyfold.journal.records import Progress
from keyfold.keyed.generation.batch_records import Counts
from keyfold.keyed.generation.configured import live_parameters
from keyfold.keyed.generation.run_mode import FullRefresh, Incremental
from keyfold.keyed.job.building import build_job
from keyfold.keyed.runner import RunOptions
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.reading import read_table
from keyfold.project import project_jobs
from keyfold.runs import JobRun, consumers_of, refresh_with_consumers, run_continuously
from keyfold.runs import run as run_job
from keyfold.runs.jobs import refuse_to_forget, run_summary, run_text
from keyfold.testing.verifying import verify as find_counterexample
from keyfold.times import parse_time


def run(
    job: Annotated[str, typer.Argument(help=f"One of: {', '.join(project_jobs())}.")],
    home: Home = DEFAULT_HOME,
    param: Parameters = None,
    advance_to: Annotated[
        str | None, typer.Option(metavar="ISO_TIME", help="Advance the watermark to this time; due timers fire.")
    ] = None,
    full_refresh: Annotated[bool, typer.Option("--full-refresh", help="Start over in a new generation.")] = False,
    with_consumers: Annotated[
        bool,
        typer.Option(
            "--with-consumers",
            help="Start over together with the jobs that read this job's tables; all become live in one step.",
        ),
    ] = False,
    continuous: Continuous = False,
    every: Every = None,
    metrics: Metrics = None,
    runner: RunnerChoice = None,
    batch_mib: Annotated[
        int,
        typer.Option(
            min=1,
            help="At most this many MiB of event files a batch. Each batch rewrites the state that it touches, so larger "
            "batches cost less where state is large. Results are the same.",
        ),
    ] = RunOptions().max_bytes_per_batch >> 20,
    as_json: AsJson = False,
) -> None:
    """Run a keyed job over the new events of its streams."""
    require_known("job", job, project_jobs())
    given = given_pairs("--param", param)
    continuous = continuous or every is not None or metrics is not None
    with usage_faults():
        reached = parse_time("--advance-to", advance_to)
        mode = FullRefresh(reached) if full_refresh or with_consumers else Incremental(reached)
        if continuous and mode != Incremental():
            raise KeyfoldError("a continuous run excludes --advance-to, --full-refresh and --with-consumers")
    lakehouse = Lakehouse(home)
    born_with = live_parameters(lakehouse, job, mode)
    with usage_faults():
        keyed_job = build_job(project_jobs()[job], given, born_with)
    if isinstance(mode, FullRefresh):
        refuse_to_forget(lakehouse, project_jobs()[job], given)
    until_stopped = until_signal(every, metrics) if continuous else {}
    with runners_for(runner, home) as runners, progress_of(job) as report_progress:

        def on_batch(progress: Progress, _: Counts) -> None:
            report_progress(progress)

        options = RunOptions(batch_mib << 20, on_batch)
        consumer_runs: list[JobRun] = []
        if with_consumers and isinstance(mode, FullRefresh):
            consumers = consumers_of(lakehouse, job, project_jobs())
            done, *consumer_runs = refresh_with_consumers(
                lakehouse, keyed_job, consumers, mode, options=options, runners=runners
            )
        elif continuous:
            done = run_continuously(lakehouse, keyed_job, options=options, **until_stopped, runners=runners)
        else:
            done = run_job(lakehouse, keyed_job, mode, options=options, runners=runners)
    runs = [done, *consumer_runs]
    warn(line for one in runs for line in one.warnings)
    summary = run_summary(done) | ({"consumers": [run_summary(one) for one in consumer_runs]} if with_consumers else {})
    report(summary, as_json, "\n".join(map(run_text, runs)))


def verify(
    job: Annotated[str, typer.Argument(help=f"One of: {', '.join(project_jobs())}.")],
    rounds: Annotated[int, typer.Option(min=1, help="How often events are drawn.")] = 50,
    seed: Annotated[int, typer.Option(help="Of the events that are drawn.")] = 0,
    sample: Annotated[
        bool, typer.Option("--sample", help="Draw events from the tables of the lakehouse, and do not make them.")
    ] = False,
    write: Annotated[Path, typer.Option(help="File for a test of the counterexample.")] = Path(
        "test_counterexample.py"
    ),
    home: Home = DEFAULT_HOME,
) -> None:
    """Play events to a job in any order, cut and in files; the exit code is 1 if it gives different answers."""
    require_known("job", job, project_jobs())
    declared = project_jobs()[job]
    rows = {name: _rows(Lakehouse(home), one.table, seed) for name, one in declared.inputs.items()} if sample else {}
    found = find_counterexample(declared, rows, rounds=rounds, seed=seed)
    if found is None:
        typer.echo(f"{job}: one answer, whatever the order, the slices and the files, in {rounds} rounds")
        return
    write.write_text(found.as_test(), encoding="utf-8")
    events = sum(len(rows) for run in found.runs for rows in run.values())
    typer.echo(
        f"{job}: the answer differs when the same events come {found.way}; {write} has {events} of them, and fails until "
        f"the job gives one answer:\n{found.difference}",
        err=True,
    )
    raise typer.Exit(1)


def _rows(lakehouse: Lakehouse, table: str, seed: int) -> pl.DataFrame:
    rows = read_table(lakehouse, table).head(100_000).collect()
    return rows.sample(min(500, rows.height), seed=random.Random(seed).randrange(2**31))
