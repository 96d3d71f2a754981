"""`keyfold erase|correct|quarantine`: change events of a stream by hand, and compute the jobs again that read it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from keyfold.cli.options import DEFAULT_HOME, AsJson, Home, given_values, require_known
from keyfold.cli.state_jobs import build_live_job, require_lakehouse
from keyfold.cli.state_tools import DryRun, Who, Why, author_of, compared, working
from keyfold.cli.terminal import report
from keyfold.keyed.generation.live_record import live_generation_name
from keyfold.keyed.job.contract import KeyedJob
from keyfold.lakehouse import Lakehouse
from keyfold.project import project_jobs, project_streams
from keyfold.runs.correcting import Corrected
from keyfold.runs.correcting import correct as correct_events
from keyfold.runs.erasing import Erased
from keyfold.runs.erasing import erase as erase_rows
from keyfold.runs.jobs import run_summary
from keyfold.runs.quarantining import Quarantined
from keyfold.runs.quarantining import quarantine as quarantine_events
from keyfold.stream import Stream

StreamName = Annotated[str, typer.Argument(help=f"One of: {', '.join(project_streams())}.")]


def erase(
    stream: StreamName,
    why: Why,
    where: Annotated[
        list[str],
        typer.Option(metavar="COLUMN=VALUE", help="Rows with this value in this column. May be repeated."),
    ],
    who: Who = None,
    dry_run: DryRun = False,
    confirm: Annotated[
        str | None, typer.Option(help="Repeat the stream's name: erased rows cannot be restored.")
    ] = None,
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Erase rows of a stream from its events, quarantine and history, and compute all jobs that read it again."""
    values, author = given_values("--where", where), author_of(who, why)
    if not dry_run and confirm != stream:
        raise typer.BadParameter(
            f"erased rows cannot be restored, not even from the table's history: try with --dry-run, then give --confirm {stream}"
        )
    with _tool(home, stream) as (what, how):
        erased = erase_rows(*what, values, author, dry_run=dry_run, **how)
    counts = {name: getattr(erased, name) for name in ("rows", "files_deleted", "not_searched")}
    _report(stream, counts, erased, as_json, f"give --confirm {stream} instead of --dry-run" if dry_run else "")


def correct(
    stream: StreamName,
    why: Why,
    source: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="FILE",
            help="The right events: a file of Parquet, CSV or JSON lines with all columns of the stream.",
        ),
    ],
    who: Who = None,
    yes: Annotated[bool, typer.Option("--yes", help="Replace them; without it, only show what would differ.")] = False,
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Replace events by id, and compute all jobs that read their stream again."""
    author = author_of(who, why)
    with _tool(home, stream) as (what, how):
        done = correct_events(*what, source, author, dry_run=not yes, **how)
    counts = {name: getattr(done, name) for name in ("events", "replaced", "before", "after")}
    tables = {name: compared(one.counts, one.rows) for name, one in done.tables.items()}
    _report(stream, {**counts, "tables": tables}, done, as_json, "" if yes else "give --yes to replace them")


def quarantine(
    stream: StreamName,
    ids: Annotated[list[str], typer.Argument(help="The event's id; a JSON object if it has several columns.")],
    why: Why,
    who: Who = None,
    yes: Annotated[bool, typer.Option("--yes", help="Move them; without it, only show them.")] = False,
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Move events by id from the event table to quarantine, so that a job which fails on them can go on."""
    author = author_of(who, why)
    with _tool(home, stream) as (what, how):
        moved = quarantine_events(*what, ids, author, dry_run=not yes, **how)
    _report(
        stream,
        {"events": moved.events, "moved": moved.events.height},
        moved,
        as_json,
        "" if yes else "give --yes to move them",
    )


@contextmanager
def _tool(home: str, name: str) -> Iterator[tuple[tuple[Lakehouse, Stream, list[KeyedJob]], dict[str, Any]]]:
    """Yield what a tool works on, with all jobs that have a live generation, and its options. Its errors are printed."""
    require_known("stream", name, project_streams())
    lakehouse = Lakehouse(home)
    names = [job for job in project_jobs() if live_generation_name(lakehouse, job) is not None]
    jobs = [build_live_job(lakehouse, job, {}) for job in names]
    require_lakehouse(lakehouse)
    with working(home, name) as how:
        yield (lakehouse, project_streams()[name], jobs), how


def _report(
    stream: str, summary: dict[str, Any], done: Corrected | Erased | Quarantined, as_json: bool, following: str
) -> None:
    """Print what the tool itself found, the jobs that are, or would be, computed again, and their runs."""
    refreshed = [run_summary(one) for one in done.runs]
    found = {"dry_run": bool(following), "jobs": done.jobs, "refreshed": refreshed, "next": following}
    report({"stream": stream, **summary, **found}, as_json)
