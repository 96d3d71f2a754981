"""Who changed state by hand, when and why: a table that only grows, `monitoring.edits`."""

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import polars as pl
import pyarrow as pa

from spark_jobs.columns import column
from spark_jobs.errors import KeyfoldError
from spark_jobs.lakehouse import Lakehouse, create_table, exclusive
from spark_jobs.lakehouse.commits import append_files, committed_batch
from spark_jobs.lakehouse.data_files import write_data_file
from spark_jobs.streams import TIMESTAMP

EDITS = pa.schema(
    [
        column("at", TIMESTAMP, "When it was done (UTC)", nullable=False),
        column("who", pa.string(), "Who did it, as they said", nullable=False),
        column("why", pa.string(), "Why, as they said", nullable=False),
        column("what", pa.string(), "corrected, removed or erased", nullable=False),
        column("of", pa.string(), "The job, or for an erasure the stream", nullable=False),
        column("generation", pa.string(), "That is live since, of a job"),
        column("keys", pa.string(), "Which keys; of an erasure, the SHA-256 of them alone", nullable=False),
        column("rows", pa.string(), "Rows that changed or went, by place, as JSON", nullable=False),
    ]
)

_APPLICATION = "edits"


@dataclass(frozen=True)
class Author:
    """Who changes something, and why; both are asked for.

    Raises:
        KeyfoldError: one of them is empty.
    """

    who: str
    why: str

    def __post_init__(self) -> None:
        for name in ("who", "why"):
            if not getattr(self, name).strip():
                raise KeyfoldError(f"say {name} it is done: that is written down with it (--{name})")


def write_down(
    lakehouse: Lakehouse, author: Author, *, what: str, of: str, generation: str | None, keys: str, rows: str
) -> None:
    """Add an entry to `monitoring.edits`."""
    table = lakehouse.monitoring("edits")
    # Others have it for as long as a commit takes.
    with exclusive(table.parent, "monitoring", patience=timedelta(seconds=30)):
        create_table(table, EDITS)
        entry = {
            "at": datetime.now(UTC),
            "who": author.who,
            "why": author.why,
            "what": what,
            "of": of,
            "generation": generation,
            "keys": keys,
            "rows": rows,
        }
        frame = pl.DataFrame([entry], schema_overrides={"at": pl.Datetime("us", "UTC"), "generation": pl.String})
        # A transaction needs a number that grows; the table itself counts, under its lock.
        number = committed_batch(table, _APPLICATION)
        append_files(table, [write_data_file(frame, table, EDITS)], _APPLICATION, 0 if number is None else number + 1)


def digest(text: str) -> str:
    """The SHA-256 of a text: who knows the key can find its entry, and the entry does not tell the key."""
    return hashlib.sha256(text.encode()).hexdigest()
