"""Checksums of the files that a stream's ingest, or a generation of a job, keeps beside its data files.

JOURNAL/checksums.json   size, time of change and checksum of each: records, logs of tables, Spark's checkpoint

Written at the end of a run and of maintenance, and now and then by one that runs continuously. Data files have their checksum in their names,
and segments of the index of ids in the commit record.

Most files never change once they are written. Those that are replaced (`file_sums._ORDERS`) say themselves which version they
are: a later one than recorded was written by a run that broke off before its record, an earlier one was put there by somebody.
In an object store hardly anything is read for this: what is recorded is the store's own tag.
"""

import json
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from time import time
from zipfile import BadZipFile, ZipFile

from keyfold.journal.file_sums import FileSum, ListedFile, difference, in_digests, is_untouched, last_line, sum_of
from keyfold.lakehouse.checksums import checksum_of_bytes
from keyfold.lakehouse.files import DamagedError, files_below, open_for_reading, write_durably
from keyfold.storage.place import Place, path_below

RECORD = "checksums.json"

NOW_AND_THEN = timedelta(seconds=30)
"""From one record to the next, of what runs continuously."""

_SPARK_KEEPS = 100
"""Versions of the state, and entries of the checkpoint's logs, that Spark keeps at least (its own default)."""

_VERSION = re.compile(r"^checkpoint/state/.*/\d+(_[^/.]+)?\.(zip|delta|snapshot|changelog)$")
_NUMBER = re.compile(r"^(?:known-)?(\d+)")


@dataclass(frozen=True)
class Checksums:
    """What was recorded.

    Attributes:
        batch: the last one that was done by then; -1 before the first.
        files: by part and path below it.
    """

    batch: int
    files: Mapping[str, FileSum]


def record_checksums(journal: Place, parts: Mapping[str, Place], batch: int, every: timedelta = timedelta(0)) -> None:
    """Record the checksums of files that are new; call it under the lock of whoever writes them.

    A file that has changed and must not have keeps the checksum that it had: damage is not made right by this.

    Args:
        journal: the folder of the record.
        parts: files and folders, by name.
        batch: the last one that is done; -1 before the first. What belongs to a later one is left out.
        every: how old the record must be.

    Raises:
        OSError: the disk is full or fails.
    """
    record = journal / RECORD
    if every and record.exists() and time() - record.stat().st_mtime_ns / 1e9 < every.total_seconds():
        return
    try:
        before = read_checksums(journal)
    except DamagedError:
        before = None
    old = before.files if before else {}
    files: dict[str, FileSum] = {}
    listed = list(_listed(parts))
    finished = max((_number_of(key) for key, _ in listed if key.startswith("checkpoint/commits/")), default=-1)
    for key, found in listed:
        if _is_of_later_batch(key, batch) or _is_of_open_batch(key, finished):
            continue
        known = old.get(key)
        with suppress(FileNotFoundError):
            is_kept = known and (is_untouched(known, found) or difference(known, sum_of(key, found, known)))
            files[key] = known if known and is_kept else sum_of(key, found)
    gone = {key: old[key] for key in missing(old, files, parts, batch)}
    if before is None or (batch, files | gone) != (before.batch, before.files):
        write_durably(record, _as_bytes(batch, files | gone))


def forget_checksums(journal: Place, keys: Iterable[str]) -> None:
    """Take files that are about to be changed on purpose out of the record, until `record_checksums` adds them again.

    Args:
        journal: the folder of the record, under the lock of whoever writes it.
        keys: part and path below it, of each file.
    """
    with suppress(DamagedError):
        recorded = read_checksums(journal)
        changed = set(keys)
        if recorded and not changed.isdisjoint(recorded.files):
            kept = {key: file for key, file in recorded.files.items() if key not in changed}
            write_durably(journal / RECORD, _as_bytes(recorded.batch, kept))


def read_checksums(journal: Place) -> Checksums | None:
    """What was recorded; None where nothing was yet.

    Raises:
        DamagedError: the record is damaged.
    """
    record = journal / RECORD
    try:
        return _from_bytes(record.read_bytes(), record)
    except FileNotFoundError:
        return None


def without_tags(content: bytes, digests: Mapping[str, str]) -> bytes:
    """The content of a record for a copy of what lies in a bucket: copies may have other tags.

    Args:
        content: of the record; one that is damaged is given back as it is.
        digests: of the files that were copied (BLAKE2b, 256 bits), by the tags that they had.
    """
    with suppress(DamagedError):
        recorded = _from_bytes(content, RECORD) if digests else None
        return _as_bytes(recorded.batch, in_digests(recorded.files, digests)) if recorded else content
    return content


