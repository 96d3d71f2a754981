"""Record calls that change events of streams (`runs.event_rewriting`), and carry them out: in the tables, the index of ids, and the audit.

HOME/rewrites/<id>.json   a call, from its decision until all that follows from it is done

A call writes files first, and its record names them. The record is the decision: whoever holds the lock of a stream's ingest next carries
it out, be it the call itself, the same call again, an ingest, or a run of a job that reads the stream.
"""

from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Any

import polars as pl
from pydantic import ValidationError

from keyfold.errors import Damaged, Locked
from keyfold.ingestion.duplicates import event_ids
from keyfold.ingestion.ingest_settings import existing_ingest
from keyfold.ingestion.inspection import ingest_journal
from keyfold.ingestion.segments import Segment, merge_segments, sweep_segments, without_ids, write_segment
from keyfold.journal.audit import Author, record_edit
from keyfold.journal.records import Record
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.fail_points import fail_point
from keyfold.lakehouse.file_changes import FileChange, changes_of, commit_change
from keyfold.stream import Stream

_PATIENCE = timedelta(seconds=30)


class StreamChange(Record):
    """What a call changes of a stream.

    Attributes:
        tables: the change of `quarantine`, of `events`, or of both, in this order.
        segments: the live segments of the index of ids after it; None if it stays as it is.
        is_applied: whether all of it was carried out.
    """

    tables: dict[str, FileChange]
    segments: tuple[Segment, ...] | None = None
    is_applied: bool = False


class AuditEntry(Record):
    """What the audit says of a call, as `journal.audit.record_edit` takes it."""

    who: str
    why: str
    keys: list[dict[str, Any]] | dict[str, str]


class EventRewrite(Record):
    """A call that changes events.

    Attributes:
        id: names it.
        at: when it was decided.
        kind: `corrected`, `quarantined` or `erased`; or `reprocessed`, which changes no stream, but rows of a job (`runs.reprocess`).
        audit: its entry in the audit, which may name events; None once it is written.
        rows: number of rows that change, by place.
        streams: the change of each stream.
        jobs: by job that is computed again, the identities of the generations that were there, none of which may stay live. Each job
            comes after all jobs that it reads.
        forgets: whether older versions of all tables and older generations are deleted in the end.
    """

    id: str
    at: datetime
    kind: str
    audit: AuditEntry | None
    rows: dict[str, int]
    streams: dict[str, StreamChange]
    jobs: dict[str, tuple[str, ...]]
    forgets: bool = False

    @property
    def cause(self) -> str:
        """Says what was changed, for messages."""
        return f"events of {', '.join(self.streams)} were {self.kind}" if self.streams else f"its rows were {self.kind}"

    @property
    def is_applied(self) -> bool:
        """Whether it was carried out in all streams, so that only jobs are left to compute again."""
        return all(change.is_applied for change in self.streams.values())


def rewrites(lakehouse: Lakehouse) -> list[EventRewrite]:
    """Return the calls that are not finished, oldest first.

    Raises:
        Damaged: the record of one is damaged.
    """
    try:
        names = [name for name in lakehouse.rewrites.names() if name.endswith(".json")]
    except FileNotFoundError:
        return []
    read = (_read(lakehouse, name.removesuffix(".json")) for name in names)
    return sorted((rewrite for rewrite in read if rewrite is not None), key=lambda rewrite: rewrite.at)


def changes_of_events(lakehouse: Lakehouse) -> tuple[list[EventRewrite], dict[str, int]]:
    """Return the calls that are not finished, and the number of changes of each table of events and quarantine.

    What was read between two times at which it is the same was read while no call did anything.
    """
    tables = lakehouse.tables().items()
    changes = {name: changes_of(table) for name, table in tables if name.startswith(("events.", "quarantine."))}
    return rewrites(lakehouse), changes


def decide(lakehouse: Lakehouse, rewrite: EventRewrite) -> None:
    """Record a call, whose files are written: from now on it is carried out. The caller holds the locks of the streams' ingests."""
    _write(lakehouse, rewrite)
    fail_point("rewrite: decided")


def end(lakehouse: Lakehouse, rewrite: EventRewrite) -> None:
    """Remove the record of a call of which nothing is left to do."""
    (lakehouse.rewrites / f"{rewrite.id}.json").unlink(missing_ok=True)
    lakehouse.rewrites.sync_folder()
    fail_point("rewrite: ended")


def replacing_files(lakehouse: Lakehouse, stream: str, patience: timedelta = _PATIENCE) -> AbstractContextManager[Any]:
    """Hold the lock under which files of a stream's tables are replaced: by a call that changes events, or by maintenance.

    Raises:
        Locked: another process holds it.
    """
    return (lakehouse.rewrites / stream).exclusive(f"maintenance of the tables of {stream}", patience=patience)


def unapplied(lakehouse: Lakehouse, stream: str) -> list[EventRewrite]:
    """Return the calls that are decided, and not carried out in a stream yet, oldest first."""
    return [
        rewrite
        for rewrite in rewrites(lakehouse)
        if (change := rewrite.streams.get(stream)) is not None and not change.is_applied
    ]


