"""Whether a Delta table is whole: its log has no gap and can be read, and its data files hold what was written to them."""

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
from keyfold.lakehouse.parquet import parquet_file
from keyfold.lakehouse.presence import absent_files, named_files
from keyfold.storage.place import Place, path_below

_ENTRY = re.compile(r"^(\d{20})\.json$")
_CHECKPOINT = re.compile(r"^(\d{20})\.checkpoint\b.*\.parquet$")


@dataclass(frozen=True)
class Finding:
    """Something that is wrong.

    Attributes:
        path: of the file.
        what: is wrong with it, for people.
        remedy: what to do.
        is_damage: False of what could not be verified, and may be well.
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
    """What is wrong with a table; reads its log and every data file below it, those of older versions too.

    Args:
        table: its folder.
        remedy: what to do with a damaged file.
        seen: takes note of what was read.
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
        # Without a checksum, and in no version: perhaps half written.
        if checksum is None and below.as_posix() not in named:
            continue
        seen.files[str(found.path)] = found.bytes
        try:
            what = _fault_of_rows(found.path) if checksum is None else _fault_of_content(found.path, checksum)
        except FileNotFoundError:
            continue  # it was listed, and is replaced by now
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
    # Behind the newest checkpoint entries may be cleaned up.
    for version in range(newest + 1, max(entries, default=newest) + 1):
        path = log / f"{version:020d}.json"
        if version not in entries:
            yield Finding(str(path), "is gone, and later entries of the log are there", remedy)
        elif not _is_entry(path):
            yield Finding(str(path), "is empty or torn", remedy)
    for version in sorted(checkpoints):
        for name in names:
            if name.startswith(f"{version:020d}.checkpoint") and (what := _fault_of_rows(log / name)):
                yield Finding(str(log / name), what, remedy)
    pointer = log / "_last_checkpoint"
    if "_last_checkpoint" in names and not _is_pointer(pointer):
        yield Finding(str(pointer), "cannot be read", f"remove it (Delta finds checkpoints without it), or {remedy}")


def _is_entry(path: Place) -> bool:
    """Whether an entry has a JSON object in each line, and one at least."""
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
    return None if found == checksum else "is not what was written (its checksum is another one)"


def _fault_of_rows(path: Place) -> str | None:
    """What is wrong with a Parquet file that says no checksum: all of it is read."""
    try:
        with parquet_file(path) as file:
            for _ in file.iter_batches():
                pass
    except FileNotFoundError:
        raise
    except (OSError, ValueError, pa.ArrowException, pl.exceptions.PolarsError) as error:
        return f"cannot be read ({first_line(error)})"
    return None
