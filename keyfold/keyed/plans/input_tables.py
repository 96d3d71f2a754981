"""Find the new rows of a job's input tables, which must be those that it has read so far, and when to look again."""

import threading
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import NamedTuple

from deltalake import DeltaTable

from keyfold.errors import Damaged, KeyfoldError
from keyfold.keyed.generation.batch_records import KeyedDone
from keyfold.keyed.generation.generations import Generation, live_generation
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.inputs import Input
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.log_changes import Changes, RowsChangedError, added_since, changes_since, snapshot
from keyfold.lakehouse.paths import table_id
from keyfold.lakehouse.positions import LogGoneError, OtherHistoryError, Position, check_position, has_version
from keyfold.storage.place import Place
from keyfold.stream import INGESTED_AT

REMEDY = "start a new generation with --full-refresh"


class OtherTableError(Damaged):
    """An input table is not the one that was read: its producer was refreshed, moved or promoted, or it was made anew."""


def check_inputs(lakehouse: Lakehouse, generation: Generation, subject: str, remedy: str = REMEDY) -> None:
    """Check that a generation's input tables are the same tables, with the same history, as it has read or planned to read.

    Args:
        lakehouse: the lakehouse of the tables.
        generation: the generation that reads them.
        subject: its name in errors.
        remedy: what to do other than to restore the tables.

    Raises:
        KeyfoldError: a table is another one, was restored and written again, or its log lacks the entry of the position.
    """
    positions = _newest_positions(generation)
    for name, recorded in generation.record.input_ids.items():
        producer = None if name.startswith("events.") else recorded.partition("/")[0]
        if input_id(lakehouse, name, producer) != recorded:
            made_anew = "" if producer is None else " (its job was refreshed, moved or promoted)"
            raise OtherTableError(
                f"{subject}: {name} is not the table that it has read, but another one{made_anew}; {remedy}"
            )
        if name in positions:
            with positions_explained(subject, name, remedy):
                check_position(_table_of(lakehouse, name, producer), positions[name])


def check_unread(lakehouse: Lakehouse, generation: Generation, subject: str, remedy: str) -> None:
    """Check that the files of its input tables that a generation has not read yet exist.

    Raises:
        KeyfoldError: as `check_inputs`, or a file was deleted.
    """
    last = generation.journal.last_done()
    for name, position in last.positions.items() if last else ():
        recorded = generation.record.input_ids[name]
        table = _table_of(lakehouse, name, None if name.startswith("events.") else recorded.partition("/")[0])
        with positions_explained(subject, name, remedy):
            gone = [path for path in added_since(table, position) if not (table / path).exists()]
        if gone:
            raise Damaged(
                f"{subject} has yet to read files of {name} that are gone ({gone[0]}"
                f"{f' and {len(gone) - 1:,} more' if gone[1:] else ''}): maintenance has deleted them; {remedy}"
            )


def input_id(lakehouse: Lakehouse, name: str, producer: str | None) -> str:
    """Return what identifies the content of an input table: Delta's id of an event table, or the generation of its producer.

    A producer's table keeps Delta's id when another generation fills it.
    """
    if producer is None:
        return table_id(_table_of(lakehouse, name, producer))
    live = live_generation(lakehouse.source_of(producer), producer)
    return f"{producer}/{live.identity if live else ''}"


def input_ids(lakehouse: Lakehouse, job: KeyedJob) -> dict[str, str]:
    """Return the `input_id` of each table that a job reads, by name."""
    return {input_.table: input_id(lakehouse, input_.table, input_.producer) for input_ in job.inputs.values()}


def changes_for(job: str, declared: Input, table: Place, position: Position | None) -> Changes:
    """Find the files that were added to an input's table after a position, or all of its files without a position.

    Raises:
        KeyfoldError: the table's log does not show which files are new; names the remedy.
    """
    with positions_explained(f"job {job}", declared.table, REMEDY):
        try:
            time, arrival = declared.stored_time, None if declared.producer else INGESTED_AT
            if position is None:
                return snapshot(table, time, arrival)
            return changes_since(table, position, time, arrival)
        except RowsChangedError as error:
            raise Damaged(
                f"job {job}: rows of {declared.table} were changed or deleted after it had begun to read them ({error}), and "
                f"results that they led to cannot be undone one by one; check that the event table is right, then {REMEDY}"
            ) from None


def changes_until(job: str, declared: Input, table: Place, position: Position) -> Changes:
    """Find the files of an input's table with the rows that it had at a position.

    Raises:
        KeyfoldError: as `changes_for`; or maintenance has written rows of both sides of the position to one file.
    """
    unread = {file.path for file in changes_for(job, declared, table, position).files}
    there = changes_for(job, declared, table, None)
    if unread - {file.path for file in there.files}:
        raise KeyfoldError(
            f"job {job} has not read all of {declared.table}, whose files were compacted since: run it first"
        )
    return Changes(there.position, tuple(file for file in there.files if file.path not in unread))


def has_read(generation: Generation, declared: Input, table: Place, files: Collection[str]) -> bool:
    """Whether a generation has read a table's files, or others whose rows were changed since.

    A run that is cut off after a batch of several counts as having read them all, and one that is only planned as not.
    """
    last, pending = generation.journal.last_done(), generation.journal.pending()
    positions = last.positions if last else {}
    if pending and pending[0].batch != pending[0].run:
        positions = positions | {input_.table: input_.position for input_ in pending[0].inputs}
    if (position := positions.get(declared.table)) is None:
        return False
    with positions_explained(f"job {generation.record.job}", declared.table, REMEDY):
        try:
            unread = changes_since(table, position, declared.stored_time).files
        except RowsChangedError:
            return True
    return not {file.path for file in unread}.issuperset(files)


