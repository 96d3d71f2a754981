"""The counts of what was ingested, and the ledger that keeps them in step with the tables.

SOURCE/source.json            the landing folder, the checkpoint's name in Delta, totals of earlier checkpoints
SOURCE/admitted/              links to the files that are whole, which is what Spark lists
SOURCE/pending.json           counts of a batch about to be committed
SOURCE/batches/<id>.json      counts of a committed batch, and the totals up to it

A batch's counts are written down before its rows are, and made final after. A run that finds pending counts asks the
event table whether the rows got in: if they did, the counts are final; if not, the batch runs again.
"""

import os
import shutil
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from spark_jobs.lakehouse import Lakehouse, read_json, write_json
from spark_jobs.streams import Stream

KEPT = 100
"""How many batches' counts are kept; the totals are in each of them."""


@dataclass(frozen=True)
class Counts:
    """Files and rows; `rows_read` = `accepted` + `quarantined` + `duplicates`, always.

    A file that is rejected as a whole counts as one row read and one quarantined.
    """

    files: int = 0
    rows_read: int = 0
    accepted: int = 0
    quarantined: int = 0
    duplicates: int = 0

    def __add__(self, other: Self) -> "Counts":
        return Counts(**{name: value + getattr(other, name) for name, value in asdict(self).items()})


def ingest_totals(lakehouse: Lakehouse, stream: Stream | str) -> Counts:
    """The counts over all runs and all sources of a stream."""
    name = stream if isinstance(stream, str) else stream.name
    totals = Counts()
    for source in sorted(lakehouse.ingest(name).glob("*/source.json")):
        totals += Ledger(source.parent).totals()
    return totals


class Ledger:
    """The counts of one source; one run at a time may write to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.checkpoint = folder / "checkpoint"
        self.links = folder / "admitted"
        self._source = folder / "source.json"
        self._pending = folder / "pending.json"
        self._batches = folder / "batches"

    def open(self, landing: Path, committed: Callable[[str, int], bool]) -> Counts:
        """Settle what a killed run left, and give a new checkpoint a new name.

        A new checkpoint counts its batches from 0 again. Under the old name Delta would take them for replays and
        skip their rows without a word.

        Args:
            landing: the folder that the source reads.
            committed: tells whether the rows of a (checkpoint name, batch id) are in the event table.

        Returns:
            The counts that were made final here.
        """
        settled = Counts()
        if self._pending.exists():
            pending = read_json(self._pending)
            if committed(pending["checkpoint"], pending["batch"]):
                settled = Counts(**pending["counts"])
                self.settle(pending["batch"])
            else:
                self._pending.unlink()
        if not (self.checkpoint / "metadata").exists():
            carried = asdict(self.totals())
            source = {"landing": str(landing), "checkpoint": str(uuid.uuid4()), "carried": carried, "admits": True}
            write_json(self._source, source)
            shutil.rmtree(self._batches, ignore_errors=True)
        return settled

    def admits(self) -> bool:
        """Whether the checkpoint knows files by their links; one made before there were any knows the files themselves."""
        return read_json(self._source).get("admits", False)

    def name(self) -> str:
        """What Delta knows this source's checkpoint by."""
        return read_json(self._source)["checkpoint"]

    def totals(self) -> Counts:
        """The counts over all committed batches."""
        latest = max(self._ids(), default=None)
        if latest is not None:
            return Counts(**read_json(self._batches / f"{latest}.json")["totals"])
        return Counts(**read_json(self._source)["carried"]) if self._source.exists() else Counts()

    def is_final(self, batch: int) -> bool:
        """Whether a batch is committed and counted."""
        return (self._batches / f"{batch}.json").exists()

    def write_ahead(self, batch: int, counts: Counts) -> None:
        """Write a batch's counts down before its rows are committed."""
        totals = self.totals() + counts
        record: dict[str, Any] = {"batch": batch, "checkpoint": self.name()}
        write_json(self._pending, record | {"counts": asdict(counts), "totals": asdict(totals)})

    def settle(self, batch: int) -> None:
        """Make a batch's counts final, in one atomic step, and forget those long past."""
        self._batches.mkdir(exist_ok=True)
        os.replace(self._pending, self._batches / f"{batch}.json")
        for old in sorted(self._ids())[:-KEPT]:
            (self._batches / f"{old}.json").unlink()

    def _ids(self) -> list[int]:
        return [int(path.stem) for path in self._batches.glob("*.json") if path.stem.isdigit()]
