"""Take events out of a stream's event table into its quarantine, so that a job which fails on one in each run goes on.

A job that has read such an event, and the jobs that read its tables, read all events that are left into new generations, which go
live in one step. A job that has not read it goes on from where it was: batches that it has only planned are planned anew.

The same call completes one that was cut off: until then, a job that has read the event refuses to run.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from hashlib import sha256
from operator import and_, or_

import polars as pl

from keyfold.errors import InvalidData, NotFound
from keyfold.ingestion.conflicts import as_raw
from keyfold.ingestion.ingest_settings import QUARANTINE, open_ingest
from keyfold.keyed.generation.generations import live_generation
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.job_chains import downstream_of
from keyfold.keyed.plans.inputs import has_read
from keyfold.keyed.runner import RunOptions, RunSummary
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.fail_points import reached
from keyfold.lakehouse.reading import scan_table
from keyfold.lakehouse.row_erasure import add_rows, erase_rows, files_with, forget_added
from keyfold.privacy import masked
from keyfold.runners import Runners
from keyfold.runs.chains import published_runs, refresh_together
from keyfold.runs.changing_events import (
    check_can_be_replayed,
    check_has_ids,
    check_is_ingested,
    index_anew,
    locked,
    readers_of,
)
from keyfold.runs.jobs import JobRun
from keyfold.state.changing.audit import Author, record_edit
from keyfold.state.rows.keys import wanted_keys
from keyfold.stream import Stream


@dataclass(frozen=True)
class Quarantined:
    """What was moved to quarantine, or would be.

    Attributes:
        stream: name of the stream.
        events: the events, with private values masked.
        jobs: the jobs that are computed again since they have read one of them, each after all jobs that it reads.
        runs: their refreshes; none of a dry run.
    """

    stream: str
    events: pl.DataFrame
    jobs: tuple[str, ...]
    runs: tuple[JobRun, ...]


def quarantine(
    lakehouse: Lakehouse,
    stream: Stream,
    jobs: Sequence[KeyedJob],
    ids: Sequence[str],
    author: Author,
    *,
    dry_run: bool = False,
    options: RunOptions | None = None,
    runners: Runners | None = None,
) -> Quarantined:
    """Take the events with some ids out of the event table; see the module's documentation.

    Args:
        lakehouse, options, runners: as in `keyfold.run`.
        jobs: every job of the project that has run, with the parameters of its live generation.
        ids: the events' ids, as text; a JSON object for an id of several columns.
        author: who takes them out, and why: the reason in quarantine.
        dry_run: only find them.

    Raises:
        KeyfoldError: the stream has no ids, an id does not fit its columns, or no event has it; a job was seeded with state that
            a refresh would lose; an ingest was interrupted, or a run has locked the stream or a job.

    Example:
        >>> by = Author("ann", "its amount is infinite")  # doctest: +SKIP
        >>> quarantine(lakehouse, PAYMENTS, [card_in_two_cities()], ["k17"], by).jobs  # doctest: +SKIP
        ()
    """
    which, table = _which(lakehouse, stream, ids), lakehouse.events(stream.name)
    readers, summaries, runs = readers_of(lakehouse, [stream], jobs), list[RunSummary](), list[JobRun]()
    with locked(lakehouse, [stream], readers):
        check_is_ingested(lakehouse, stream)
        events = scan_table(table).filter(which).collect()
        behind = _that_have_read(lakehouse, stream, readers, files_with(table, which))
        # Without an event, an earlier call has moved it, and was cut off before its jobs were computed again.
        if not events.height and not behind:
            raise NotFound(f"no event in events.{stream.name} has the id {', '.join(ids)}; nothing was changed")
        check_can_be_replayed(lakehouse, behind)
        if not dry_run:
            if events.height:
                # First of all: a batch that is planned reads the files that are there now, whatever becomes of them.
                for job in readers:
                    if job not in behind and (live := live_generation(lakehouse, job.name)) is not None:
                        live.journal.withdraw()
                reached("quarantine: plans withdrawn")
                _move(lakehouse, stream, events, which, author)
            summaries = refresh_together(lakehouse, behind, options, runners)
    shown = masked(events, frozenset(stream.private))
    if not dry_run:
        runs = published_runs(lakehouse, behind, summaries)
        keys, rows = shown.select(stream.event_id).to_dicts(), {f"events.{stream.name}": events.height}
        record_edit(lakehouse, author, "quarantined", stream.name, keys, rows)
    return Quarantined(stream.name, shown, tuple(job.name for job in behind), tuple(runs))


def _which(lakehouse: Lakehouse, stream: Stream, ids: Sequence[str]) -> pl.Expr:
    """Return the condition on the events with these ids."""
    check_has_ids(lakehouse, stream)
    wanted = wanted_keys(ids, stream.event_id, stream.schema)
    rows = [row for frame in wanted.frames for row in frame.iter_rows(named=True)] if wanted else []
    if lacking := [name for name in stream.event_id if any(name not in row for row in rows)]:
        raise InvalidData(
            f"an id of {stream.name} has the columns {', '.join(stream.event_id)}: give {', '.join(lacking)}"
        )
    same = [reduce(and_, [pl.col(name).eq_missing(pl.lit(value)) for name, value in row.items()]) for row in rows]
    return reduce(or_, same, pl.lit(value=False))


def _that_have_read(
    lakehouse: Lakehouse, stream: Stream, readers: Sequence[KeyedJob], files: Sequence[str]
) -> list[KeyedJob]:
    """Return the jobs that have read some files of the event table, and those that read their tables."""
    name, table = f"events.{stream.name}", lakehouse.events(stream.name)
    direct = {
        job.name
        for job in readers
        for one in job.inputs.values()
        if one.table == name and (live := live_generation(lakehouse, job.name)) and has_read(live, one, table, files)
    }
    names = direct | downstream_of(direct, readers)
    return [job for job in readers if job.name in names]


def _move(lakehouse: Lakehouse, stream: Stream, events: pl.DataFrame, which: pl.Expr, author: Author) -> None:
    birth = open_ingest(lakehouse, stream)
    reason = f"taken out of events.{stream.name} by {author.who}: {author.why}"
    rows = [as_raw(stream, event) for event in events.to_dicts()]
    rejects = pl.DataFrame(
        [(raw, None, None, reason, None, header) for raw, header in rows],
        {name: pl.Int64 if name in ("line", "batch") else pl.String for name in QUARANTINE.names},
        orient="row",
    )
    # An event that lands again and is taken out again has another arrival.
    names = [sha256(repr(event).encode()).hexdigest() for event in events.rows()]
    # First it is in both tables, so that it is never in neither. Each step is done once, also by a call that repeats it.
    add_rows(birth.tables["quarantine"], rejects, QUARANTINE, names)
    reached("quarantine: in both tables")
    erase_rows(birth.tables["events"], which)
    forget_added(birth.tables["quarantine"])
    # So that the event may land again once it is right.
    index_anew(lakehouse, stream, events, remain=False)
