"""The command line `keyfold`: what the Dagster assets do, without Dagster.

Exit codes: 0 done, 1 failed, 2 bad usage.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from pyspark.sql import SparkSession

from spark_jobs.cli.history import history_of
from spark_jobs.cli.rows import Format, print_rows
from spark_jobs.cli.terminal import failures, progress_of, report, stop_on_signal, usage_faults, warn
from spark_jobs.cli.warm_up import warm_up
from spark_jobs.ingest import IngestSummary
from spark_jobs.ingest import ingest as ingest_files
from spark_jobs.ingest.sources.files import SETTLE
from spark_jobs.jobs.batched_enrichment.client import TOKEN_VARIABLE
from spark_jobs.jobs.parameters import build_job
from spark_jobs.jobs.registry import JOBS
from spark_jobs.keyed.generations import live_generation
from spark_jobs.keyed.runner import Replay, RunOptions, RunSummary, run_continuously, run_job
from spark_jobs.lakehouse import Lakehouse
from spark_jobs.lakehouse.reading import count_rows
from spark_jobs.session import SparkSettings, build_session
from spark_jobs.session.warm.server import serve
from spark_jobs.simulation import SIMULATORS
from spark_jobs.simulation import simulate as simulate_stream
from spark_jobs.simulation.enrichment_service.backend import ServiceSettings
from spark_jobs.simulation.enrichment_service.server import DemoService
from spark_jobs.streams import STREAMS
from spark_jobs.times import parse_time

app = typer.Typer(
    name="keyfold",
    help="Stateful, per-key stream processing: land, ingest, run, look.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Home = Annotated[
    Path, typer.Option("--home", envvar="KEYFOLD_HOME", help="The lakehouse: tables, checkpoints and state.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print a summary as one line of JSON.")]
DEFAULT_HOME = Path(".keyfold")
_ROWS_FOR_THE_EYE = 20
_SIZES = ", ".join(f"{one.counted} ({name}, else {one.size:,})" for name, one in SIMULATORS.items())


@app.command()
def simulate(
    to: Annotated[Path, typer.Option("--to", help="Folder for the files.")],
    stream: Annotated[str, typer.Option("--stream", help=f"One of: {', '.join(SIMULATORS)}.")] = "ride_points",
    size: Annotated[int | None, typer.Option("--size", min=1, help=f"How many {_SIZES}.")] = None,
    rides: Annotated[int | None, typer.Option("--rides", min=1, help="The same as --size, of ride_points.")] = None,
    hours: Annotated[float | None, typer.Option("--hours", help="Span of event time.")] = None,
    seed: Annotated[int, typer.Option("--seed", help="Same seed and start, same bytes.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Write files of simulated events: out of order, duplicated, late, malformed, unfinished."""
    if stream not in SIMULATORS:
        raise typer.BadParameter(f"no stream {stream!r} to simulate; streams there: {', '.join(SIMULATORS)}")
    if rides is not None and (stream != "ride_points" or size is not None):
        raise typer.BadParameter("--rides is for ride_points alone and the same as --size: give --size")
    with failures():
        made = simulate_stream(stream, to, size=rides if size is None else size, seed=seed, hours=hours)
        report(asdict(made), as_json, f"{made.rows:,} rows of {made.size:,} {SIMULATORS[stream].counted} in {to}")


