"""`keyfold journal`: print the last batches of a job or of a stream's ingest."""

from dataclasses import asdict
from typing import Annotated, Any

import typer

from keyfold.cli.options import DEFAULT_HOME, AsJson, Home, require_known
from keyfold.cli.terminal import plain_time, report
from keyfold.ingestion import ingest_journal
from keyfold.journal import Journal, PastBatch
from keyfold.keyed.generation.generations import live_generation
from keyfold.lakehouse import Lakehouse
from keyfold.project import project_if_any
from keyfold.state.reading.reader import jobs_with_state
from keyfold.times import from_iso


def journal(
    name: Annotated[str, typer.Argument(metavar="JOB|STREAM", help="The job or stream.")],
    last: Annotated[int, typer.Option(min=1, help="Number of batches.")] = 20,
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Print the last batches of a job or of a stream's ingest, one line each."""
    generation, found = _journal_of(Lakehouse(home), name)
    batches = found.history(last) if found else []
    pending = len(found.pending()) if found else 0
    where = f"{name}, {generation}" if generation else name
    lines = list(map(_line, batches)) or [f"{where}: no batch yet"]
    if pending:
        lines.append(f"{where}: {pending} planned and not committed; the next run begins with them")
    shown = {"batches": [asdict(one) for one in batches], "pending": pending}
    report({"name": name, "generation": generation, **shown}, as_json, "\n".join(lines))


def _line(one: PastBatch) -> str:
    when = plain_time(from_iso(one.planned_at)) if one.planned_at else "?"
    took = "       -" if one.seconds is None else f"{one.seconds:6.1f} s"
    # `!` marks a batch that is planned and not committed.
    mark = " " if one.finished_at else "!"
    return f"{mark}{one.batch:>8}  {when}  {took}  {one.read}  ->  {one.made}"


def _journal_of(lakehouse: Lakehouse, name: str) -> tuple[str | None, Journal[Any, Any] | None]:
    """Return a job's live generation and its journal, none before the first run; or the journal of a stream's ingest.

    Raises:
        typer.BadParameter: the project, or the lakehouse where there is none, has no such job or stream.
        KeyfoldError: the journal cannot be read.
    """
    project = project_if_any()
    if project is not None:
        jobs, streams = [*project.jobs], [*project.streams]
    else:
        jobs, streams = jobs_with_state(lakehouse), [folder.name for folder in lakehouse.home.glob("ingest/*")]
    if name in streams:
        return None, ingest_journal(lakehouse, name)
    require_known("job or stream", name, [*jobs, *streams])
    live = live_generation(lakehouse, name)
    return (live.name, live.journal) if live else (None, None)
