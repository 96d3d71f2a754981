"""Where new data comes from, and whether there is any to run on: pure decisions, of which sensors make runs.

What was read is the business of ingest, whose journal says so: a file that it does not know is new, whatever a clock or a
cursor says. The cursor remembers what was asked for, so that a run that fails is asked for again, and not for ever.
"""

import getpass
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from hashlib import blake2b
from typing import Any, Protocol

import dagster as dg

from keyfold.dagster.automation.starting.asking import UNDONE, Asked, held_back
from keyfold.ingestion import KnownFile, is_known
from keyfold.ingestion.sources.files import SETTLE, LandedFile, Listing, list_files
from keyfold.storage.place import Place

_NAMES_SHOWN = 10
_MOST_SEEN = 1_000
"""A cursor is a row of a database: it stays small."""


@dataclass(frozen=True)
class Decision:
    """What a tick found.

    Attributes:
        cursor: to go on from.
        new: how much is new, in the source's own unit; a run starts where it is not 0.
        attempt: which one it is since something was read.
        reason: why no run starts, for people.
        warnings: what is wrong with a part of the source while the rest goes on.
        metadata: of what is new, for the external asset that stands for the source.
    """

    cursor: str | None
    new: int = 0
    attempt: int = 1
    reason: str = ""
    warnings: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)


class Source(Protocol):
    """Where new data comes from."""

    def poll(self, cursor: str | None) -> Decision:
        """Decide what to do; changes nothing, so that a tick that fails can be had again.

        Args:
            cursor: of the last decision, None before the first. Keep it small: it is a database row.

        Raises:
            KeyfoldError: somebody has set a cursor that is none.
        """
        ...


@dataclass(frozen=True)
class FileSource:
    """Files in a landing folder.

    Attributes:
        folder: the landing folder, which need not be there yet.
        settle: how long a file must have stayed as it is to count as whole.
        done_marker: whether a file counts as whole by its marker instead.
        known: gives the files that ingest has read, by their paths.
        unfinished: tells whether a run of ingest broke off.
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
            return Decision(cursor, reason=f"the landing folder {self.folder} is not there yet")
        except OSError as error:
            return Decision(
                cursor,
                reason=f"the landing folder {self.folder} cannot be read ({error.strerror or error}); it must be a folder that "
                f"{getpass.getuser()}, who runs Dagster, may list and enter",
            )
        return decide(
            found,
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
    """Whether to ask for a run: there are whole files that ingest has not read, or it broke off.

    Where a run has read nothing, it is asked for again after one, 5, 15, 60 and 240 minutes, whatever else has come
    meanwhile; after that only where something else has come, every 240 minutes at most. Files that have changed since
    they were read are asked for once, by themselves: the run says what is to be done about them.

    Args:
        found: all that is in the folder.
        known: the files that ingest has read.
        cursor: of the last decision, None at first.
        now: nanoseconds since 1970, before the folder was listed.
        folder: for the texts.
        settle: how long a file without a marker must have stayed as it is.
        unfinished: whether a run of ingest broke off.

    Raises:
        KeyfoldError: the cursor is none of this sensor's.
    """
    before = Asked.read(cursor)
    others = [file for file in found.files if not is_known(file, known)]
    changed = [file for file in others if file.path in known and known[file.path].was_read]
    unread = [file for file in others if file not in changed] if changed else others
    new = [file for file in unread if file.is_whole(now, settle) or _has_seen(before, file)]
    ahead = [file for file in unread if file.changed_at > now and file.marked is not False][:_MOST_SEEN]
    seen = {file.path: _shape(file) for file in ahead}
    warnings = tuple(f"the folder {path} cannot be read; its files wait" for path in found.unreadable)
    if new or unfinished:
        digest = _digest(new, str(unfinished))
        # What tells is whether anything was read, not which files there are: where some land all the time, a fault
        # that no run gets over would else start runs as often as a tick comes.
        tries = before.tries + 1 if len(known) == before.known else 1
        what = f"{'1 file is' if len(new) == 1 else f'{len(new)} files are'} new" if new else UNDONE
        if waits := held_back(what, before, now, digest) if tries > 1 else None:
            return Decision(replace(before, seen=seen).text(), reason=waits, warnings=warnings)
        asked = Asked(digest, tries, now, _digest(changed), seen, len(known))
    elif changed and _digest(changed) != before.changed:
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
    # A digest and not the names, since a folder may hold a million.
    content = blake2b(more.encode(), digest_size=8)
    for file in files:
        content.update(f"{file.path}\0{_shape(file)}".encode())
    return content.hexdigest()


def _nothing(folder: Place, found: Listing, not_whole: int, changed: int) -> str:
    if not found.files:
        return f"no files in {folder}"
    told = []
    if not_whole:
        is_marked = any(file.marked is False for file in found.files)
        told.append(f"{not_whole} {'without their done-marker' if is_marked else 'still being written'}")
    if changed:
        told.append(f"{changed} changed since they were read: see the last run of ingest")
    return f"no new files in {folder}" + (f" ({'; '.join(told)})" if told else "")
