"""`keyfold erase|correct|quarantine`: change events of a stream by hand, and compute the jobs again that read it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from keyfold.cli.options import given_pairs, known, one_of
from keyfold.cli.state_tools import Who, Why, Yes, author_of, build_live_job, compared, following, working
from keyfold.cli.terminal import report
from keyfold.keyed.generation.live_record import live_generation_name
from keyfold.keyed.job.contract import KeyedJob
from keyfold.lakehouse import Lakehouse
from keyfold.project import project_jobs, project_streams
from keyfold.runs import correcting, erasing, quarantining
from keyfold.runs.jobs import run_summary
from keyfold.stream import Stream

Done = correcting.Corrected | erasing.Erased | quarantining.Quarantined
StreamName = Annotated[str, typer.Argument(help=one_of("streams"))]


def erase(
    stream: StreamName,
    lakehouse: Lakehouse,
    why: Why,
    where: Annotated[
        list[str], typer.Option(metavar="COLUMN=VALUE", help="Rows with this value in this column. May be repeated.")
    ],
    all_streams: Annotated[
        bool, typer.Option("--all-streams", help="Erase them in every stream that has these columns.")
    ] = False,
    who: Who = None,
    yes: Yes = False,
) -> None:
    """Erase rows of a stream from its events, quarantine and history, and compute all jobs that read it again.

    Erased rows cannot be restored, not even from the tables' history. Other streams that have the values are named.
    """
    values: dict[str, list[str]] = {}
    for column, value in given_pairs("--where", where):
        if not value:
            raise typer.BadParameter(f"--where {column}= names no value")
        values.setdefault(column, []).append(value)
    author = author_of(who, why)
    with _tool(lakehouse, stream) as (what, how):
        others = {"others": project_streams().values(), "all_streams": all_streams}
        erased = erasing.erase(*what, values, author, **others, yes=yes, **how)
    counts = {name: getattr(erased, name) for name in ("streams", "rows", "files_deleted", "not_searched")}
    _report(stream, counts, erased, yes)


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
    """Replace events by id, or by the line that they came from, and compute all jobs that read their stream again."""
    author = author_of(who, why)
    with _tool(lakehouse, stream) as (what, how):
        done = correcting.correct(*what, source, author, yes=yes, **how)
    counts = {name: getattr(done, name) for name in ("events", "replaced", "before", "after")}
    tables = {name: compared(one.counts, one.rows) for name, one in done.tables.items()}
    _report(stream, {**counts, "tables": tables}, done, yes)


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
    with _tool(lakehouse, stream) as (what, how):
        moved = quarantining.quarantine(*what, ids, author, yes=yes, **how)
    _report(stream, {"events": moved.events, "moved": moved.events.height}, moved, yes)


@contextmanager
def _tool(lakehouse: Lakehouse, name: str) -> Iterator[tuple[tuple[Lakehouse, Stream, list[KeyedJob]], dict[str, Any]]]:
    """Yield what a tool works on, with all jobs that have a live generation, and its options."""
    declared = known("stream", name, project_streams())
    names = [job for job in project_jobs() if live_generation_name(lakehouse, job) is not None]
    jobs = [build_live_job(lakehouse, job) for job in names]
    with working(lakehouse, name) as how:
        yield (lakehouse, declared, jobs), how


def _report(stream: str, summary: dict[str, Any], done: Done, yes: bool) -> None:
    """Print what the tool itself found, the jobs that are, or would be, computed again, and their runs."""
    refreshed = [run_summary(one) for one in done.runs]
    report({"stream": stream, **summary}, jobs=done.jobs, refreshed=refreshed, **following(yes))
