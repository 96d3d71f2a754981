"""Erase all rows with given values in a stream's columns, and everything that jobs have made of them.

The rows are deleted from the event table and the quarantine. Then each job that reads the stream, directly or through other
jobs, reads all events that are left into a new generation. All of these go live in one step, and the old ones are removed. So
nothing is searched in states and tables: what is derived from an erased row is computed again without it.

The same call completes an interrupted erasure: it refreshes the jobs also if no row is left to delete.

A person is in several streams as a rule: those that have the same columns are named with what they hold, or erased in the same call.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass

from keyfold.errors import InvalidData, counted
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job_run import RunOptions, RunSummary
from keyfold.lakehouse import Lakehouse, is_table
from keyfold.lakehouse.row_erasure import forget
from keyfold.privacy import MASK
from keyfold.runners import Runners
from keyfold.runs.chains import published_runs, refresh_together
from keyfold.runs.changing_events import check_can_be_replayed, check_is_ingested, live_one, locked, readers_of
from keyfold.runs.jobs import JobRun
from keyfold.state.changing.audit import Author, digest, mask_in_edits, record_edit
from keyfold.state.changing.promoting import remove_other_generations
from keyfold.state.erasure import erase_in_ingest, forget_in_ingest, typed_values
from keyfold.stream import Stream


@dataclass(frozen=True)
class Erased:
    """The result of an erasure, or what it would be.

    Attributes:
        streams: names of the streams in which rows are erased.
        rows: number of deleted rows by place: `events.STREAM`, `quarantine.STREAM`, `names of landing files`, and `keys in
            monitoring.edits`.
        jobs: the jobs that are computed again, each after all jobs that it reads.
        runs: their refreshes; none without `yes`.
        files_deleted: number of deleted files of the tables' histories.
        not_searched: what a person should check: places outside of the tables, and what could not be searched in them.
    """

    streams: tuple[str, ...]
    rows: dict[str, int]
    jobs: tuple[str, ...]
    runs: tuple[JobRun, ...]
    files_deleted: int
    not_searched: tuple[str, ...]


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
) -> Erased:
    """Erase rows of a stream everywhere in the lakehouse; see the module's documentation.

    Args:
        lakehouse, options, runners: as in `keyfold.run`.
        jobs: every job of the project that has run, with the parameters of its live generation. Jobs that do not read the
            stream are not changed.
        values: values by column of the stream, as text. A row is erased if it has one of the values in each named column.
        author: who erases them, and why.
        others: the other streams of the project.
        all_streams: whether rows are erased in those of them as well that have all the columns; else such streams are named.
        yes: do it; without it, only count.

    Raises:
        KeyfoldError: the stream has no such column, a value does not fit its type, tables of it are aside, a job was seeded with state
            that a refresh would lose, a run was interrupted, or a run has locked the stream or a job.

    Example:
        >>> jobs = [ride_summaries()]  # doctest: +SKIP
        >>> by = Author("dpo@example.org", "request 17")  # doctest: +SKIP
        >>> erase(lakehouse, RIDE_POINTS, jobs, {"ride_id": ["ride-17"]}, by).rows  # doctest: +SKIP
        {'events.ride_points': 4}
    """
    typed_values(stream, values)
    others = [other for other in others if other.name != stream.name]
    streams = [stream, *(other for other in others if all_streams and _has_columns(other, values))]
    live, jobs = {job.name for job in jobs}, readers_of(lakehouse, streams, jobs)
    deleted, summaries, runs = 0, list[RunSummary](), list[JobRun]()
    rows, unknown = Counter[str](), dict[str, int]()
    # Lock all of them: a run in between could read erased rows, or write them again.
    with nullcontext() if not yes else locked(lakehouse, streams, jobs):
        for one in streams:
            check_is_ingested(lakehouse, one)
        check_can_be_replayed(lakehouse, jobs)
        rows["keys in monitoring.edits"] = mask_in_edits(lakehouse, values, dry_run=not yes)
        for one in streams:
            erased, unknown[one.name] = erase_in_ingest(lakehouse, one, values, dry_run=not yes)
            rows.update(erased)
        rows = +rows
        if yes:
            summaries = refresh_together(lakehouse, jobs, options, runners)
            deleted = sum(_forget_before(lakehouse, job) for job in jobs)
            deleted += sum(forget_in_ingest(lakehouse, one) for one in streams)
    if yes:
        runs = published_runs(lakehouse, jobs, summaries)
        private = {name for one in streams for name in one.private}
        # By digests: the values themselves must not be recorded.
        which = {name: MASK if name in private else digest(json.dumps(sorted(values[name]))) for name in values}
        record_edit(lakehouse, author, "erased", ", ".join(one.name for one in streams), which, rows)
    left = [
        *_in_other_streams(lakehouse, [other for other in others if other not in streams], values),
        *_not_searched(lakehouse, streams, live, jobs, unknown),
    ]
    return Erased(
        streams=tuple(one.name for one in streams),
        rows=dict(rows),
        jobs=tuple(job.name for job in jobs),
        runs=tuple(runs),
        files_deleted=deleted,
        not_searched=tuple(left),
    )


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
            rows, unknown = erase_in_ingest(lakehouse, other, values, dry_run=True)
            found = {name: count for name, count in rows.items() if count}
            if unknown:
                found[f"quarantine.{other.name}, perhaps"] = unknown
            if found:
                places = ", ".join(f"{count:,} in {name}" for name, count in found.items())
                yield f"stream {other.name}, which has the values too ({places}): --all-streams erases them there"
        elif (shared := [name for name in values if name in other.schema.names]) and is_table(
            lakehouse.events(other.name)
        ):
            yield f"stream {other.name}, which has {', '.join(shared)} as well: erase there by what it has"


def _forget_before(lakehouse: Lakehouse, job: KeyedJob) -> int:
    """Remove all that a job had before its refresh: older generations and branches, and files of its tables' older versions."""
    remove_other_generations(lakehouse, job.name, branches=True, yes=True)
    generation = live_one(lakehouse, job)
    return sum(forget(generation.table(table.name)) for table in job.tables)


def _not_searched(
    lakehouse: Lakehouse,
    streams: Sequence[Stream],
    live: Collection[str],
    jobs: Sequence[KeyedJob],
    unknown: Mapping[str, int],
) -> Iterator[str]:
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
        for name, lookup in job.lookups.items():
            yield f"{lookup.path}, which job {job.name} reads as {name}: remove the rows there; the job reads it again"
    for name, lines in unknown.items():
        if not lines:
            continue
        yield (
            f"{counted(lines, 'line')} of quarantine.{name}, which cannot be parsed, have a value in another place than the "
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