def apply_rewrites(lakehouse: Lakehouse, stream: str) -> None:
    """Carry out the calls that change a stream, as far as that is left to do. The caller holds the lock of its ingest.

    Raises:
        Locked: as `carry_out`, or maintenance of the tables is running.
        OSError: the disk is full or fails; the next call does it.
    """
    if unapplied(lakehouse, stream):
        with replacing_files(lakehouse, stream):
            carry_out(lakehouse, stream)


def carry_out(lakehouse: Lakehouse, stream: str) -> None:
    """Carry out the calls that change a stream. The caller holds the lock of its ingest, and that of `replacing_files`.

    Raises:
        Locked: a process other than Keyfold's has replaced files that a call was to change. The events are as they were, and the call is
            given up.
        OSError: the disk is full or fails; the next call does it.
    """
    for rewrite in unapplied(lakehouse, stream):
        change = rewrite.streams[stream]
        try:
            for name, files in change.tables.items():
                if name == "events":
                    commit_change(lakehouse.events(stream), files)
                    fail_point("rewrite: events changed")
                else:
                    commit_change(lakehouse.quarantine(stream), files)
                    fail_point("rewrite: quarantine changed")
        except Locked as error:
            # Nothing is lost: the events come last. What is quarantined already is so twice after a repeated call.
            _note(lakehouse, rewrite, stream, None)
            raise Locked(f"{stream}: {error}; no event was changed: repeat the call") from error
        _apply_to_records(lakehouse, rewrite, stream)
        _note(lakehouse, rewrite, stream, change.model_copy(update={"is_applied": True}))
        fail_point("rewrite: applied")


def give_up_rewrites(lakehouse: Lakehouse, stream: str) -> None:
    """Forget the calls that change a stream, whose tables are made anew. The caller holds the lock of its ingest."""
    for rewrite in rewrites(lakehouse):
        if stream in rewrite.streams:
            _note(lakehouse, rewrite, stream, None)


def prepare_index(
    lakehouse: Lakehouse, stream: Stream, gone: pl.DataFrame, added: pl.DataFrame
) -> tuple[Segment, ...] | None:
    """Write the index of ids as it is without some events, and with others, and return its segments; None if there is none.

    Raises:
        OSError: the disk is full or fails.
        DamagedArrayError: a segment of the index is damaged.
    """
    ingest, last = existing_ingest(lakehouse, stream.name), ingest_journal(lakehouse, stream.name).last_done()
    if not stream.event_id or ingest is None or last is None or not gone.height:
        return None
    live = without_ids(ingest.segments, last.segments, event_ids(stream, gone))
    if added.height:
        ids = event_ids(stream, added)
        live = merge_segments(ingest.segments, [*live, write_segment(ingest.segments, ids.take(ids.sorted_order()))])
    return tuple(live)


def _apply_to_records(lakehouse: Lakehouse, rewrite: EventRewrite, stream: str) -> None:
    """Change the index of ids, and write the audit: once, also if another process repeats it."""
    ingest, journal = existing_ingest(lakehouse, stream), ingest_journal(lakehouse, stream)
    last, segments = journal.last_done(), rewrite.streams[stream].segments
    if ingest is not None and last is not None and segments is not None:
        journal.amend([], [last.model_copy(update={"segments": segments})])
        fail_point("rewrite: ids known")
        sweep_segments(ingest.segments, {segment.name for segment in segments})
    if (entry := rewrite.audit) is not None:
        author, names = Author(entry.who, entry.why), ", ".join(rewrite.streams)
        record_edit(lakehouse, author, rewrite.kind, names, entry.keys, rewrite.rows, at=rewrite.at)
        fail_point("rewrite: audited")


def _note(lakehouse: Lakehouse, rewrite: EventRewrite, stream: str, change: StreamChange | None) -> None:
    """Record what has become of a call in a stream; None takes the stream out of it."""
    # Other processes may note what they did in other streams.
    with lakehouse.rewrites.exclusive("a change of events", patience=_PATIENCE):
        if (now := _read(lakehouse, rewrite.id)) is None:
            return
        streams = {name: other for name, other in now.streams.items() if name != stream}
        streams |= {} if change is None else {stream: change}
        if streams:
            noted = now.model_copy(update={"streams": streams})
            # The record may stay for long, if a job does not run: what names events goes as soon as the audit has it.
            _write(lakehouse, noted.model_copy(update={"audit": None}) if noted.is_applied else noted)
        else:
            end(lakehouse, now)


def _read(lakehouse: Lakehouse, id_: str) -> EventRewrite | None:
    path = lakehouse.rewrites / f"{id_}.json"
    try:
        return EventRewrite.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise Damaged(
            f"{path} is damaged, or another version of Keyfold wrote it ({error.error_count()} faults); restore it from a backup, or remove "
            "it, repeat the call (see monitoring.edits), and start the jobs over with --full-refresh"
        ) from None


def _write(lakehouse: Lakehouse, rewrite: EventRewrite) -> None:
    (lakehouse.rewrites / f"{rewrite.id}.json").write_durably(rewrite.model_dump_json().encode())
