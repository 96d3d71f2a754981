"""`keyfold ingest`: files into a stream's tables."""

from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from spark_jobs.cli.options import DEFAULT_HOME, AsJson, Home
from spark_jobs.cli.spark import spark_of_environment
from spark_jobs.cli.terminal import failures, progress_of, report, warn
from spark_jobs.ingest import IngestSummary
from spark_jobs.ingest import ingest as ingest_files
from spark_jobs.ingest.sources.files import SETTLE
from spark_jobs.lakehouse import Lakehouse
from spark_jobs.streams import STREAMS


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
    with failures(), spark_of_environment() as spark, progress_of("ingest") as show:
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


def _ingest_text(summary: IngestSummary) -> str:
    waiting = f"; {summary.waiting:,} not whole yet" if summary.waiting else ""
    return (
        f"{summary.stream}: {summary.rows_read:,} rows from {summary.files:,} files in {summary.seconds:.1f} s: "
        f"{summary.accepted:,} accepted, {summary.quarantined:,} quarantined, {summary.duplicates:,} duplicates{waiting}"
    )
