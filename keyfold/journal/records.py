"""The two records of a batch, as far as they are the same for ingest and for keyed jobs."""

from datetime import datetime

from pydantic import BaseModel, ConfigDict

from keyfold.lakehouse.data_files import WrittenFile


class Record(BaseModel):
    """A record of the journal: read as it was written, or refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Plan(Record):
    """What a batch reads, and at what time.

    Attributes:
        batch: its number, from 0.
        run: the number of the first batch of the run that it was planned in.
        batches: how many batches that run planned.
        planned_at: when (UTC), by this machine's clock; the time of admission of what it reads.
    """

    batch: int
    run: int
    batches: int
    planned_at: datetime

    def describe(self) -> str:
        """What the batch reads, in a line for people."""
        return ""


class Done(Record):
    """What a batch made; says all that later batches and the tables need to know, so that older records may go.

    Attributes:
        batch: its number.
        run: the number of the first batch of its run.
        finished_at: when the work was done (UTC).
        seconds: from the start of the batch's work until then.
        tables: the files it wrote, by table.
        last_written: per table the newest batch that wrote to it, this one or an earlier one.
        last_files: per table the digest of the files of that batch, where this or a later Keyfold wrote it.
    """

    batch: int
    run: int
    finished_at: datetime
    seconds: float
    tables: dict[str, tuple[WrittenFile, ...]]
    last_written: dict[str, int]
    last_files: dict[str, int] = {}

    def describe(self) -> str:
        """What came of the batch, in a line for people."""
        return ", ".join(f"{sum(file.rows for file in files):,} rows of {name}" for name, files in self.tables.items())