def differences(
    checksums: Checksums, parts: Mapping[str, Place], *, trust_times: bool = False
) -> Iterator[tuple[Place, str]]:
    """Files that are not as they were recorded: each with what is wrong with it, for people.

    Args:
        checksums: what was recorded.
        parts: files and folders by name, those that were recorded or fewer.
        trust_times: a file of the same size and time of change is as it was; else all are read.
    """
    here = {key: one for key, one in checksums.files.items() if key.partition("/")[0] in _heads(parts)}
    present = dict(_listed(parts))
    for key, known in here.items():
        found = present.get(key)
        if found is None or (trust_times and is_untouched(known, found)):
            continue
        try:
            what = difference(known, sum_of(key, found, known))
        except FileNotFoundError:
            continue  # it went meanwhile
        if what is not None:
            yield found.path, what
    for key in missing(here, present, parts, checksums.batch):
        yield _place(key, parts), "is gone"


def missing(
    recorded: Mapping[str, FileSum], present: Mapping[str, object], parts: Mapping[str, Place], batch: int
) -> list[str]:
    """The recorded files that are not there and that nobody had reason to remove."""
    return [key for key in recorded if key not in present and not _may_be_gone(key, present, parts, batch)]


def _may_be_gone(key: str, present: Mapping[str, object], parts: Mapping[str, Place], batch: int) -> bool:
    part, _, below = key.partition("/")
    name = key.rpartition("/")[2]
    number = int(found[1]) if (found := _NUMBER.match(name)) else None
    folder = key.removesuffix(name)
    if part == "checkpoint" and "/SSTs/" in key:
        return not _is_named(name, parts[part] / below.rpartition("/SSTs/")[0])
    if number is None:
        return False
    if part == "checkpoint":
        return batch - number >= _SPARK_KEEPS - 1
    if part == "journal":
        return number <= int(_history(parts[part] / "history.jsonl") or -1)
    # A later table of known files holds what this one did; a checkpoint of a Delta log what is before it.
    later = (one for one in present if one.startswith(folder))
    if part == "files":
        return any(_number_of(one) > number for one in later)
    own = ".checkpoint" in name
    return any(_number_of(one) >= number + own for one in later if ".checkpoint" in one)


def _number_of(key: str) -> int:
    found = _NUMBER.match(key.rpartition("/")[2])
    return int(found[1]) if found else -1


def _is_named(sst: str, partition: Place) -> bool:
    """Whether a version of a partition's state needs a file of RocksDB's; so it is taken to be where that cannot be read."""
    for archive in partition.glob("*.zip"):
        try:
            with open_for_reading(archive) as file, ZipFile(file) as files:
                if sst.encode() in files.read("metadata"):
                    return True
        except (OSError, KeyError, BadZipFile, zlib.error):
            return True
    return False


def _is_of_later_batch(key: str, batch: int) -> bool:
    """Whether a file is of a batch that may be planned or worked on again."""
    if key.startswith("journal/"):
        return _number_of(key) > batch
    if batch < 0:
        return key.startswith("checkpoint/")  # begun anew from nothing by the next run
    # Spark has begun the next batch when a run ends, and goes on from that very entry.
    return (key.startswith("checkpoint/offsets/") and _number_of(key) > batch + 1) or (
        key.startswith(("checkpoint/commits/", "checkpoint/parts/")) and _number_of(key) > batch
    )


def _is_of_open_batch(key: str, finished: int) -> bool:
    """Whether a file is state that Spark made in a batch that it has not finished, and may make anew where it goes on.

    Its version is one more than the batch's number; files of RocksDB's have names of their own each time.
    """
    return bool(_VERSION.search(key)) and _number_of(key) > finished + 1


def _listed(parts: Mapping[str, Place]) -> Iterator[tuple[str, ListedFile]]:
    """The files of parts, by their keys; hidden ones are locks, checksums of Hadoop's, and what is half written."""
    for name, place in parts.items():
        if not place.is_dir():
            with suppress(FileNotFoundError):
                found = place.stat()
                yield name, ListedFile(place, "", found.st_size, found.st_mtime_ns, getattr(found, "e_tag", None) or "")
            continue
        for found in _on_disk(place, str(place)) if isinstance(place, Path) else _in_store(place):
            key = f"{name}/{found.below}"
            if key != f"journal/{RECORD}":
                yield key, found


def _on_disk(part: Path, folder: str, below: str = "") -> Iterator[ListedFile]:
    try:
        entries = os.scandir(folder)
    except FileNotFoundError:
        return
    with entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from _on_disk(part, entry.path, f"{below}{entry.name}/")
                continue
            with suppress(FileNotFoundError):
                found = entry.stat(follow_symlinks=False)
                yield ListedFile(part, below + entry.name, found.st_size, found.st_mtime_ns)


def _in_store(part: Place) -> Iterator[ListedFile]:
    for found in files_below(part):
        below = path_below(found.path, part)
        if below is not None and not any(name.startswith(".") for name in below.parts):
            yield ListedFile(part, below.as_posix(), found.bytes, found.changed_at, found.tag)


def _heads(parts: Mapping[str, Place]) -> set[str]:
    return {name.partition("/")[0] for name in parts}


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
    told = json.loads(text)
    return Checksums(told["batch"], {key: FileSum(*one) for key, one in told["files"].items()})


def _history(place: Place) -> str:
    """The last batch that a journal has only a line of."""
    try:
        return last_line(place.read_bytes())
    except (FileNotFoundError, ValueError, KeyError, IndexError):
        return ""
