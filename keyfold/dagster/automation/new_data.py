"""Decide whether a source has new data for a run; `sensors` turns decisions into run requests.

A file is new if ingest's journal does not have it, a message if ingest has not read its offset: clocks and cursors do not matter. The
cursor only records the requests since something was read, so that failed runs are requested again, ever later.
"""

import getpass
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from hashlib import blake2b
from typing import Any

import dagster as dg

from keyfold import ingestion
from keyfold.errors import KeyfoldError, counted, in_few_lines
from keyfold.ingestion.kafka.offsets import ReadTopic, TopicState, unread
from keyfold.ingestion.known import KnownFile
from keyfold.ingestion.listing import SETTLE, LandedFile, Listing, list_files
from keyfold.storage.place import Place

_NAMES_SHOWN = 10
_MOST_SEEN = 1_000
"""Bounds the cursor's size: it is a row in a database."""

_MINUTE = 60_000_000_000
_LONGEST = 240 * _MINUTE
"""Longest wait after a run that read nothing. A short fault costs a minute; a lasting one does not start runs all night."""
_UNDONE = "an interrupted run has left work"


@dataclass(frozen=True)
class Decision:
    """The decision of a sensor's tick.

    Attributes:
        cursor: the sensor's next cursor.
        new: number of new files or messages; a run starts unless it is 0.
        reason: why no run starts, for people.
        warnings: faults in a part of the source; the other parts are read.
        metadata: describes the new data, for the external asset of the source.
    """

    cursor: str | None
    new: int = 0
    reason: str = ""
    warnings: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)


def look_at_folder(
    folder: Place,
    cursor: str | None,
    *,
    settle: timedelta = SETTLE,
    done_marker: bool = False,
    known: Callable[[], Mapping[str, KnownFile]] = dict,
    unfinished: bool = False,
) -> Decision:
    """List a landing folder, which need not exist yet, and decide as `decide_on_files`.

    Args:
        folder, cursor, settle, unfinished: as for `decide_on_files`.
        done_marker: whether a done-marker decides that a file is whole.
        known: returns the files that ingest has read, by path; called only if there are files, since a tick must be cheap.
    """
    now = time.time_ns()
    try:
        listing = list_files(folder, done_marker=done_marker)
    except FileNotFoundError:
        return Decision(cursor, reason=f"the landing folder {folder} does not exist yet")
    except OSError as error:
        return Decision(
            cursor,
            reason=f"the landing folder {folder} cannot be read ({error.strerror or error}): the user {getpass.getuser()}, who runs "
            "Dagster, must be allowed to list and enter it",
        )
    read = known() if listing.files else {}
    return decide_on_files(listing, read, cursor, now, folder=folder, settle=settle, unfinished=unfinished)


def decide_on_files(
    listing: Listing,
    known: Mapping[str, KnownFile],
    cursor: str | None,
    now: int,
    *,
    folder: Place,
    settle: timedelta = SETTLE,
    unfinished: bool = False,
) -> Decision:
    """Request a run for all new files that are whole, or if ingest was interrupted.

    If nothing is read, the run is requested again 1, 2, 4, 8 … minutes after the first one, at last every 240 minutes, whatever lands
    meanwhile. For files that have changed since they were read, one run is requested; it reports what to do about them.

    Args:
        listing: the files in the folder.
        known: the files that ingest has read.
        cursor: the cursor of the last decision, None at first.
        now: nanoseconds since 1970, taken before the folder was listed.
        folder: the folder, for messages.
        settle: how long a file without a marker must be unchanged.
        unfinished: whether a run of ingest was interrupted.

    Raises:
        KeyfoldError: the cursor is invalid.
    """
    before = _Asked.read(cursor)
    others = [file for file in listing.files if not ingestion.is_known(file, known)]
    changed = [file for file in others if file.path in known and not known[file.path].is_refused]
    unread_files = [file for file in others if file not in changed] if changed else others
    new = [file for file in unread_files if file.is_whole(now, settle) or _has_seen(before, file)]
    ahead = [file for file in unread_files if file.changed_at > now and file.marked is not False][:_MOST_SEEN]
    before = replace(before, seen={file.path: _shape(file) for file in ahead})
    waiting = [f"{folder / path} cannot be read ({why}), and waits" for path, why in listing.unreadable.items()]
    warnings = tuple(in_few_lines(waiting, "entries wait"))
    if new or unfinished:
        news = f"{'1 file is' if len(new) == 1 else f'{len(new)} files are'} new" if new else _UNDONE
        asked, reason = _ask(before, news, len(known), now)
        asked = replace(asked, changed=_digest(changed)) if not reason else asked
    elif changed and _digest(changed) != before.changed:
        # Without a time: a run for changed files reads nothing, and must not hold up the next one.
        asked, reason = _Asked(changed=_digest(changed), seen=before.seen), ""
    else:
        asked, reason = before, _nothing(folder, listing, len(unread_files), len(changed))
    if reason:
        return Decision(asked.text(), reason=reason, warnings=warnings)
    files = new or changed
    newest = max((file.changed_at for file in files), default=now)
    return Decision(
        asked.text(),
        new=len(files) or 1,
        warnings=warnings,
        metadata={
            "dagster/uri": folder.as_uri(),
            "new_files": len(new),
            "new_bytes": sum(file.size for file in new),
            "files_not_whole": len(unread_files) - len(new),
            "files_changed": len(changed),
            "newest": dg.MetadataValue.timestamp(newest / 1e9),
            "first_names": dg.MetadataValue.json([file.path for file in files[:_NAMES_SHOWN]]),
        },
    )


