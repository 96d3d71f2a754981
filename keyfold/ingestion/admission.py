"""Select the landing files that are new and complete, and report those that have changed since they were read.

A file is identified by its path relative to the landing folder, and is read once. A later change is always reported, since
the changed rows may be missing from the tables, or be in them twice.
"""

import time
from collections.abc import Mapping, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta

import polars as pl

from keyfold.ingestion.ingest_records import AdmittedFile
from keyfold.ingestion.known import KnownFile, read_as_they_are, versions
from keyfold.ingestion.listing import LandedFile, Listing, cannot_be_read, list_files
from keyfold.storage.place import Place
from keyfold.times import micros

_READERS = 8


@dataclass(frozen=True)
class Admission:
    """The files of a landing folder, sorted by what is to be done with them.

    Attributes:
        files: files to read, in the order of their paths.
        waiting: number of files that are not complete yet; a folder or file that cannot be looked at or opened counts as one.
        unreadable: those, by path, each with the reason.
        changed: files that changed after they were read, by path, each with how they changed.
        touched: files of which only the times changed, by path.
    """

    files: tuple[AdmittedFile, ...] = ()
    waiting: int = 0
    changed: Mapping[str, str] = field(default_factory=dict)
    touched: Mapping[str, AdmittedFile] = field(default_factory=dict)
    unreadable: Mapping[str, str] = field(default_factory=dict)


def select_files(
    landing: Place,
    files_before: pl.DataFrame,
    *,
    settle: timedelta,
    done_marker: bool,
    reread_changed: bool,
) -> Admission:
    """List a landing folder, and select its files.

    Files that changed just now get the settling time once, so that a run started right after copying finds them. A file that
    does not change during that time is complete, whatever the file server's clock says.

    Args:
        landing: the landing folder.
        files_before: the files that were read, as `KnownFiles.of` returns them.
        settle: time since the last change after which a file is complete; 0: every file is.
        done_marker: whether a file is complete once its marker file exists, instead.
        reread_changed: whether changed files are read again.

    Raises:
        KeyfoldError: the landing folder cannot be read.
    """
    unchanged = read_as_they_are(files_before)

    def look() -> tuple[int, Listing, dict[str, KnownFile], list[LandedFile]]:
        # Take the time before listing, so that a file that lands meanwhile counts as young.
        now, listing = time.time_ns(), _list(landing, done_marker, unchanged)
        before = versions(files_before, [file.path for file in listing.files])
        return now, listing, before, [file for file in listing.files if not is_known(file, before)]

    now, listing, before, unread = look()
    seen: set[LandedFile] = set()
    young = [file for file in unread if not file.is_whole(now, settle)]
    if settle and not done_marker and young:
        settled_in = max(file.changed_at for file in young) - now + micros(settle) * 1_000
        time.sleep(min(settled_in / 1e9, settle.total_seconds()))
        seen = set(young)
        now, listing, before, unread = look()
    complete = [file for file in unread if file.is_whole(now, settle) or file in seen or not (settle or done_marker)]
    denied: dict[str, str] = {}
    # In parallel: digests of many small files wait for the disk or the network, not for the processor.
    with ThreadPoolExecutor(_READERS) as readers:
        admitted = list(readers.map(lambda file: _admitted(landing, file, denied), complete))
    files: list[AdmittedFile] = []
    changed: dict[str, str] = {}
    touched: dict[str, AdmittedFile] = {}
    for file in filter(None, admitted):
        version = before.get(file.path)
        if version is None or version.is_refused:
            files.append(file)
        # Copied or touched: the same content with other times. Recorded, so that later runs need not compare the content.
        elif file.fingerprint == version.fingerprint:
            touched[file.path] = file
        else:
            changed[file.path] = _difference(version, file)
            if reread_changed:
                files.append(file)
    unreadable = {**listing.unreadable, **denied}
    waiting = len(unread) - len(complete) + len(unreadable)
    return Admission(tuple(files), waiting, changed, touched, unreadable)


def is_known(file: LandedFile, files_before: Mapping[str, KnownFile]) -> bool:
    """Whether this version of a file was read, or refused and reported, before."""
    before = files_before.get(file.path)
    # A link that was refused and may be read now, or the reverse, is another version.
    if before is None or before.is_refused != (file.refused is not None):
        return False
    if file.tag:
        return file.tag == before.fingerprint
    # Size and times, by place: a folder may have a million files.
    return file[1:4] == before[:3]


def _admitted(landing: Place, file: LandedFile, denied: dict[str, str]) -> AdmittedFile | None:
    """Return a file with its digest; None if it is gone, or if this user may not read it, which is added to `denied`."""
    digest = file.tag
    if file.refused is None and not digest:
        try:
            digest = (landing / file.path).fingerprint(landing)
        except FileNotFoundError:
            return None
        except PermissionError as error:  # a file server may refuse what the mode allows
            denied[file.path] = str(error.strerror)
            return None
        except OSError:  # the reader will report the error
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


def _list(landing: Place, done_marker: bool, read_before: Set[tuple[str, int, int, int]]) -> Listing:
    try:
        return list_files(landing, done_marker=done_marker, read_before=read_before)
    except OSError as error:
        raise cannot_be_read(landing, error) from None
