"""The time window of a stream with a `max_age`: how old an accepted event may be, and for how long ids are kept.

Age is measured from the newest event time that earlier runs accepted. It is read once, when a run is planned, and recorded in
the plans. So the order of files, batch boundaries and crashes do not affect which events are too old. The first run, and a
rebuild, accept events of any age.
"""

from collections.abc import Sequence
from datetime import datetime

from keyfold.ingestion.ingest_records import IngestDone
from keyfold.lakehouse.data_files import WrittenFile
from keyfold.lakehouse.log_changes import newest_time, snapshot
from keyfold.storage.place import Place
from keyfold.stream import Stream
from keyfold.times import from_iso, shifted


def oldest_accepted(stream: Stream, events: Place, last: IngestDone | None) -> datetime | None:
    """Return the oldest event time that a run planned now accepts; None if it accepts any.

    Args:
        events: its event table.
        last: the newest commit record.
    """
    newest = _newest(stream, events, last)
    return None if stream.max_age is None or newest is None else shifted(newest, -stream.max_age)


def ids_since(stream: Stream, oldest: datetime | None) -> datetime | None:
    """Return the oldest event time whose ids are needed to find all copies among accepted events; None if all are needed."""
    return None if oldest is None else shifted(oldest, -stream.duplicate_window)


def newest_after(
    stream: Stream, events: Place, before: IngestDone | None, files: Sequence[WrittenFile]
) -> datetime | None:
    """Return the newest event time up to and including a batch's files; None if the stream has no `max_age`."""
    times = [from_iso(file.last[stream.event_time]) for file in files if stream.event_time in file.last]
    newest = _newest(stream, events, before)
    return None if stream.max_age is None else max([*times, *([newest] if newest else [])], default=None)


def _newest(stream: Stream, events: Place, last: IngestDone | None) -> datetime | None:
    if stream.max_age is None or last is None or last.newest is not None:
        return last.newest if last else None
    # The stream had no `max_age` when that record was written.
    files = snapshot(events, stream.event_time).files
    times = [newest_time(events, file, stream.event_time) for file in files]
    return max((time for time in times if time is not None), default=None)