def input_tables(lakehouse: Lakehouse, job: KeyedJob) -> dict[str, Place]:
    """Return the folders of the tables that a job reads, by name."""
    return {input_.table: _table_of(lakehouse, input_.table, input_.producer) for input_ in job.inputs.values()}


def rebuild_command(lakehouse: Lakehouse, job: KeyedJob, table: str) -> str:
    """Return the command that rebuilds an input table of a job."""
    input_ = next(input_ for input_ in job.inputs.values() if input_.table == table)
    if input_.producer is not None:
        return lakehouse.command("run", input_.producer, "--full-refresh")
    return lakehouse.command("ingest", input_.stream.name, "--rebuild")


def produced_until(lakehouse: Lakehouse, job: KeyedJob) -> dict[str, datetime]:
    """Return the watermarks of the jobs whose tables a job reads, by the name of the input.

    Such a table has all rows up to its watermark. It may have rows of a later batch too, whatever the caller reads after this.
    """
    watermarks: dict[str, datetime] = {}
    for name, input_ in job.inputs.items():
        producer = input_.producer
        live = live_generation(lakehouse.source_of(producer), producer) if producer else None
        if live is not None and (last := _last_committed(live, input_.table)) is not None:
            clock = live.clock()
            # A run without batches only advances the clock, after all earlier batches are committed.
            watermarks[name] = max(last.watermark, clock.watermark) if clock else last.watermark
    return watermarks


def _last_committed(producer: Generation, table: str) -> KeyedDone | None:
    """Return the last commit record whose rows a table has; None without one."""
    last = producer.journal.last_done()
    # Only the commit of the last batch may be missing: the next batch begins after it.
    if last is None or last.last_written.get(table) != last.batch:
        return last
    taken = DeltaTable(str(producer.table(table))).transaction_version(f"{producer.identity}/{table}")
    return last if taken is not None and taken >= last.batch else producer.journal.done(last.batch - 1)


def _table_of(lakehouse: Lakehouse, name: str, producer: str | None) -> Place:
    source = lakehouse.source_of(producer)
    if producer is None:
        return source.events(name.removeprefix("events."))
    live = live_generation(source, producer)
    return live.table(name) if live else source.live_table(name)


@contextmanager
def positions_explained(subject: str, table: str, remedy: str) -> Iterator[None]:
    """Add the remedy to errors about a position in a table.

    Raises:
        KeyfoldError: in place of the error of the table's log.
    """
    try:
        yield
    except OtherHistoryError as error:
        raise Damaged(
            f"{subject} has read another history of {table}: {error} (a restored backup, and other events since?); restore "
            f"both from one backup, or {remedy}"
        ) from None
    except LogGoneError as error:
        raise Damaged(
            f"{subject} cannot tell what is new in {table}: {error} (a restored backup, a deleted file, or a log that another "
            f"tool has cleaned up?); restore it, or {remedy}"
        ) from None


def _newest_positions(generation: Generation) -> dict[str, Position]:
    last = generation.journal.last_done()
    planned = {input_.table: input_.position for plan in generation.journal.pending() for input_ in plan.inputs}
    return {**(last.positions if last else {}), **planned}


LONGEST_WAIT = timedelta(seconds=1)
"""Longest time between two plans."""


class LastPlanned(NamedTuple):
    """The time when a run last planned.

    Attributes:
        at: by the monotonic clock, in seconds.
        processing_time: the processing time of the plan. The machine's clock may have jumped since.
        positions: the positions of the input tables that it looked up to, by name. A compaction has moved them past those of
            the last commit record, without new rows.
    """

    at: float
    processing_time: datetime
    positions: Mapping[str, Position]

    def now(self) -> datetime:
        """Return the current processing time."""
        return self.processing_time + timedelta(seconds=time.monotonic() - self.at)


def wait_for_news(
    tables: Mapping[str, Place],
    record: KeyedDone | None,
    stop: threading.Event,
    every: timedelta,
    last: LastPlanned | None,
) -> bool:
    """Wait until the run has to plan; returns False when `stop` is set.

    Args:
        tables: the folders of the job's input tables, by name.
        record: the last commit record.
        stop: ends the run when it is set.
        every: interval between two looks.
        last: when the run last planned; None if it has not planned yet, and must plan now.
    """
    while not stop.is_set():
        if last is None or any(_has_news(table, last.positions[name]) for name, table in tables.items()):
            return True
        pause = _until_next_reason(record, last)
        if pause <= timedelta(0):
            return True
        stop.wait(min(every, pause).total_seconds())
    return False


def _has_news(table: Place, position: Position) -> bool:
    # Only looks for the next log entry: planning checks that the table is still the same and its log has no gap.
    # A table that was read aside has other versions at its address; the next plan's position is in its own log.
    read, own = _OWN.get(table, (None, None))
    own = own if read == position else None
    if own is None and has_version(table, position.version + 1):
        try:
            own = check_position(table, position)
            _OWN[table] = position, own
        except Damaged:
            return True  # the plan says why
    return own is not None and has_version(table, own.version + 1)


_OWN: dict[Place, tuple[Position, Position]] = {}
"""The position up to which a table was read, and the position in its own log that this is."""


def _until_next_reason(record: KeyedDone | None, last: LastPlanned) -> timedelta:
    """Return the time until a timer is due, or until the longest wait has passed."""
    # Deadlines in event time need no look of their own: event time advances by new events, or by a plan.
    longest = timedelta(seconds=last.at - time.monotonic()) + LONGEST_WAIT
    if record is None or record.next_processing_deadline is None:
        return longest
    return min(longest, record.next_processing_deadline - last.now())
