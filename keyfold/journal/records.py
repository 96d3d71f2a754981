"""Define what plans and commit records of ingest and keyed jobs share, and the progress of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from pydantic import Field

from keyfold.errors import counted
from keyfold.lakehouse.commits import digest_of
from keyfold.lakehouse.data_files import WrittenFile
from keyfold.validation import Record


class Plan(Record):
    """The plan of a batch: its input and its clock.

    Attributes:
        batch: number of the batch, from 0.
        run: number of the first batch of its run.
        batches: number of batches of its run.
        planned_at: when it was planned (UTC), by this machine's clock; for ingest, the arrival of its events.
    """

    batch: int
    run: int
    batches: int
    planned_at: datetime

    @property
    def amount(self) -> int:
        """Estimated amount of its input, for the progress of a run."""
        return 0

    def describe(self) -> str:
        """Describe the batch's input in a line."""
        return ""


class Done(Record):
    """The commit record of a batch. It has all that later batches need, so that older records can be removed.

    Attributes:
        batch: number of the batch.
        run: number of the first batch of its run.
        finished_at: when the work was finished (UTC).
        seconds: duration of the work.
        tables: the files that it wrote, by table.
        last_written: the newest batch that wrote to each table, this one or an earlier one.
        last_files: digest of the files of that batch, by table.
    """

    batch: int
    run: int
    finished_at: datetime
    seconds: float
    tables: dict[str, tuple[WrittenFile, ...]]
    last_written: dict[str, int]
    last_files: dict[str, int] = Field(default_factory=dict)

    def describe(self) -> str:
        """Describe the batch's results in a line."""
        return ", ".join(
            f"{counted(sum(file.rows for file in files), 'row')} of {name}" for name, files in self.tables.items()
        )


def written_after(
    before: Done | None, batch: int, tables: Mapping[str, Sequence[WrittenFile]]
) -> tuple[dict[str, int], dict[str, int]]:
    """Return `last_written` and `last_files` of a commit record: a batch without rows of a table makes no commit to it.

    Args:
        before: the record before it.
        batch: its number.
        tables: the files of the tables that it commits to.
    """
    last_written, last_files = (before.last_written, before.last_files) if before else ({}, {})
    digests = {name: digest_of(files) for name, files in tables.items()}
    return last_written | dict.fromkeys(tables, batch), last_files | digests


@dataclass(frozen=True)
class Progress:
    """The progress of a run after a batch.

    Attributes:
        batch: number of the committed batch, from 1.
        batches: number of batches that this run found or planned.
        done, total: amount that was read, and that is read by all batches that this run found or planned.
        unit: unit of the amounts: "bytes" or "rows".
        seconds_left: estimate from the pace so far; None if there is none.
    """

    batch: int
    batches: int
    done: int
    total: int
    unit: str
    seconds_left: float | None = None

    @property
    def share(self) -> float:
        """The share that is done, 0 to 1."""
        return self.done / self.total if self.total else 1.0

    def describe(self) -> str:
        """Describe the progress in a line."""
        left = "" if self.seconds_left is None else f", about {self.seconds_left:,.0f} s left"
        return f"batch {self.batch} of {self.batches}, {self.share:.0%} of {self.total:,} {self.unit}{left}"