@app.command()
def ingest(
    stream: Annotated[str, typer.Argument(help=f"One of: {', '.join(STREAMS)}.")],
    landing: Annotated[
        Path | None, typer.Option("--from", help="Folder of files [default: HOME/landing/STREAM].")
    ] = None,
    settle: Annotated[
        float, typer.Option(min=0, help="Seconds that a file must have stayed as it is; 0 where nobody writes.")
    ] = SETTLE.total_seconds(),
    reread_changed: Annotated[
        bool, typer.Option("--reread-changed", help="Read files again that have changed since they were read.")
    ] = False,
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Read what is new in a folder into events.STREAM and quarantine.STREAM."""
    if stream not in STREAMS:
        raise typer.BadParameter(f"no stream {stream!r}; streams there: {', '.join(STREAMS)}")
    with failures(), _spark() as spark, progress_of("ingest") as show:
        summary = ingest_files(
            spark,
            Lakehouse(home),
            STREAMS[stream],
            landing,
            settle=timedelta(seconds=settle),
            reread_changed=reread_changed,
            on_batch=show,
        )
        warn(summary.describe())
        report(asdict(summary), as_json, _ingest_text(summary))


@app.command()
def run(
    job: Annotated[str, typer.Argument(help=f"One of: {', '.join(JOBS)}.")],
    home: Home = DEFAULT_HOME,
    param: Annotated[list[str] | None, typer.Option(help="A job parameter, name=value; may be repeated.")] = None,
    advance_to: Annotated[
        str | None, typer.Option(metavar="ISO_TIME", help="Take event time as having reached this; what is due closes.")
    ] = None,
    full_refresh: Annotated[bool, typer.Option(help="Start over in a new generation.")] = False,
    replay: Annotated[
        str | None, typer.Option(metavar="BRANCH", help="Run over history into a branch; its tables are TABLE@BRANCH.")
    ] = None,
    since: Annotated[str | None, typer.Option(metavar="ISO_TIME", help="Replay events from this time on.")] = None,
    until: Annotated[str | None, typer.Option(metavar="ISO_TIME", help="Replay events before this time.")] = None,
    continuous: Annotated[bool, typer.Option(help="Keep running until interrupted.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run a keyed job over what is new in its event table."""
    if job not in JOBS:
        raise typer.BadParameter(f"no job {job!r}; jobs there: {', '.join(JOBS)}")
    if continuous and (advance_to or full_refresh or replay):
        raise typer.BadParameter("--continuous goes with neither --advance-to nor --full-refresh nor --replay")
    if full_refresh and replay:
        raise typer.BadParameter(
            "--full-refresh replaces the live tables and --replay leaves them: give one of the two"
        )
    if (since or until) and not replay:
        raise typer.BadParameter("--since and --until say what to replay; name a branch with --replay")
    given = _parameters(param or [])
    with usage_faults():
        moment = parse_time("--advance-to", advance_to)
        history = Replay(replay, parse_time("--since", since), parse_time("--until", until)) if replay else None
    with failures():
        lakehouse = Lakehouse(home)
        live = None if full_refresh else live_generation(lakehouse, job)
        with usage_faults():
            keyed_job = build_job(JOBS[job], given, live.record["parameters"] if live else None)
        with _spark() as spark, progress_of(job) as tell:
            options = RunOptions(on_batch=lambda progress, _: tell(progress))
            if continuous:
                summary = run_continuously(spark, lakehouse, keyed_job, stop=stop_on_signal(), options=options)
            else:
                mode = "full_refresh" if full_refresh else "replay" if history else "incremental"
                summary = run_job(
                    spark, lakehouse, keyed_job, mode=mode, replay=history, advance_to=moment, options=options
                )
        warn(summary.warnings)
        report(_run_summary(summary), as_json, _run_text(summary))


@app.command()
def journal(
    name: Annotated[str, typer.Argument(metavar="JOB|STREAM", help="Whose journal.")],
    last: Annotated[int, typer.Option(min=1, help="How many batches.")] = 20,
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Print what was planned lately and what came of it, one line a batch."""
    if name not in JOBS and name not in STREAMS:
        raise typer.BadParameter(f"no job and no stream {name!r}; there are {', '.join([*JOBS, *STREAMS])}")
    with failures():
        history = history_of(Lakehouse(home), name, last)
        report(history.as_json(), as_json, "\n".join(history.describe()))


@app.command()
def show(
    table: Annotated[str, typer.Argument(help="events.STREAM, quarantine.STREAM, a job's table, late.JOB, …")],
    home: Home = DEFAULT_HOME,
    style: Annotated[Format, typer.Option("--format", help="How to print the rows.")] = "table",
    limit: Annotated[
        int | None, typer.Option(min=0, help="At most this many rows [default: 20 of a table, else all].")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print the rows of a table; `--json` prints its name, place and row count instead."""
    with failures():
        known = _known_tables()
        lakehouse = Lakehouse(home)
        if table not in known and table not in lakehouse.tables():
            raise typer.BadParameter(f"no table {table!r}; tables: {', '.join(known)}")
        path = lakehouse.table(table)
        if as_json:
            report({"table": table, "path": str(path), "rows": count_rows(path)}, as_json, "")
            return
        print_rows(path, style, _ROWS_FOR_THE_EYE if limit is None and style == "table" else limit, sys.stdout)


@app.command("demo-service")
def demo_service(
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port to listen on; 0 takes a free one.")] = 8077,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    failure_rate: Annotated[
        float, typer.Option(min=0, max=1, help="Share of calls, and of events, that fail and may be tried again.")
    ] = 0,
    reject_rate: Annotated[
        float, typer.Option(min=0, max=1, help="Share of events that are refused, the same ones each time.")
    ] = 0,
    latency: Annotated[float, typer.Option(min=0, help="Seconds that a call takes at least.")] = 0,
    seed: Annotated[int, typer.Option(help="Same seed, same failures.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Serve what batched_enrichment calls, until interrupted; then print what GET /stats says."""
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    settings = ServiceSettings(host, port, failure_rate, reject_rate, latency, seed, token)
    with failures():
        stop = stop_on_signal()
        with DemoService(settings) as service:
            report({"service": service.url}, as_json, f"{service.url} takes events; Ctrl-C ends it")
            sys.stdout.flush()
            stop.wait()
        stats = service.stats()
        text = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in stats.items())
        report(stats, as_json, text)


@app.command("warm-spark")
def warm_spark(
    address: Annotated[
        Path | None, typer.Option(help="File that says where it is [default: HOME/warm-spark.json].")
    ] = None,
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Keep a Spark that runs of Dagster attach to, until interrupted; they find it by KEYFOLD_WARM_SPARK."""
    file = (address or home / "warm-spark.json").expanduser().resolve()

    def tell() -> None:
        report({"address": str(file)}, as_json, f"warm Spark: set KEYFOLD_WARM_SPARK={file} for runs that attach to it")
        sys.stdout.flush()

    with failures():
        serve(SparkSettings.from_environment(), file, warm_up=warm_up, ready=tell, stop=stop_on_signal())


def _known_tables() -> list[str]:
    streams = [f"{kind}.{name}" for name in STREAMS for kind in ("events", "quarantine")]
    return streams + [table.name for template in JOBS.values() for table in build_job(template).tables]


def _parameters(given: list[str]) -> dict[str, str]:
    parameters: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"--param {text!r}: write it as name=value")
        parameters[name.strip()] = value.strip()
    return parameters


def _ingest_text(summary: IngestSummary) -> str:
    waiting = f"; {summary.waiting:,} not whole yet" if summary.waiting else ""
    return (
        f"{summary.stream}: {summary.rows_read:,} rows from {summary.files:,} files in {summary.seconds:.1f} s: "
        f"{summary.accepted:,} accepted, {summary.quarantined:,} quarantined, {summary.duplicates:,} duplicates{waiting}"
    )


def _run_summary(summary: RunSummary) -> dict[str, Any]:
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
    }


def _run_text(summary: RunSummary) -> str:
    rows = ", ".join(f"{count:,} {name}" for name, count in summary.counts.rows.items())
    return (
        f"{summary.job} ({summary.generation}): {summary.counts.events:,} events in {summary.seconds:.1f} s: {rows}; "
        f"{summary.totals.open_events:,} events open; watermark {summary.watermark or 'not set'}"
    )


@contextmanager
def _spark() -> Iterator[SparkSession]:
    spark = build_session(SparkSettings.from_environment())
    try:
        yield spark
    finally:
        spark.stop()
