"""Take events out of a stream's event table into its quarantine, so that a job which fails on one in each run goes on.

A job that has read such an event, and the jobs that read its tables, read all events that are left into new generations, which go
live in one step. A job that has not read it goes on from where it was: batches that it has only planned are planned anew.

The same call completes one that was cut off: until then, a job that has read the event refuses to run.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from hashlib import sha256
from operator import and_, or_
from typing import Any

import polars as pl
from deltalake import Transaction

from keyfold.errors import InvalidData, NotFound
from keyfold.ingestion.conflicts import as_raw
from keyfold.ingestion.duplicates import event_ids
from keyfold.ingestion.ingest_settings import QUARANTINE, open_ingest
from keyfold.keyed.generation.generations import live_generation
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job_run import RunOptions, RunSummary
from keyfold.keyed.plans.input_tables import has_read
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.fail_points import fail_point
from keyfold.lakehouse.reading import scan_table
from keyfold.lakehouse.row_erasure import (
    POSITION,
    add_rows,
    change_rows,
    files_with,
    forget_added,
    last_transaction,
    unfinished_additions,
)
from keyfold.privacy import masked
from keyfold.runners import Runners
from keyfold.runs.chains import downstream_of, published_runs, refresh_together
from keyfold.runs.changing_events import (
    check_can_be_replayed,
    check_has_events,
    check_is_ingested,
    index_anew,
    locked,
    readers_of,
)
from keyfold.runs.jobs import JobRun
from keyfold.runs.landed_events import Line, check_as_landed, named_lines, stored_events, taken_out, taken_out_reason
from keyfold.state.changing.audit import Author, record_edit
from keyfold.state.rows.keys import wanted_keys
from keyfold.stream import Stream

_TAKEN = "keyfold.taken_out"
"""The application of a commit to an event table that takes events out; its number is that of their addition to the quarantine."""


@dataclass(frozen=True)
class Quarantined:
    """What was moved to quarantine, or would be.

    Attributes:
        stream: name of the stream.
        events: the events, with private values masked.
        jobs: the jobs that are computed again since they have read one of them, each after all jobs that it reads.
        runs: their refreshes; none without `yes`.
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
    yes: bool = False,
    options: RunOptions | None = None,
    runners: Runners | None = None,
) -> Quarantined:
    """Take the events with some ids out of the event table; see the module's documentation.

    Args:
        lakehouse, options, runners: as in `keyfold.run`.
        jobs: every job of the project that has run, with the parameters of its live generation.
        ids: the events' ids, as text; a JSON object for an id of several columns. Of a stream without ids, the landing file and line of
            each: `day1.csv:17`.
        author: who takes them out, and why: the reason in quarantine.
        yes: do it; without it, only find them.

    Raises:
        KeyfoldError: an id does not fit its columns, or no event has it; a file or line was not read, or is not as it was; a job was
            seeded with state that a refresh would lose; an ingest was interrupted, or a run has locked the stream or a job.

    Example:
        >>> by = Author("ann", "its amount is infinite")  # doctest: +SKIP
        >>> quarantine(lakehouse, PAYMENTS, [card_in_two_cities()], ["k17"], by).jobs  # doctest: +SKIP
        ()
    """
    check_has_events(lakehouse, stream)
    lines = () if stream.event_id else named_lines(lakehouse, stream, ids)
    readers, summaries, runs = readers_of(lakehouse, [stream], jobs), list[RunSummary](), list[JobRun]()
    with locked(lakehouse, [stream], readers):
        check_is_ingested(lakehouse, stream)
        chosen = _with_ids(lakehouse, stream, ids) if stream.event_id else _of_lines(lakehouse, stream, lines)
        events = chosen.events
        behind = _that_have_read(lakehouse, stream, readers, chosen.files)
        # Without an event, an earlier call has moved it, and was cut off before its jobs were computed again.
        if not events.height and not behind and not chosen.begun:
            raise NotFound(
                f"no event in events.{stream.name} {'has the id' if stream.event_id else 'is of'} {', '.join(ids)}; nothing was changed"
            )
        check_can_be_replayed(lakehouse, behind)
        if yes:
            if events.height:
                # First of all: a batch that is planned reads the files that are there now, whatever becomes of them.
                for job in readers:
                    if job not in behind and (live := live_generation(lakehouse, job.name)) is not None:
                        live.journal.withdraw()
                fail_point("quarantine: plans withdrawn")
                _move(lakehouse, stream, chosen, author)
            if events.height or chosen.begun:
                # So that the events may land again once they are right.
                index_anew(lakehouse, stream, chosen.moved, remain=False)
                # Last: until then, the same call knows that it is not finished, although the events are no longer in the event table.
                forget_added(lakehouse.quarantine(stream.name), [*chosen.names, *chosen.begun])
            summaries = refresh_together(lakehouse, behind, options, runners)
    shown = masked(events, frozenset(stream.private))
    if yes:
        runs = published_runs(lakehouse, behind, summaries)
        keys, rows = chosen.keys, {f"events.{stream.name}": events.height}
        record_edit(lakehouse, author, "quarantined", stream.name, keys, rows)
    return Quarantined(stream.name, shown, tuple(job.name for job in behind), tuple(runs))


@dataclass(frozen=True)
class _Chosen:
    """The events that are taken out.

    Attributes:
        events: the events.
        keys: what names each of them: its id, or `file` and `line`.
        names: another name for each, by which a call that was cut off is completed, as one that lands again has another.
        files: the data files that have them.
        without: returns the rows of such a file that stay.
        begun: the names of those that a call which was cut off has added to the quarantine, also if they are gone from the event table.
        moved: has the ids of the events, and of those that such a call has taken out; empty of a stream without ids.
    """

    events: pl.DataFrame
    keys: Sequence[Mapping[str, Any]]
    names: Sequence[str]
    files: Sequence[str]
    without: Callable[[pl.LazyFrame], pl.LazyFrame]
    begun: Sequence[str]
    moved: pl.DataFrame


