"""Admission: which landing files are new and whole, and which have changed since they were read.

A file is known by its path below its landing folder, and is read once. One that has changed since is never passed over in
silence: its rows may be in no table, or twice.
"""

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta

from keyfold.errors import Misconfigured
from keyfold.ingestion.known import KnownFile
from keyfold.ingestion.records import AdmittedFile
from keyfold.ingestion.sources.files import LandedFile, Listing, fingerprint, list_files
from keyfold.storage.place import Place
from keyfold.times import micros

_READERS = 8


@dataclass(frozen=True)
class Admission:
    """What a look at a landing folder gave.

    Attributes:
        files: to be read, in order of their paths.
        waiting: how many are not whole yet; a folder that cannot be read counts as one.
        changed: by path, how files differ from what was read of them.
        touched: by path, files of which no more than the times differ.
    """

    files: tuple[AdmittedFile, ...] = ()
    waiting: int = 0
    changed: Mapping[str, str] = field(default_factory=dict)
    touched: Mapping[str, AdmittedFile] = field(default_factory=dict)


def select_files(
    landing: Place, known: Mapping[str, KnownFile], *, settle: timedelta, done_marker: bool, reread_changed: bool
) -> Admission:
    """List a landing folder, and part its files.

    Files that were changed just now are given the settling time, once, so that a run that a person starts right after
    copying finds them; those that stay as they are for so long are whole, whatever the file server's clock says.

    Args:
        landing: the landing folder.
        known: the files that were read, by their paths.
        settle: how long a file must have stayed as it is; with 0 every file counts as whole.
        done_marker: whether a file counts as whole by its marker instead.
        reread_changed: whether files that have changed are read again.

    Raises:
        KeyfoldError: the landing folder cannot be read.
    """
    # The time first: a file that lands while the folder is listed then counts as younger than it.
    now, listing = time.time_ns(), _list(landing, done_marker)
    seen: set[LandedFile] = set()
    young = [file for file in listing.files if not file.is_whole(now, settle) and not is_known(file, known)]
    if settle and not done_marker and young:
        settled_in = max(file.changed_at for file in young) - now + micros(settle) * 1_000
        time.sleep(min(settled_in / 1e9, settle.total_seconds()))
        seen = set(young)
        now, listing = time.time_ns(), _list(landing, done_marker)
    files: list[AdmittedFile] = []
    changed: dict[str, str] = {}
    touched: dict[str, AdmittedFile] = {}
    others = [file for file in listing.files if not is_known(file, known)]
    whole = [file for file in others if file.is_whole(now, settle) or file in seen or not (settle or done_marker)]
    waiting = len(listing.unreadable) + len(others) - len(whole)
    # Side by side: the digests of many small files wait for the disk, or the network, and not for the processor.
    with ThreadPoolExecutor(_READERS) as readers:
        found = list(readers.map(lambda file: _admitted(landing, file), whole))
    for file, admitted in zip(whole, found, strict=True):
        before = known.get(file.path)
        if admitted is None:
            continue
        if before is None or not before.was_read:
            files.append(admitted)
        # Copied or touched: other times, the same content. It is noted, so that it is not read for this each run.
        elif admitted.fingerprint == before.fingerprint:
            touched[file.path] = admitted
        else:
            changed[file.path] = _difference(before, admitted)
            if reread_changed:
                files.append(admitted)
    return Admission(tuple(files), waiting, changed, touched)


def is_known(file: LandedFile, known: Mapping[str, KnownFile]) -> bool:
    """Whether a file was read, or told of, as it is now."""
    before = known.get(file.path)
    if before is None or before.was_read == (file.refused is not None):
        return False
    if file.tag:
        return file.tag == before.fingerprint
    return (file.size, file.modified_at, file.changed_at) == (before.size, before.modified_at, before.changed_at)


def _admitted(landing: Place, file: LandedFile) -> AdmittedFile | None:
    digest = file.tag
    if file.refused is None and not digest:
        try:
            digest = fingerprint(landing / file.path)
        except FileNotFoundError:
            return None
        except OSError:  # whoever reads it will say what is wrong
            digest = ""
    return AdmittedFile(
        path=file.path,
        size=file.size,
        modified_at=file.modified_at,
        changed_at=file.changed_at,
        fingerprint=digest,
        refused=file.refused,
    )


def _difference(before: KnownFile, now: AdmittedFile) -> str:
    if now.refused:
        return f"became a link out of the landing folder ({now.refused})"
    if now.size == before.size:
        return f"was rewritten ({now.size:,} bytes as before)"
    return f"{'grew' if now.size > before.size else 'shrank'} from {before.size:,} to {now.size:,} bytes"


def _list(landing: Place, done_marker: bool) -> Listing:
    try:
        return list_files(landing, done_marker=done_marker)
    except OSError as error:
        raise Misconfigured(f"the landing folder {landing} cannot be read: {error.strerror or error}") from None
