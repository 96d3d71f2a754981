"""Decide whether a source has new data for a run; `sensors` turns decisions into run requests.

A file is new if ingest's journal does not have it; clocks and cursors do not matter. The cursor only records the last request,
so that a failed run is requested again, but not for ever.
"""

import getpass
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from hashlib import blake2b
from typing import Any, Protocol

import dagster as dg

from keyfold import ingestion
from keyfold.dagster.automation.asking import UNDONE, Asked, held_back
from keyfold.ingestion.known import KnownFile
from keyfold.ingestion.sources.files import SETTLE, LandedFile, Listing, list_files
from keyfold.storage.place import Place

_NAMES_SHOWN = 10
_MOST_SEEN = 1_000
"""Bounds the cursor's size: it is a row in a database."""


@dataclass(frozen=True)
class Decision:
    """The decision of a sensor's tick.

    Attributes:
        cursor: the sensor's next cursor.
        new: number of new files or messages; a run starts unless it is 0.
        attempt: number of this attempt since something was read.
        reason: why no run starts, for people.
        warnings: faults in a part of the source; the other parts are read.
        metadata: describes the new data, for the external asset of the source.
    """

    cursor: str | None
    new: int = 0
    attempt: int = 1
    reason: str = ""
    warnings: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)


class Source(Protocol):
    """A source of new data."""

    def poll(self, cursor: str | None) -> Decision:
        """Decide whether to start a run. Has no side effects, so that a failed tick can be repeated.

        Args:
            cursor: the cursor of the last decision, None before the first. Keep it small: it is a database row.

        Raises:
            KeyfoldError: the cursor is invalid.
        """
        ...


@dataclass(frozen=True)
class FileSource:
    """Files in a landing folder.

    Attributes:
        folder: the landing folder, which need not exist yet.
        settle: how long a file must be unchanged to count as whole.
        done_marker: whether a done-marker decides instead that a file is whole.
        known: returns the files that ingest has read, by path.
        unfinished: returns whether a run of ingest was interrupted.
    """

    folder: Place
    settle: timedelta = SETTLE
    done_marker: bool = False
    known: Callable[[], Mapping[str, KnownFile]] = dict
    unfinished: Callable[[], bool] = bool

    def poll(self, cursor: str | None) -> Decision:
        """List the folder and decide."""
        now = time.time_ns()
        try:
            found = list_files(self.folder, done_marker=self.done_marker)
        except FileNotFoundError:
            return Decision(cursor, reason=f"the landing folder {self.folder} does not exist yet")
        except OSError as error:
            return Decision(
                cursor,
                reason=f"the landing folder {self.folder} cannot be read ({error.strerror or error}): the user "
                f"{getpass.getuser()}, who runs Dagster, must be allowed to list and enter it",
            )
        return decide(
            found,
            # The journal is read only if there are files: a tick every five seconds must be cheap.
            self.known() if found.files else {},
            cursor,
            now,
            folder=self.folder,
            settle=self.settle,
            unfinished=self.unfinished(),
        )


def decide(
    found: Listing,
    known: Mapping[str, KnownFile],
    cursor: str | None,
    now: int,
    *,
    folder: Place,
    settle: timedelta = SETTLE,
    unfinished: bool = False,
) -> Decision:
    """Request a run if there are whole files that ingest has not read, or if ingest was interrupted.

    If a run reads nothing, it is requested again after 1, 5, 15, 60 and 240 minutes, whatever lands meanwhile; after that only
    for newer data, at most every 240 minutes. For files that have changed since they were read, one run is requested; it
    reports what to do about them.

    Args:
        found: the files in the folder.
        known: the files that ingest has read.
        cursor: the cursor of the last decision, None at first.
        now: nanoseconds since 1970, taken before the folder was listed.
        folder: the folder, for messages.
        settle: how long a file without a marker must be unchanged.
        unfinished: whether a run of ingest was interrupted.

    Raises:
        KeyfoldError: the cursor is invalid.
    """
    before = Asked.read(cursor)
    others = [file for file in found.files if not ingestion.is_known(file, known)]
    changed = [file for file in others if file.path in known and known[file.path].was_read]
    unread = [file for file in others if file not in changed] if changed else others
    new = [file for file in unread if file.is_whole(now, settle) or _has_seen(before, file)]
    ahead = [file for file in unread if file.changed_at > now and file.marked is not False][:_MOST_SEEN]
    seen = {file.path: _shape(file) for file in ahead}
    warnings = tuple(f"the folder {path} cannot be read; its files wait" for path in found.unreadable)
    if new or unfinished:
        digest = _digest(new, str(unfinished))
        # Attempts are counted until something is read, whichever files are there: otherwise, where files land all the
        # time, a lasting fault would start a run at every tick.
        tries = before.tries + 1 if len(known) == before.known else 1
        what = f"{'1 file is' if len(new) == 1 else f'{len(new)} files are'} new" if new else UNDONE
        if waits := held_back(what, before, now, digest) if tries > 1 else None:
            return Decision(replace(before, seen=seen).text(), reason=waits, warnings=warnings)
        asked = Asked(digest, tries, now, _digest(changed), seen, len(known))
    elif changed and _digest(changed) != before.changed:
        # 0 tries: a run for changed files reads nothing, and must not count as a failed attempt.
        asked = Asked("", 0, now, _digest(changed), seen)
    else:
        reason = _nothing(folder, found, len(unread), len(changed))
        return Decision(replace(before, seen=seen).text(), reason=reason, warnings=warnings)
    files = new or changed
    newest = max((file.changed_at for file in files), default=now)
    return Decision(
        asked.text(),
        new=len(files) or 1,
        attempt=max(asked.tries, 1),
        warnings=warnings,
        metadata={
            "dagster/uri": folder.as_uri(),
            "new_files": len(new),
            "new_bytes": sum(file.size for file in new),
            "files_not_whole": len(unread) - len(new),
            "files_changed": len(changed),
            "newest": dg.MetadataValue.timestamp(newest / 1e9),
            "first_names": dg.MetadataValue.json([file.path for file in files[:_NAMES_SHOWN]]),
        },
    )


def _has_seen(asked: Asked, file: LandedFile) -> bool:
    return file.marked is not False and asked.seen.get(file.path) == _shape(file)


def _shape(file: LandedFile) -> list[int]:
    return [file.size, file.modified_at, file.changed_at]


def _digest(files: Sequence[LandedFile], more: str = "") -> str:
    # A digest instead of the names, since a folder may contain a million files.
    content = blake2b(more.encode(), digest_size=8)
    for file in files:
        content.update(f"{file.path}\0{_shape(file)}".encode())
    return content.hexdigest()


def _nothing(folder: Place, found: Listing, not_whole: int, changed: int) -> str:
    if not found.files:
        return f"no files in {folder}"
    others = []
    if not_whole:
        is_marked = any(file.marked is False for file in found.files)
        others.append(f"{not_whole} {'without their done-marker' if is_marked else 'still being written'}")
    if changed:
        others.append(f"{changed} changed since they were read: see the last run of ingest")
    return f"no new files in {folder}" + (f" ({'; '.join(others)})" if others else "")
