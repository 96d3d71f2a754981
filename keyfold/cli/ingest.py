"""`keyfold ingest` and `drift`: read files, or the messages of a topic, into a stream's tables; show columns that it does not know."""

from datetime import timedelta
from typing import Annotated

import typer

from keyfold import ingestion, runs
from keyfold.cli.options import Continuous, Every, Metrics, RunnerChoice, look_up, one_of, runners_for
from keyfold.cli.terminal import progress_of, report, until_signal, warn
from keyfold.errors import KeyfoldError, counted
from keyfold.ingestion.drift import find_drift, newest_files
from keyfold.ingestion.ingest_lock import require_landing
from keyfold.ingestion.kafka.kafka_settings import PREFIX
from keyfold.ingestion.kafka.topic import OnGap
from keyfold.ingestion.landing import find_landing, landing_folder
from keyfold.ingestion.listing import SETTLE
from keyfold.lakehouse import Lakehouse
from keyfold.privacy import MASK
from keyfold.project import project_streams
from keyfold.runs import ingest_continuously
from keyfold.storage.place import to_place


def ingest(
    stream: Annotated[str, typer.Argument(help=one_of("streams"))],
    lakehouse: Lakehouse,
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
    reset_topic: Annotated[
        bool, typer.Option("--reset-topic", help="Read a deleted and recreated topic from its beginning.")
    ] = False,
    rebuild: Annotated[
        bool,
        typer.Option("--rebuild", help="Set the stream's tables aside, and read its landing files and topics again."),
    ] = False,
    continuous: Continuous = False,
    every: Every = None,
    metrics: Metrics = None,
    runner: RunnerChoice = None,
) -> None:
    """Read new files or messages into events.STREAM and quarantine.STREAM."""
    declared = look_up("stream", stream, project_streams())
    continuous = continuous or every is not None or metrics is not None
    if continuous and (rebuild or reread_changed):
        raise typer.BadParameter(
            "a continuous run takes no --rebuild or --reread-changed: leave them out, or run without --continuous, --every and --metrics"
        )
    until_stopped = until_signal(every, metrics) if continuous else {}
    landing = find_landing(stream, source, start=start, on_gap=on_gap, reset_topic=reset_topic)
    read = (lakehouse, declared, landing)
    if not rebuild:  # a rebuild reads the folders and topics of earlier runs
        require_landing(*read)
    with runners_for(runner, lakehouse.home) as runners, progress_of("ingest") as show:
        options = {"settle": timedelta(seconds=settle), "on_batch": show, "runners": runners}
        if rebuild:
            summary = ingestion.rebuild(*read, **options)
            warn([f"jobs that have read events.{stream} start over now: `keyfold run JOB --full-refresh`"])
        elif continuous:
            summary = ingest_continuously(*read, **options, **until_stopped)
        else:
            summary = runs.ingest(*read, reread_changed=reread_changed, **options)
    warn(summary.describe())
    report(summary, _ingest_text(summary))


def _ingest_text(summary: ingestion.IngestSummary) -> str:
    waiting = f"; {summary.waiting:,} still being written" if summary.waiting else ""
    untimed = f"; {summary.untimed:,} without a time, dated by their arrival" if summary.untimed else ""
    source = summary.source if summary.source.startswith(PREFIX) else counted(summary.files, "file")
    return (
        f"{summary.stream}: {counted(summary.rows_read, 'row')} from {source} in {summary.seconds:.1f} s: "
        f"{summary.accepted:,} accepted, {summary.quarantined:,} quarantined, {counted(summary.duplicates, 'duplicate')}"
        f"{untimed}{waiting}"
    )


def drift(
    stream: Annotated[str, typer.Argument(help="The stream.")],
    lakehouse: Lakehouse,
    source: Annotated[
        str | None, typer.Option("--from", help="A file, or a folder of files [default: the stream's landing folder].")
    ] = None,
) -> None:
    """Show the columns that the newest landing files have and a stream does not."""
    declared = look_up("stream", stream, project_streams())
    place = to_place(source) if source is not None else landing_folder(lakehouse, stream)
    if not place.exists():
        raise KeyfoldError(f"{place} does not exist: give a file, or a folder of files, with --from")
    if place.is_dir():
        unknown, unreadable = find_drift(declared, newest_files(declared, place), place)
    else:
        unknown, unreadable = find_drift(declared, [place])
    files = {str(file): names for file, names in unknown.items()}
    if declared.private:
        # In a file without a header, the first row's values are taken for names.
        files = {file: [f"({len(names):,} not shown: {MASK})"] for file, names in files.items()}
    summary = {"stream": stream, "files": files, "unreadable": {str(file): why for file, why in unreadable.items()}}
    report(summary, None if files or unreadable else f"{stream} has every column")
