"""Collect what is wrong with the files of a lakehouse: the first fault of each file, with what to do about it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from keyfold.errors import KeyfoldError, first_line
from keyfold.journal import Journal
from keyfold.journal.agreement import check_tables
from keyfold.lakehouse.positions import check_entry
from keyfold.lakehouse.presence import empty_entries, named_files
from keyfold.storage.place import Place

T = TypeVar("T")


@dataclass(frozen=True)
class Finding:
    """A fault that a check found.

    Attributes:
        path: the file.
        fault: the rest of a sentence about the file.
        remedy: what to do.
        is_damage: False if nothing is lost, and no run is refused.
    """

    path: str
    fault: str
    remedy: str
    is_damage: bool = True


class Findings:
    """The first fault of each file, of files that have one remedy."""

    def __init__(self, remedy: str) -> None:
        self.remedy = remedy
        self.by_path: dict[str, Finding] = {}

    def add(self, path: Place | str, fault: str, remedy: str = "", *, is_damage: bool = True) -> None:
        """Note a fault, unless the file has one already."""
        self.by_path.setdefault(str(path), Finding(str(path), fault, remedy or self.remedy, is_damage))

    @property
    def is_whole(self) -> bool:
        """Whether nothing is damaged so far."""
        return not any(finding.is_damage for finding in self.by_path.values())

    def read(self, path: Place, read: Callable[[], T], fault: str = "cannot be read") -> T | None:
        """Return what a function returns; None if it fails, which is noted as a fault of a file."""
        try:
            return read()
        except (KeyfoldError, DeltaError, KeyError, ValueError) as error:
            self.add(path, f"{fault} ({first_line(error)})")
            return None

    def files(self, folder: Place, sizes: Mapping[str, int], recorded_in: str) -> None:
        """Check that files are there, with their sizes.

        Args:
            folder: their folder.
            sizes: the size of each in bytes, by its path in the folder.
            recorded_in: what has the sizes, for the fault.
        """
        present = {file.below: file.size for file in folder.files_below()} if sizes else {}
        for below, size in sizes.items():
            if below not in present:
                self.add(folder / below, "is gone")
            elif size != present[below]:
                self.add(folder / below, f"has {present[below]:,} bytes, but {size:,} in {recorded_in}")

    def agree(
        self, journal: Journal[Any, Any], tables: Mapping[str, Place], ids: Mapping[str, str], identity: str, owner: str
    ) -> None:
        """Check tables, and that they have the batches of a journal, and no others."""
        for table in tables.values():
            self.table(table)
        if self.is_whole:
            check = partial(check_tables, journal, tables, ids, identity, owner, self.remedy)
            self.read(journal.folder, check, "does not agree with the tables")

    def table(self, table: Place) -> None:
        """Check the log of a table, and that its data files are there."""
        log = table / "_delta_log"
        if (delta := self.read(log, lambda: DeltaTable(str(table)))) is not None:
            for version in empty_entries(table, delta.version()):
                self.add(log / f"{version:020d}.json", "is empty")
            self.files(table, named_files(delta), "the table's log")
        # Delta's library does not read entries that a checkpoint includes, and is lenient with the others.
        for entry in sorted(log.glob("*.json")):
            self.read(entry, partial(check_entry, entry))
