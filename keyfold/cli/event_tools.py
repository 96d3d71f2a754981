"""`keyfold erase|correct|quarantine`: change events of a stream by hand, and compute the jobs again that read it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from keyfold.cli.options import given_pairs, look_up, one_of
from keyfold.cli.state_tools import Who, Why, Yes, author_of, build_live_job, compared, following, working
from keyfold.cli.terminal import report
from keyfold.keyed.generation.live_record import live_generation_name
from keyfold.keyed.job.contract import KeyedJob
from keyfold.lakehouse import Lakehouse
from keyfold.project import project_jobs, project_streams
from keyfold.runs import event_changes
from keyfold.runs.changed_events import EventsChanged
from keyfold.runs.jobs import run_summary
from keyfold.stream import Stream

StreamName = Annotated[str, typer.Argument(help=one_of("streams"))]


def erase(
    stream: StreamName,
    lakehouse: Lakehouse,
    why: Why,
    where: Annotated[
        list[str],
        typer.Option(metavar="COLUMN=VALUE", help="Erase the rows with this value in this column. May be repeated."),
    ],
    all_streams: Annotated[
        bool, typer.Option("--all-streams", help="Erase them in every stream that has these columns.")
    ] = False,
    who: Who = None,
    yes: Yes = False,
) -> None:
    """Erase rows of a stream from its events, quarantine and history, and recompute all jobs that read it.

    Erased rows cannot be restored, not even from the tables' history. Other streams that have the values are named.
    """
    values: dict[str, list[str]] = {}
    for column, value in given_pairs("--where", where):
        if not value:
            raise typer.BadParameter(f"--where {column}= names no value")
        values.setdefault(column, []).append(value)
    author = author_of(who, why)
    others = {"others": project_streams().values(), "all_streams": all_streams}
    with _tool(lakehouse, stream) as (target, work):
        changed = event_changes.erase(*target, values, author, **others, yes=yes, **work)
    _report(changed, yes)


def correct(
    stream: StreamName,
    lakehouse: Lakehouse,
    why: Why,
    source: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="FILE",
            help="The right events: a file of Parquet, CSV or JSON lines with all columns of the stream; of one without ids, also with "
            "`file` and `line`, the landing file and the line of each.",
        ),
    ],
    who: Who = None,
    yes: Yes = False,
) -> None:
    """Replace events by id, or by the line that they came from, and recompute all jobs that read their stream."""
    author = author_of(who, why)
    with _tool(lakehouse, stream) as (target, work):
        changed = event_changes.correct(*target, source, author, yes=yes, **work)
    _report(changed, yes)


def quarantine(
    stream: StreamName,
    ids: Annotated[
        list[str],
        typer.Argument(
            help="The event's id; a JSON object if it has several columns. Of a stream without ids its landing file and line: FILE:LINE."
        ),
    ],
    lakehouse: Lakehouse,
    why: Why,
    who: Who = None,
    yes: Yes = False,
) -> None:
    """Move events from the event table to quarantine, so that a job which fails on them can go on."""
    author = author_of(who, why)
    with _tool(lakehouse, stream) as (target, work):
        changed = event_changes.quarantine(*target, ids, author, yes=yes, **work)
    _report(changed, yes)


@contextmanager
def _tool(lakehouse: Lakehouse, name: str) -> Iterator[tuple[tuple[Lakehouse, Stream, list[KeyedJob]], dict[str, Any]]]:
    """Yield what a tool works on, with all jobs that have a live generation, and its options."""
    declared = look_up("stream", name, project_streams())
    names = [job for job in project_jobs() if live_generation_name(lakehouse, job) is not None]
    jobs = [build_live_job(lakehouse, job) for job in names]
    with working(lakehouse, name) as work:
        yield (lakehouse, declared, jobs), work


def _report(changed: EventsChanged, yes: bool) -> None:
    """Print the events that change, and the jobs that are, or would be, computed again, with their runs."""
    tables = {name: compared(table.counts, table.rows) for name, table in changed.tables.items()}
    report(
        {name: getattr(changed, name) for name in ("streams", "rows", "before", "after")},
        tables=tables,
        files_deleted=changed.files_deleted,
        not_searched=changed.not_searched,
        jobs=changed.jobs,
        refreshed=[run_summary(run) for run in changed.runs],
        **following(yes),
    )