def _with_ids(lakehouse: Lakehouse, stream: Stream, ids: Sequence[str]) -> _Chosen:
    """Choose the events with these ids."""
    table, quarantined = lakehouse.events(stream.name), lakehouse.quarantine(stream.name)
    wanted = wanted_keys(ids, stream.event_id, stream.schema)
    rows = [row for frame in wanted.frames for row in frame.iter_rows(named=True)] if wanted else []
    if lacking := [name for name in stream.event_id if any(name not in row for row in rows)]:
        raise InvalidData(
            f"an id of {stream.name} has the columns {', '.join(stream.event_id)}: give {', '.join(lacking)}"
        )
    same = [reduce(and_, [pl.col(name).eq_missing(pl.lit(value)) for name, value in row.items()]) for row in rows]
    which = reduce(or_, same, pl.lit(value=False))
    events = scan_table(table).filter(which).collect()
    keys = masked(events, frozenset(stream.private)).select(stream.event_id).to_dicts()
    # Once an event is gone from the event table, its id alone tells that a call was cut off. An event that lands again and is taken out
    # again has another arrival.
    names = [
        f"{id_}/{sha256(repr(event).encode()).hexdigest()}"
        for id_, event in zip(
            _names_of_ids(stream, _with_nothing_but_ids(stream, [events])), events.rows(), strict=True
        )
    ]
    asked = _with_nothing_but_ids(stream, wanted.frames if wanted else ())
    ids = _names_of_ids(stream, asked)
    begun = [name for name in unfinished_additions(quarantined) if name.partition("/")[0] in ids]
    moved = {name.partition("/")[0] for name in (*names, *begun)}
    return _Chosen(
        events,
        keys,
        names,
        files_with(table, which),
        lambda rows: rows.filter(~which),
        begun,
        asked.filter([id_ in moved for id_ in ids]),
    )


def _with_nothing_but_ids(stream: Stream, events: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return rows with all columns of a stream's events, of which only the ids count: one for each of the events."""
    ids = [frame.select(stream.event_id) for frame in events]
    rows = pl.concat([pl.DataFrame(stream.event_schema.empty_table()), *ids], how="diagonal_relaxed")
    # An event time is never NULL.
    return rows.with_columns(pl.col(stream.event_time).fill_null(datetime.fromtimestamp(0, UTC)))


def _names_of_ids(stream: Stream, events: pl.DataFrame) -> list[str]:
    """Return a name for the id of each event."""
    ids = event_ids(stream, events)
    return [f"{first:016x}{second:016x}" for first, second in zip(ids.first.tolist(), ids.second.tolist(), strict=True)]


def _of_lines(lakehouse: Lakehouse, stream: Stream, lines: Sequence[Line]) -> _Chosen:
    """Choose a row of the event table for each event at these lines, and of calls that were cut off, but for those that were taken out."""
    table, quarantined = lakehouse.events(stream.name), lakehouse.quarantine(stream.name)
    check_as_landed(lakehouse, stream, lines)
    begun, last, moved = (
        unfinished_additions(quarantined),
        last_transaction(table, _TAKEN),
        taken_out(lakehouse, stream),
    )
    names = {line: sha256(repr(line).encode()).hexdigest() for line in moved.union(lines)}
    # Of a call that was cut off, the events are in both tables until a commit with the number of their addition, or a later one: so each
    # call takes them out, whatever its own lines are.
    both = {line for line, name in names.items() if begun.get(f"{name}/0", last) > last}
    left = [line for line in lines if line in both or line not in moved]
    left += sorted(both.difference(lines))
    rows = stored_events(lakehouse, table, stream, left)
    keys = [{"file": file, "line": line} for file, line in rows.select("#file", "#line").rows()]
    # A line of a list has several events.
    nth = rows.select(pl.int_range(pl.len()).over("#file", "#line")).to_series()
    return _Chosen(
        rows.select(stream.event_schema.names),
        keys,
        [f"{names[key['file'], key['line']]}/{number}" for key, number in zip(keys, nth, strict=True)],
        rows["#path"].unique().sort().to_list(),
        lambda stored: stored.join(rows.select(POSITION).lazy(), on=POSITION, how="anti", maintain_order="left"),
        list(begun),
        pl.DataFrame(),
    )


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


def _move(lakehouse: Lakehouse, stream: Stream, chosen: _Chosen, author: Author) -> None:
    birth = open_ingest(lakehouse, stream)
    reason = f"{taken_out_reason(stream)} by {author.who}: {author.why}"
    raws = [as_raw(stream, event) for event in chosen.events.to_dicts()]
    rejects = pl.DataFrame(
        [
            (
                raw,
                key.get("file") if not stream.event_id else None,
                key.get("line") if not stream.event_id else None,
                reason,
                None,
                header,
            )
            for (raw, header), key in zip(raws, chosen.keys, strict=True)
        ],
        {name: pl.Int64 if name in ("line", "batch") else pl.String for name in QUARANTINE.names},
        orient="row",
    )
    # First it is in both tables, so that it is never in neither. Each step is done once, also by a call that repeats it.
    number = add_rows(birth.tables["quarantine"], rejects, QUARANTINE, chosen.names)
    fail_point("quarantine: in both tables")
    change_rows(birth.tables["events"], chosen.files, chosen.without, Transaction(_TAKEN, number))
    fail_point("quarantine: taken out")
