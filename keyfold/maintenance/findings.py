"""Collect what is wrong with the files of a lakehouse: the first fault of each, with what to do about it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import polars as pl
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from keyfold.errors import KeyfoldError, first_line
from keyfold.journal import Journal
from keyfold.journal.agreement import check_tables
from keyfold.lakehouse.checksums import checksum_in_name, checksum_of
from keyfold.lakehouse.files import files_below, open_for_reading
from keyfold.lakehouse.positions import check_entry
from keyfold.lakehouse.presence import empty_entries, named_files
from keyfold.lakehouse.reading import parquet_file
from keyfold.storage.place import Place

T = TypeVar("T")


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


class Seen:
    """What a look at files with one remedy has found: the first fault of each file."""

    def __init__(self, remedy: str, *, contents: bool = True) -> None:
        self.remedy, self.contents = remedy, contents
        self.faults: dict[str, Finding] = {}

    def say(self, path: Place | str, what: str, remedy: str = "", *, is_damage: bool = True) -> None:
        """Note a fault."""
        self.faults.setdefault(str(path), Finding(str(path), what, remedy or self.remedy, is_damage))

    @property
    def is_whole(self) -> bool:
        """Whether nothing is damaged so far."""
        return not any(one.is_damage for one in self.faults.values())

    def read_or_note(
        self, path: Place, read: Callable[[], T], what: str = "cannot be read", remedy: str = ""
    ) -> T | None:
        """Return what a function returns; None if it fails, which is noted as a fault of a file."""
        try:
            return read()
        except (KeyfoldError, DeltaError, KeyError, ValueError) as error:
            self.say(path, f"{what} ({first_line(error)})", remedy)
            return None

    def files(
        self, folder: Place, named: Mapping[str, int | None], checksums: Mapping[str, str | None] | None = None
    ) -> None:
        """Read the files in a folder, and check that those that must be there are, with their sizes as far as these are known.

        Args:
            folder: the folder.
            named: the sizes of these files, by path; None if a size is not known.
            checksums: checksums that are not in the files' names.
        """
        present = {file.below: file for file in files_below(folder) if not file.below.startswith("_delta_log/")}
        for below, file in present.items():
            checksum = (checksums or {}).get(below) or checksum_in_name(file.path.name)
            # A file without a checksum that nothing names may be half written.
            if file.path.name.startswith("."):
                continue
            if self.contents and (checksum or below in named):
                self._read(file.path, checksum)
            elif below in named and named[below] is None and below.endswith(".parquet"):
                self._open(file.path)
        for below, size in named.items():
            if below not in present:
                self.say(folder / below, "is gone")
            elif size not in (None, has := present[below].bytes):
                self.say(folder / below, f"has {has:,} bytes, but {size:,} in the table's log")

    def _open(self, path: Place) -> None:
        """Read a file's footer."""
        try:
            with parquet_file(path):
                pass
        except FileNotFoundError:
            return
        except (OSError, pa.ArrowException) as error:
            self.say(path, f"cannot be read ({first_line(error)})")

    def _read(self, path: Place, checksum: str | None) -> None:
        """Compare a file, that may be gone by now, with its checksum; without one, decode it."""
        try:
            if not checksum:
                with parquet_file(path) as opened:
                    for _ in opened.iter_batches():
                        pass
                return
            with open_for_reading(path) as file:
                if checksum_of(file) != checksum:
                    self.say(path, "is damaged (its checksum is another one)")
        except FileNotFoundError:
            return
        except (OSError, ValueError, pa.ArrowException, pl.exceptions.PolarsError) as error:
            self.say(path, f"cannot be read ({first_line(error)})")

    def agree(
        self, journal: Journal[Any, Any], tables: Mapping[str, Place], ids: Mapping[str, str], identity: str, where: str
    ) -> None:
        """Check tables, and that they have the batches of a journal, and no others."""
        for table in tables.values():
            self.table(table)
        if self.is_whole:
            check = partial(check_tables, journal, tables, ids, identity, where, self.remedy)
            self.read_or_note(journal.folder, check, "does not agree with the tables")

    def table(self, table: Place) -> None:
        """Check the log of a table, and all data files in its folder, also those of older versions."""
        log, named = table / "_delta_log", dict[str, int | None]()
        if (delta := self.read_or_note(log, lambda: DeltaTable(str(table)))) is not None:
            for version in empty_entries(table, delta.version()):
                self.say(log / f"{version:020d}.json", "is empty")
            named |= named_files(delta)
        # Delta's library does not read entries that a checkpoint includes, and is lenient with the others.
        for entry in sorted(log.glob("*.json")):
            self.read_or_note(entry, partial(check_entry, entry))
        self.files(table, named)
