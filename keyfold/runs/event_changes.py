"""Correct events, take them out into quarantine, or erase a person: `correct`, `quarantine` and `erase`.

Each says which events change and what becomes of them; all else is `event_rewriting`. Without `yes`, they only return what would change.
The same call completes one that was cut off, and so do the next ingest and the next runs of the jobs.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from keyfold.errors import InvalidData, NotFound, counted
from keyfold.journal.audit import Author
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job_run import RunOptions
from keyfold.lakehouse import Lakehouse, is_table
from keyfold.runners import Runners
from keyfold.runs.changed_events import Change, EventsChanged
from keyfold.runs.chosen_events import OfLines, WithIds, WithValues, ids_of, typed_values
from keyfold.runs.event_rewriting import rewrite_events
from keyfold.runs.landed_events import named_lines
from keyfold.runs.quarantine_search import Quarantine
from keyfold.runs.right_events import right_events
from keyfold.stream import Stream


def correct(
    lakehouse: Lakehouse,
    stream: Stream,
    jobs: Sequence[KeyedJob],
    source: str,
    author: Author,
    *,
    yes: bool = False,
    options: RunOptions | None = None,
    runners: Runners | None = None,
) -> EventsChanged:
    """Replace events of a stream by those of a file that have the same ids, or lines, and compute the jobs again that have read them.

    The event table keeps its older version in its history. Without `yes`, jobs are computed again beside the live ones, and removed.

    Args:
        lakehouse, options, runners: as in `keyfold.run`.
        jobs: every job of the project that has run, with the parameters of its live generation.
        source: Parquet, CSV or JSON lines, a folder of such files or a Delta table, with all columns of the stream; and of a stream
            without ids, with `file` and `line`: the landing file and the line of the event that a row replaces.
        author: who corrects them, and why.
        yes: do it.

    Raises:
        KeyfoldError: a row lacks a value or has one that does not fit, breaks a rule of the stream, or has an id that is not in the
            event table exactly once, or a line that is no event or whose event was changed since; or as `rewrite_events`. Nothing is
            changed.

    Example:
        >>> by = Author("ann", "the till counted cups twice")  # doctest: +SKIP
        >>> changed = correct(lakehouse, SALES, [purchase_totals()], "right.csv", by)  # doctest: +SKIP
        >>> changed.tables["purchase_totals"].counts.changed  # doctest: +SKIP
        1
    """
    _check_has_events(lakehouse, stream)
    chosen, right = right_events(lakehouse, stream, source)
    change = Change("corrected", right)
    return rewrite_events(lakehouse, [stream], chosen, change, author, jobs, yes=yes, options=options, runners=runners)


def quarantine(
    lakehouse: Lakehouse,
    stream: Stream,
    jobs: Sequence[KeyedJob],
    ids: Sequence[str],
    author: Author,
    *,
    yes: bool = False,
    options: RunOptions | None = None,
    runners: Runners | None = None,
) -> EventsChanged:
    """Move events from the event table to quarantine, so that a job which fails on one in each run goes on.

    Args:
        lakehouse, options, runners: as in `keyfold.run`.
        jobs: every job of the project that has run, with the parameters of its live generation.
        ids: the events' ids, as text; a JSON object for an id of several columns. Of a stream without ids, the landing file and line of
            each: `day1.csv:17`.
        author: who takes them out, and why: the reason in quarantine.
        yes: do it.

    Raises:
        KeyfoldError: an id does not fit its columns, or no event has it; a file or line was not read, or is not as it was; or as
            `rewrite_events`. Nothing is changed.

    Example:
        >>> by = Author("ann", "its amount is infinite")  # doctest: +SKIP
        >>> quarantine(lakehouse, PAYMENTS, [card_in_two_cities()], ["k17"], by).jobs  # doctest: +SKIP
        ()
    """
    _check_has_events(lakehouse, stream)
    if stream.event_id:
        chosen, named = WithIds(ids_of(stream, ids)), f"has the id {', '.join(ids)}"
    else:
        lines = named_lines(lakehouse, stream, ids)
        chosen, named = OfLines(lines), f"is of {', '.join(f'{file}:{line}' for file, line in lines)}"
    change = Change("quarantined")
    changed = rewrite_events(
        lakehouse, [stream], chosen, change, author, jobs, yes=yes, options=options, runners=runners
    )
    if not changed.rows:
        raise NotFound(f"no event in events.{stream.name} {named}; nothing was changed")
    return changed


def erase(
    lakehouse: Lakehouse,
    stream: Stream,
    jobs: Sequence[KeyedJob],
    values: Mapping[str, Sequence[str]],
    author: Author,
    *,
    others: Iterable[Stream] = (),
    all_streams: bool = False,
    yes: bool = False,
    options: RunOptions | None = None,
    runners: Runners | None = None,
) -> EventsChanged:
    """Erase all rows with given values in a stream's columns, and everything that jobs have made of them.

    The rows are deleted from the event table and the quarantine, and the files of older versions of all tables are deleted. All jobs
    that read the stream are computed again, so that nothing has to be searched in states and tables. A person is in several streams as
    a rule: those that have the same columns are named with what they hold, or erased in the same call.

    Args:
        lakehouse, options, runners: as in `keyfold.run`.
        jobs: every job of the project that has run, with the parameters of its live generation. Jobs that do not read the
            stream are not changed.
        values: values by column of the stream, as text. A row is erased if it has one of the values in each named column.
        author: who erases them, and why.
        others: the other streams of the project.
        all_streams: whether rows are erased in those of them as well that have all the columns; else such streams are named.
        yes: do it.

    Raises:
        KeyfoldError: the stream has no such column, a value does not fit its type, or as `rewrite_events`.

    Example:
        >>> jobs = [ride_summaries()]  # doctest: +SKIP
        >>> by = Author("dpo@example.org", "request 17")  # doctest: +SKIP
        >>> erase(lakehouse, RIDE_POINTS, jobs, {"ride_id": ["ride-17"]}, by).rows  # doctest: +SKIP
        {'events.ride_points': 4}
    """
    typed_values(stream, values)
    others = [other for other in others if other.name != stream.name]
    streams = [stream, *(other for other in others if all_streams and _has_columns(other, values))]
    changed = rewrite_events(
        lakehouse,
        streams,
        WithValues(values),
        Change("erased"),
        author,
        jobs,
        yes=yes,
        options=options,
        runners=runners,
    )
    left = [
        *_in_other_streams(lakehouse, [other for other in others if other not in streams], values),
        *_not_searched(lakehouse, streams, jobs, changed.jobs, values),
    ]
    return replace(changed, not_searched=tuple(left))


def _check_has_events(lakehouse: Lakehouse, stream: Stream) -> None:
    if not is_table(lakehouse.events(stream.name)):
        raise NotFound(f"events.{stream.name} is not in {lakehouse.home} yet; run `keyfold ingest {stream.name}` first")


def _has_columns(stream: Stream, values: Mapping[str, Sequence[str]]) -> bool:
    """Whether a stream has all the columns, with types that the values fit."""
    with suppress(InvalidData):
        return bool(typed_values(stream, values))
    return False


def _in_other_streams(
    lakehouse: Lakehouse, others: Iterable[Stream], values: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    """Name the streams that hold the values too, with the number of rows, or that have some of the columns."""
    for other in others:
        if _has_columns(other, values):
            search, rows = Quarantine(lakehouse, other, values), WithValues(values).rows(lakehouse, other)
            counts = {
                f"quarantine.{other.name}": search.lines,
                "names of landing files": search.names,
                f"events.{other.name}": rows.height,
                f"quarantine.{other.name}, perhaps": search.unknown,
            }
            places = ", ".join(f"{count:,} in {name}" for name, count in counts.items() if count)
            if places:
                yield f"stream {other.name}, which has the values too ({places}): --all-streams erases them there"
        elif (shared := [name for name in values if name in other.schema.names]) and is_table(
            lakehouse.events(other.name)
        ):
            yield f"stream {other.name}, which has {', '.join(shared)} as well: erase there by what it has"


def _not_searched(
    lakehouse: Lakehouse,
    streams: Sequence[Stream],
    jobs: Sequence[KeyedJob],
    again: Collection[str],
    values: Mapping[str, Sequence[str]],
) -> Iterator[str]:
    live = {job.name for job in jobs}
    for stream in streams:
        for aside in sorted(lakehouse.home.glob(f"aside/{stream.name}-*")):
            yield f"{aside}: older tables of the stream, which a rebuild has moved there; remove the folder"
    for folder in sorted(lakehouse.home.glob("jobs/*")):
        if folder.name not in live:
            yield (
                f"{folder}: the job is not in the project any more, or has nothing live; if it has read the stream, remove the folder, and "
                "its tables"
            )
    for job in jobs:
        for name, lookup in job.lookups.items() if job.name in again else ():
            yield f"{lookup.path}, which job {job.name} reads as {name}: remove the rows there; the job reads it again"
    for stream in streams:
        if lines := Quarantine(lakehouse, stream, values).unknown:
            yield (
                f"{counted(lines, 'line')} of quarantine.{stream.name}, which cannot be parsed, have a value in another place than the "
                "column's, or are of a file or message that is not known: see `keyfold show`"
            )
    yield "the columns who and why of monitoring.edits"
    landings = " and ".join(str(lakehouse.landing(stream.name)) for stream in streams)
    yield f"files that landed in {landings} or elsewhere: a rebuild would read them again"
    yield (
        "Dagster's event log and the logs of runs (DAGSTER_HOME), and Data Docs: they show values of columns that are not "
        "private"
    )
    yield "Kafka topics; services that events were sent to, and their stored answers"
    yield "backups of the lakehouse, and copies that others have made of its tables"
