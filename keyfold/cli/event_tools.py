"""`keyfold erase|correct|quarantine|reprocess`: change events of a stream by hand, and compute what jobs have made of events again."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from keyfold.cli.options import given_pairs, look_up, one_of
from keyfold.cli.state_tools import Job, Who, Why, Yes, author_of, build_live_job, compared, following, working
from keyfold.cli.terminal import report, usage_faults
from keyfold.errors import Misconfigured
from keyfold.keyed.generation.live_record import live_generation_name
from keyfold.keyed.job.contract import KeyedJob
from keyfold.lakehouse import Lakehouse
from keyfold.project import project_jobs, project_streams
from keyfold.runs import event_changes
from keyfold.runs import reprocess as reprocessing
from keyfold.runs.changed_events import EventsChanged
from keyfold.runs.jobs import run_summary
from keyfold.stream import Stream
from keyfold.times import parse_time

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


def reprocess(
    job: Job,
    lakehouse: Lakehouse,
    why: Why,
    since: Annotated[
        str | None,
        typer.Option(metavar="ISO_TIME", help="Replace rows of this time and later: windows that begin then."),
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="ISO_TIME", help="Replace rows before this time.")] = None,
    who: Who = None,
    yes: Yes = False,
) -> None:
    """Compute the rows of a span of event time again, with today's code, and replace them in one version of each table.

    All events count that the job has read, also late ones. It is for windows, tops and joins; rows of other jobs depend on all of a key's past.
    """
    author = author_of(who, why)
    with usage_faults():
        span = parse_time("--since", since), parse_time("--until", until)
        if span == (None, None):
            raise Misconfigured(
                "give --since, --until, or both; all rows are computed again by `keyfold run JOB --full-refresh`"
            )
    declared, jobs = build_live_job(lakehouse, job), _live_jobs(lakehouse)
    with working(lakehouse, job) as work:
        result = reprocessing.reprocess(lakehouse, declared, *span, author=author, jobs=jobs, yes=yes, **work)
    report(
        {"job": job, "since": result.since, "until": result.until, "batch": result.batch},
        tables={name: compared(table.counts, table.rows) for name, table in result.tables.items()},
        jobs=result.consumers,
        refreshed=[run_summary(run) for run in result.runs],
        warnings=result.warnings,
        **following(yes),
    )


def _live_jobs(lakehouse: Lakehouse) -> list[KeyedJob]:
    """Build the jobs of the project that have a live generation."""
    names = [job for job in project_jobs() if live_generation_name(lakehouse, job) is not None]
    return [build_live_job(lakehouse, job) for job in names]


@contextmanager
def _tool(lakehouse: Lakehouse, name: str) -> Iterator[tuple[tuple[Lakehouse, Stream, list[KeyedJob]], dict[str, Any]]]:
    """Yield what a tool works on, with all jobs that have a live generation, and its options."""
    declared = look_up("stream", name, project_streams())
    jobs = _live_jobs(lakehouse)
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
