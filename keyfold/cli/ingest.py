"""`keyfold ingest`: read files, or the messages of a topic, into a stream's tables."""

from contextlib import ExitStack
from dataclasses import asdict
from datetime import timedelta
from typing import Annotated

import typer

from keyfold.cli.known_names import require_known
from keyfold.cli.options import DEFAULT_HOME, AsJson, Continuous, Every, Home, Metrics, RunnerChoice
from keyfold.cli.running import runners_for
from keyfold.cli.terminal import failures, progress_of, report, until_signal, warn
from keyfold.ingestion import IngestSummary
from keyfold.ingestion import ingest as ingest_files
from keyfold.ingestion import rebuild as rebuild_tables
from keyfold.ingestion.kafka.settings import PREFIX
from keyfold.ingestion.kafka.topic import OnGap
from keyfold.ingestion.landing import find_landing
from keyfold.ingestion.listing import SETTLE
from keyfold.ingestion.run import require_landing
from keyfold.lakehouse import Lakehouse
from keyfold.project import project_streams
from keyfold.runs import ingest_continuously


def ingest(
    stream: Annotated[str, typer.Argument(help=f"One of: {', '.join(project_streams())}.")],
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="Folder of files, or kafka://TOPIC [default: the topic that KEYFOLD_KAFKA_TOPICS names, else "
            "HOME/landing/STREAM].",
        ),
    ] = None,
    settle: Annotated[
        float,
        typer.Option(
            min=0, help="Seconds that a file must be unchanged before it is read; 0 if no file is being written."
        ),
    ] = SETTLE.total_seconds(),
    reread_changed: Annotated[bool, typer.Option("--reread-changed", help="Read changed files again.")] = False,
    start: Annotated[
        str | None,
        typer.Option(help="Where the first run reads a topic from: earliest, latest or a time [default: earliest]."),
    ] = None,
    on_gap: Annotated[
        OnGap | None,
        typer.Option(help="How to treat messages that expired unread: `error` or `record` [default: error]."),
    ] = None,
    topic_anew: Annotated[
        bool, typer.Option("--topic-anew", help="Read a deleted and recreated topic from its beginning.")
    ] = False,
    rebuild: Annotated[
        bool,
        typer.Option("--rebuild", help="Set the stream's tables aside, and read its landing files and topics again."),
    ] = False,
    continuous: Continuous = False,
    every: Every = None,
    metrics: Metrics = None,
    runner: RunnerChoice = None,
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Read new files or messages into events.STREAM and quarantine.STREAM."""
    require_known("stream", stream, project_streams())
    if rebuild and reread_changed:
        raise typer.BadParameter("--rebuild reads every file again: omit --reread-changed")
    continuous = continuous or every is not None or metrics is not None
    if continuous and (rebuild or reread_changed):
        raise typer.BadParameter("a continuous run excludes --rebuild and --reread-changed")
    until_stopped = until_signal(every, metrics) if continuous else {}
    with failures(), ExitStack() as stack:
        lakehouse, length = Lakehouse(home), timedelta(seconds=settle)
        landing = find_landing(stream, source, start=start, on_gap=on_gap, anew=topic_anew)
        if not rebuild:  # a rebuild reads the folders and topics of earlier runs
            require_landing(lakehouse, project_streams()[stream], landing)
        runners = stack.enter_context(runners_for(runner, home))
        show = stack.enter_context(progress_of("ingest"))
        read, how = (lakehouse, project_streams()[stream], landing), {"on_batch": show, "runners": runners}
        if rebuild:
            summary = rebuild_tables(*read, settle=length, **how)
            warn([f"jobs that have read events.{stream} start over now: `keyfold run JOB --full-refresh`"])
        elif continuous:
            summary = ingest_continuously(*read, settle=length, **how, **until_stopped)
        else:
            summary = ingest_files(*read, settle=length, reread_changed=reread_changed, **how)
        warn(summary.describe())
        report(asdict(summary), as_json, _ingest_text(summary))


def _ingest_text(summary: IngestSummary) -> str:
    waiting = f"; {summary.waiting:,} still being written" if summary.waiting else ""
    untimed = f"; {summary.untimed:,} without a time, dated by their arrival" if summary.untimed else ""
    source = summary.source if summary.source.startswith(PREFIX) else f"{summary.files:,} files"
    return (
        f"{summary.stream}: {summary.rows_read:,} rows from {source} in {summary.seconds:.1f} s: "
        f"{summary.accepted:,} accepted, {summary.quarantined:,} quarantined, {summary.duplicates:,} duplicates"
        f"{untimed}{waiting}"
    )
