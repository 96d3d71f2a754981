"""Check a Delta table for damage: its log is complete and readable, and its data files match their checksums."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import polars as pl
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from keyfold.errors import first_line
from keyfold.lakehouse.checksums import checksum_in_name, checksum_of
from keyfold.lakehouse.files import files_below, open_for_reading
from keyfold.lakehouse.presence import absent_files, named_files
from keyfold.lakehouse.reading import parquet_file
from keyfold.storage.place import Place, path_below

_ENTRY = re.compile(r"^(\d{20})\.json$")
_CHECKPOINT = re.compile(r"^(\d{20})\.checkpoint\b.*\.parquet$")


@dataclass(frozen=True)
class Finding:
    """A fault that a check found.

    Attributes:
        path: the file.
        what: what is wrong with it, as the rest of a sentence.
        remedy: what to do.
        is_damage: False if the file could not be verified, and may be intact.
    """

    path: str
    what: str
    remedy: str
    is_damage: bool = True


@dataclass(frozen=True)
class Seen:
    """The data files that were read, with their sizes in bytes."""

    files: dict[str, int] = field(default_factory=dict)


def findings_of_table(table: Place, remedy: str, seen: Seen) -> Iterator[Finding]:
    """Check a table: read its log and all data files in its folder, also those of older versions.

    Args:
        table: the table's folder.
        remedy: what to do about a damaged file.
        seen: records the files that were read.
    """
    faults = list(_of_log(table / "_delta_log", remedy))
    yield from faults
    named: dict[str, int] = {}
    if not faults:
        try:
            delta = DeltaTable(str(table))
            named = named_files(delta)
            absent = absent_files(table, delta)
        except DeltaError as error:
            yield Finding(str(table / "_delta_log"), f"cannot be read ({first_line(error)})", remedy)
            absent = {}
        for path, what in absent.items():
            yield Finding(str(table / path), what, remedy)
    for found in files_below(table):
        below = path_below(found.path, table)
        if below is None or below.parts[0] == "_delta_log" or found.path.name.startswith("."):
            continue
        checksum = checksum_in_name(found.path.name)
        # A file without a checksum that the table does not name may be half written.
        if checksum is None and below.as_posix() not in named:
            continue
        seen.files[str(found.path)] = found.bytes
        try:
            what = _fault_of_rows(found.path) if checksum is None else _fault_of_content(found.path, checksum)
        except FileNotFoundError:
            continue  # it was deleted since it was listed
        if what:
            yield Finding(str(found.path), what, remedy)


def _of_log(log: Place, remedy: str) -> Iterator[Finding]:
    names = [path.name for path in log.iterdir()] if log.is_dir() else []
    entries = {int(found[1]) for name in names if (found := _ENTRY.match(name))}
    checkpoints = {int(found[1]) for name in names if (found := _CHECKPOINT.match(name))}
    if not entries and not checkpoints:
        yield Finding(str(log), "is gone", remedy)
        return
    newest = max(checkpoints, default=-1)
    # Entries before the newest checkpoint may have been cleaned up.
    for version in range(newest + 1, max(entries, default=newest) + 1):
        path = log / f"{version:020d}.json"
        if version not in entries:
            yield Finding(str(path), "is gone, but the log has later entries", remedy)
        elif not _is_entry(path):
            yield Finding(str(path), "is empty or incomplete", remedy)
    for version in sorted(checkpoints):
        for name in names:
            if name.startswith(f"{version:020d}.checkpoint") and (what := _fault_of_rows(log / name)):
                yield Finding(str(log / name), what, remedy)
    pointer = log / "_last_checkpoint"
    if "_last_checkpoint" in names and not _is_pointer(pointer):
        yield Finding(str(pointer), "cannot be read", f"remove it (Delta finds checkpoints without it), or {remedy}")


def _is_entry(path: Place) -> bool:
    """Whether an entry has at least one line, and a JSON object in each."""
    try:
        lines = path.read_bytes().splitlines()
        return bool(lines) and all(isinstance(json.loads(line), dict) for line in lines)
    except ValueError:
        return False


def _is_pointer(path: Place) -> bool:
    try:
        return isinstance(json.loads(path.read_bytes())["version"], int)
    except (ValueError, KeyError, TypeError):
        return False


def _fault_of_content(path: Place, checksum: str) -> str | None:
    with open_for_reading(path) as file:
        found = checksum_of(file)
    return None if found == checksum else "is damaged (its checksum is wrong)"


def _fault_of_rows(path: Place) -> str | None:
    """The fault of a Parquet file without a checksum, which is found by reading all of it."""
    try:
        with parquet_file(path) as file:
            for _ in file.iter_batches():
                pass
    except FileNotFoundError:
        raise
    except (OSError, ValueError, pa.ArrowException, pl.exceptions.PolarsError) as error:
        return f"cannot be read ({first_line(error)})"
    return None