def decide_on_messages(
    state: TopicState, read: ReadTopic | None, cursor: str | None, now: int, *, unfinished: bool = False
) -> Decision:
    """Request a run if there are unread messages, or if ingest was interrupted; again as `decide_on_files` does.

    Args:
        state: the topic's offsets.
        read: the offsets that ingest has read, None before the first read.
        cursor, now, unfinished: as for `decide_on_files`.

    Raises:
        KeyfoldError: the cursor is invalid.
    """
    before, lag = _Asked.read(cursor), unread(state, read)
    if not lag and not unfinished:
        return Decision(before.text(), reason=f"no new messages in topic {state.name}")
    news = f"{counted(lag, 'message')} of topic {state.name} {'is' if lag == 1 else 'are'} new" if lag else _UNDONE
    asked, reason = _ask(before, news, sum(read.next.values()) if read else 0, now)
    if reason:
        return Decision(asked.text(), reason=reason)
    metadata = {"topic": state.name, "new_messages": lag, "partitions": len(state.end)}
    return Decision(asked.text(), new=lag or 1, metadata=metadata)


@dataclass(frozen=True)
class _Asked:
    """The content of a sensor's cursor: the requests since something was read, and files with a change time in the future.

    Attributes:
        since, at: times of the first and the last of these requests, in nanoseconds since 1970.
        changed: a digest of the files that have changed since they were read.
        seen: size and times of files whose change time is ahead of this machine's clock, by path. Such a file counts as whole
            if it is unchanged at the next tick; waiting for the clock could take for ever.
        known: number of read files, or sum of read offsets, at the last request.
    """

    since: int = 0
    at: int = 0
    changed: str = ""
    seen: Mapping[str, Sequence[int]] = field(default_factory=dict)
    known: int = -1

    @classmethod
    def read(cls, cursor: str | None) -> "_Asked":
        try:
            return cls(**json.loads(cursor or "{}"))
        except (ValueError, TypeError):
            raise KeyfoldError(
                f"the sensor's cursor {cursor!r} is invalid; reset it to empty: files that were read are not read again"
            ) from None

    def text(self) -> str:
        return json.dumps(vars(self), separators=(",", ":"))


def _ask(before: _Asked, news: str, known: int, now: int) -> tuple[_Asked, str]:
    """Return a request with an empty text, or the last one with why no further one is made now.

    Requests are made ever later until something is read, whatever else comes: otherwise, where data comes all the time, a lasting
    fault would start a run at every tick.
    """
    if known != before.known:
        return _Asked(now, now, seen=before.seen, known=known), ""
    again = before.at + min(max(before.at - before.since, _MINUTE), _LONGEST)
    # If the clock was set back, do not wait for it.
    if not before.at <= now < again:
        return replace(before, at=now), ""
    minutes = -(-(again - now) // _MINUTE)
    return before, f"{news}, and the last run read nothing: see why it failed; another one starts in {minutes} min"


def _has_seen(asked: _Asked, file: LandedFile) -> bool:
    return file.marked is not False and asked.seen.get(file.path) == _shape(file)


def _shape(file: LandedFile) -> list[int]:
    return [file.size, file.modified_at, file.changed_at]


def _digest(files: Sequence[LandedFile]) -> str:
    # A digest instead of the names, since a folder may contain a million files.
    content = blake2b(digest_size=8)
    for file in files:
        content.update(f"{file.path}\0{_shape(file)}".encode())
    return content.hexdigest()


def _nothing(folder: Place, listing: Listing, not_whole: int, changed: int) -> str:
    if not listing.files:
        return f"no files in {folder}"
    others = []
    if not_whole:
        is_marked = any(file.marked is False for file in listing.files)
        others.append(f"{not_whole} {'without their done-marker' if is_marked else 'still being written'}")
    if changed:
        others.append(f"{changed} changed since they were read: see the last run of ingest")
    return f"no new files in {folder}" + (f" ({'; '.join(others)})" if others else "")
