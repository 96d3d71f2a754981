"""Record and compare checksums of the files of a generation, or of a stream's ingest, other than data files.

JOURNAL/checksums.json   size, modification time and checksum of each file: records and table logs

The record is written at the end of a run and of maintenance, and regularly by a continuous run. Data files and files of
state have their checksums in their names, and segments of the index of ids in the commit record.

Most files never change. Files that are replaced have a version (`file_sums._ORDERS`). A later version than recorded was written
by a run that stopped before it wrote the record; an earlier one was restored by somebody. In an object store the record has the
store's tags, so that hardly any file is read.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from time import time

from keyfold.journal.file_sums import FileSum, difference, is_untouched, last_line, sum_of
from keyfold.lakehouse.checksums import checksum_of_bytes
from keyfold.lakehouse.files import DamagedError, files_below, write_durably
from keyfold.storage.place import FoundFile, Place, found_at

RECORD = "checksums.json"

NOW_AND_THEN = timedelta(seconds=30)
"""Time between two records of a continuous run."""

_NUMBER = re.compile(r"^(?:known-)?(\d+)")


@dataclass(frozen=True)
class Checksums:
    """The recorded checksums.

    Attributes:
        batch: the last committed batch; -1 before the first.
        files: files by their keys: part, and path below it.
    """

    batch: int
    files: Mapping[str, FileSum]


def record_checksums(journal: Place, parts: Mapping[str, Place], batch: int, every: timedelta = timedelta(0)) -> None:
    """Record the checksums of new files. The caller must hold the lock under which they are written.

    A file that must not change and has changed keeps its recorded checksum, so that the damage is still noticed.

    Args:
        journal: folder of the record.
        parts: files and folders, by name.
        batch: the last committed batch; -1 before the first. Files of later batches are left out.
        every: does nothing if the record is not older than this.

    Raises:
        OSError: the disk is full or fails.
    """
    record = journal / RECORD
    # A record of the future was written by a clock that was ahead.
    if every and record.exists() and abs(time() - record.stat().st_mtime_ns / 1e9) < every.total_seconds():
        return
    try:
        before = read_checksums(journal)
    except DamagedError:
        before = None
    old = before.files if before else {}
    files: dict[str, FileSum] = {}
    for key, file in _listed(parts):
        # A batch that is not committed may be planned again.
        if key.startswith("journal/") and _number_of(key) > batch:
            continue
        known = old.get(key)
        if known and is_untouched(known, file):
            files[key] = known
            continue
        with suppress(FileNotFoundError):
            # A file that differs, though no later version has replaced it, is damaged: keep its recorded checksum.
            files[key] = known if known and difference(known, sum_of(key, file, known)) else sum_of(key, file)
    files |= {key: old[key] for key in missing(old, files, parts)}
    if before is None or (batch, files) != (before.batch, before.files):
        write_durably(record, _as_bytes(batch, files))


def forget_checksums(journal: Place, keys: Iterable[str]) -> None:
    """Remove files from the record before they are changed on purpose; `record_checksums` adds them again.

    Args:
        journal: folder of the record; the caller must hold the lock under which it is written.
        keys: part, and path below it, of each file.
    """
    with suppress(DamagedError):
        recorded = read_checksums(journal)
        changed = set(keys)
        if recorded and not changed.isdisjoint(recorded.files):
            kept = {key: file for key, file in recorded.files.items() if key not in changed}
            write_durably(journal / RECORD, _as_bytes(recorded.batch, kept))


def read_checksums(journal: Place) -> Checksums | None:
    """Read the record; None if there is none.

    Raises:
        DamagedError: the record is damaged.
    """
    record = journal / RECORD
    try:
        return _from_bytes(record.read_bytes(), record)
    except FileNotFoundError:
        return None


def differences(checksums: Checksums, parts: Mapping[str, Place]) -> Iterator[tuple[Place, str]]:
    """Read all files, and yield those that differ from the record, each with what is wrong with it.

    Args:
        checksums: the record.
        parts: recorded files and folders, by name; a part of them will do.
    """
    folders = tuple(f"{name}/" for name in parts)
    here = {key: one for key, one in checksums.files.items() if f"{key}/".startswith(folders)}
    present = dict(_listed(parts))
    for key, known in here.items():
        file = present.get(key)
        if file is None:
            continue
        try:
            what = difference(known, sum_of(key, file, known))
        except FileNotFoundError:
            continue  # it was removed after it was listed
        if what is not None:
            yield file.path, what
    for key in missing(here, present, parts):
        yield _place(key, parts), "is gone"


def missing(recorded: Mapping[str, FileSum], present: Mapping[str, object], parts: Mapping[str, Place]) -> list[str]:
    """List recorded files that do not exist, and that no run would have removed."""
    return [key for key in recorded if key not in present and not _may_be_gone(key, present, parts)]


def _may_be_gone(key: str, present: Mapping[str, object], parts: Mapping[str, Place]) -> bool:
    part = key.partition("/")[0]
    name = key.rpartition("/")[2]
    number = int(found[1]) if (found := _NUMBER.match(name)) else None
    folder = key.removesuffix(name)
    if number is None:
        return False
    if part == "journal":
        return number <= int(_history(parts[part] / "history.jsonl") or -1)
    # A later list of known files includes this one; a checkpoint of a Delta log includes the entries before it.
    later = (one for one in present if one.startswith(folder))
    if part == "files":
        return any(_number_of(one) > number for one in later)
    # A checkpoint itself is replaced only by a later one.
    own = ".checkpoint" in name
    return any(_number_of(one) >= number + own for one in later if ".checkpoint" in one)


def _number_of(key: str) -> int:
    found = _NUMBER.match(key.rpartition("/")[2])
    return int(found[1]) if found else -1


def _listed(parts: Mapping[str, Place]) -> Iterator[tuple[str, FoundFile]]:
    """Yield the files of parts with their keys, without hidden ones: locks, and incomplete files."""
    for name, place in parts.items():
        if not place.is_dir():
            with suppress(FileNotFoundError):
                yield name, found_at(place)
            continue
        for found in files_below(place):
            key = f"{name}/{found.below}"
            if "/." not in key and key != f"journal/{RECORD}":
                yield key, found


def _place(key: str, parts: Mapping[str, Place]) -> Place:
    name = max((name for name in parts if key == name or key.startswith(f"{name}/")), key=len)
    return parts[name] if key == name else parts[name] / key.removeprefix(f"{name}/")


def _as_bytes(batch: int, files: Mapping[str, FileSum]) -> bytes:
    text = json.dumps({"batch": batch, "files": files}, separators=(",", ":"), sort_keys=True).encode()
    return checksum_of_bytes(text).encode() + b"\n" + text


def _from_bytes(content: bytes, record: Place | str) -> Checksums:
    checksum, _, text = content.partition(b"\n")
    if checksum.decode(errors="replace") != checksum_of_bytes(text):
        raise DamagedError(f"{record} is damaged (its checksum is another one); restore it, or remove it")
    recorded = json.loads(text)
    return Checksums(recorded["batch"], {key: FileSum(*values) for key, values in recorded["files"].items()})


def _history(place: Place) -> str:
    """Return the last batch in a journal's history."""
    try:
        return last_line(place.read_bytes())
    except (FileNotFoundError, ValueError, KeyError, IndexError):
        return ""
