"""Checksums of the files that a stream's ingest, or a generation of a job, keeps beside its data files.

JOURNAL/checksums.json   size, time of change and checksum of each: records, logs of tables, Spark's checkpoint

Written at the end of a run and of maintenance, and now and then by one that runs continuously. Data files have their checksum in their names,
and segments of the index of ids in the commit record.

Most files never change once they are written. Those that are replaced (`_ORDERS`) say themselves which version they are: a
later one than recorded was written by a run that broke off before its record, an earlier one was put there by somebody.
In an object store nothing is read for this: what is recorded is the store's own tag.
"""

import json
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from time import time
from typing import NamedTuple
from zipfile import BadZipFile, ZipFile

import polars as pl

from keyfold.lakehouse.checksums import checksum_of, checksum_of_bytes
from keyfold.lakehouse.files import DamagedError, files_below, open_for_reading, write_durably
from keyfold.storage.place import Place, path_below
from keyfold.times import from_iso, micros

RECORD = "checksums.json"

NOW_AND_THEN = timedelta(seconds=30)
"""From one record to the next, of what runs continuously."""

NUMBER = "keyfold.number"
"""Key of a Parquet file's metadata that says which version of a replaced file it is."""

_SPARK_KEEPS = 100
"""Versions of the state, and entries of the checkpoint's logs, that Spark keeps at least (its own default)."""

_NUMBER = re.compile(r"^(?:known-)?(\d+)")
_PLACE = re.compile(rb'"(?:file|s3a):[^"]*?/checkpoint/state/')


class FileSum(NamedTuple):
    """A file as it was when its checksum was recorded.

    Attributes:
        bytes: its size.
        changed_at: nanoseconds since 1970.
        checksum: of its content; in a store, the store's tag, empty where it has none.
        order: which version of a file that is replaced; empty of all others.
    """

    bytes: int
    changed_at: int
    checksum: str
    order: str = ""


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
    for key, found in _listed(parts):
        if _is_of_later_batch(key, batch):
            continue
        known = old.get(key)
        try:
            new = known if known and _is_untouched(known, found) else _sum(key, found)
        except FileNotFoundError:
            continue
        is_changed = known is not None and _difference(known, new) is not None
        files[key] = known if is_changed and known else new
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
        content = record.read_bytes()
    except FileNotFoundError:
        return None
    checksum, _, text = content.partition(b"\n")
    if checksum.decode(errors="replace") != checksum_of_bytes(text):
        raise DamagedError(f"{record} is damaged (its checksum is another one); restore it, or remove it")
    told = json.loads(text)
    return Checksums(told["batch"], {key: FileSum(*one) for key, one in told["files"].items()})


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
        if found is None or (trust_times and _is_untouched(known, found)):
            continue
        try:
            what = _difference(known, _sum(key, found))
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
        key.startswith("checkpoint/commits/") and _number_of(key) > batch
    )


class _Listed(NamedTuple):
    """A file of a part, as a listing tells of it: paths are made of few, and there may be thousands."""

    part: Place
    below: str
    bytes: int
    changed_at: int
    tag: str = ""

    @property
    def path(self) -> Place:
        return self.part / self.below if self.below else self.part


def _listed(parts: Mapping[str, Place]) -> Iterator[tuple[str, _Listed]]:
    """The files of parts, by their keys; hidden ones are locks, checksums of Hadoop's, and what is half written."""
    for name, place in parts.items():
        if not place.is_dir():
            with suppress(FileNotFoundError):
                found = place.stat()
                yield name, _Listed(place, "", found.st_size, found.st_mtime_ns, getattr(found, "e_tag", None) or "")
            continue
        for found in _on_disk(place, str(place)) if isinstance(place, Path) else _in_store(place):
            key = f"{name}/{found.below}"
            if key != f"journal/{RECORD}":
                yield key, found


def _on_disk(part: Path, folder: str, below: str = "") -> Iterator[_Listed]:
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
                yield _Listed(part, below + entry.name, found.st_size, found.st_mtime_ns)


def _in_store(part: Place) -> Iterator[_Listed]:
    for found in files_below(part):
        below = path_below(found.path, part)
        if below is not None and not any(name.startswith(".") for name in below.parts):
            yield _Listed(part, below.as_posix(), found.bytes, found.changed_at, found.tag)


def _heads(parts: Mapping[str, Place]) -> set[str]:
    return {name.partition("/")[0] for name in parts}


def _place(key: str, parts: Mapping[str, Place]) -> Place:
    name = max((name for name in parts if key == name or key.startswith(f"{name}/")), key=len)
    return parts[name] if key == name else parts[name] / key.removeprefix(f"{name}/")


def _is_untouched(known: FileSum, found: _Listed) -> bool:
    return (known.bytes, known.changed_at) == (found.bytes, found.changed_at) and (
        isinstance(found.part, Path) or known.checksum == found.tag
    )


def _sum(key: str, found: _Listed) -> FileSum:
    name = key.rpartition("/")[2]
    order_of = _ORDERS.get("known" if key.startswith("files/") else name)
    path = found.path
    if isinstance(path, Path):
        if "/_metadata/" in key:
            # It names files by their whole paths, and follows when the home is moved.
            content = _PLACE.sub(b'"', path.read_bytes())
            return FileSum(len(content), found.changed_at, checksum_of_bytes(content))
        with path.open("rb") as file:
            checksum = checksum_of(file)
    else:
        checksum = found.tag
    return FileSum(found.bytes, found.changed_at, checksum, _order(order_of, path) if order_of else "")


def _order(order_of: Callable[[bytes], str], path: Place) -> str:
    try:
        return order_of(path.read_bytes())
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, pl.exceptions.PolarsError):
        return ""


def _difference(known: FileSum, now: FileSum) -> str | None:
    """What is wrong with a file; None where it is as it was, or was replaced by a later one."""
    is_multipart = "-" in known.checksum + now.checksum  # tags of such say how it was sent, too
    is_same = known.bytes == now.bytes and (known.checksum == now.checksum or is_multipart)
    if is_same or now.order > known.order:
        return None
    if known.order and now.order and now.order < known.order:
        return "is older than the one that was written last"
    if known.bytes != now.bytes:
        return f"has {now.bytes:,} bytes, and had {known.bytes:,}"
    return "is not what was written (its checksum is another one)"


def _as_bytes(batch: int, files: Mapping[str, FileSum]) -> bytes:
    text = json.dumps({"batch": batch, "files": files}, separators=(",", ":"), sort_keys=True).encode()
    return checksum_of_bytes(text).encode() + b"\n" + text


def _history(place: Place) -> str:
    """The last batch that a journal has only a line of."""
    try:
        return _last_line(place.read_bytes())
    except (FileNotFoundError, ValueError, KeyError, IndexError):
        return ""


def _last_line(content: bytes) -> str:
    return f"{json.loads(content.splitlines()[-1])['batch']:09d}"


def _pointer(content: bytes) -> str:
    told = json.loads(content)
    return f"{told['generation']} {told.get('cleared_to', '')}"


_ORDERS: dict[str, Callable[[bytes], str]] = {
    "standing.json": lambda content: f"{micros(from_iso(json.loads(content)['processing_time'])):020d}",
    "history.jsonl": _last_line,
    "_last_checkpoint": lambda content: f"{json.loads(content)['version']:020d}",
    "current.json": _pointer,
    "known": lambda content: f"{int(pl.read_parquet_metadata(BytesIO(content))[NUMBER]):012d}",
}
"""How a file that is replaced says which version it is, by its name: text that sorts as the versions do."""
