"""The audit: record who changed state or events by hand, when and why, in the append-only table `monitoring.edits`."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import polars as pl
import pyarrow as pa

from keyfold.columns import column, required
from keyfold.errors import Misconfigured
from keyfold.lakehouse import Lakehouse, create_table, is_table
from keyfold.lakehouse.commits import append_files, committed_batch
from keyfold.lakehouse.data_files import write_data_file
from keyfold.lakehouse.file_changes import commit_change, forget, prepare_change, rows_with_positions
from keyfold.lakehouse.positions import is_as_remembered, remember_position, remembered
from keyfold.lakehouse.reading import scan_table
from keyfold.stream import TIMESTAMP

EDITS = pa.schema(
    [
        required("at", TIMESTAMP, "When it was done (UTC)"),
        required("who", pa.string(), "Who did it, as they said"),
        required("why", pa.string(), "Why, as they said"),
        required("what", pa.string(), "corrected, removed, quarantined, erased or reprocessed"),
        required("of", pa.string(), "The job, or of events the stream"),
        column("generation", pa.string(), "That is live since, of a job"),
        required(
            "keys",
            pa.string(),
            "Which keys or events, private columns masked; of an erasure, by column the SHA-256 of its values, or the mask",
        ),
        required("rows", pa.string(), "Rows that changed or went, by place, as JSON"),
    ]
)

_APPLICATION = "edits"
_ERASED = "(erased)"


@dataclass(frozen=True)
class Author:
    """The person who makes a change, and the reason.

    Raises:
        KeyfoldError: one of them is empty.
    """

    who: str
    why: str

    def __post_init__(self) -> None:
        for name in ("who", "why"):
            if not getattr(self, name).strip():
                raise Misconfigured(
                    f"--{name} is empty: give a text, since monitoring.edits records who makes a change, and why"
                )


def record_edit(
    lakehouse: Lakehouse,
    author: Author,
    subject: str,
    of: str,
    keys: Sequence[Mapping[str, object]] | Mapping[str, str],
    rows: Mapping[str, int],
    generation: str | None = None,
    at: datetime | None = None,
) -> None:
    """Add an entry to `monitoring.edits`, whose columns say what the arguments are.

    With `at`, nothing is done if there is an entry of that time, so that the call may be repeated.
    """
    table = lakehouse.monitoring("edits")
    # Wait for the lock: other jobs may be committing an entry.
    with table.parent.exclusive("monitoring", patience=timedelta(seconds=30)):
        create_table(table, EDITS)
        if at is not None and scan_table(table).filter(pl.col("at") == at).head(1).collect().height:
            return
        if not remembered(table).exists():
            remember_position(table)
        # The loss of earlier entries must not be hidden by a new one.
        is_whole = is_as_remembered(table)
        entry = {
            "at": at or datetime.now(UTC),
            "who": author.who,
            "why": author.why,
            "what": subject,
            "of": of,
            "generation": generation,
            "keys": json.dumps(keys, default=str),
            "rows": json.dumps(rows),
        }
        frame = pl.DataFrame([entry], schema_overrides={"at": pl.Datetime("us", "UTC"), "generation": pl.String})
        # A transaction needs a number that grows: count in the table, under its lock.
        number = committed_batch(table, _APPLICATION)
        append_files(table, [write_data_file(frame, table, EDITS)], _APPLICATION, 0 if number is None else number + 1)
        if is_whole:
            remember_position(table)


def mask_in_edits(lakehouse: Lakehouse, values: Mapping[str, Sequence[str]], *, yes: bool) -> int:
    """Mask keys in `monitoring.edits` that have one of the values in every named column of the key; returns the number of entries.

    Args:
        values: values by column.
        yes: mask them; without it, only count.
    """
    table = lakehouse.monitoring("edits")
    if not is_table(table):
        return 0

    def mask(keys: str) -> str:
        # The entry of an erasure has a JSON object here, without keys.
        recorded = json.loads(keys) if keys.startswith("[") else []
        hidden = [dict.fromkeys(key, _ERASED) if _has(key, values) else key for key in recorded]
        return keys if hidden == recorded else json.dumps(hidden)

    masked = pl.col("keys").map_elements(mask, pl.String)
    with table.parent.exclusive("monitoring", patience=timedelta(seconds=30)):
        entries = rows_with_positions(table, masked != pl.col("keys"), ())
        if yes:
            if entries.height:
                files = entries["#path"].unique()
                commit_change(table, prepare_change(table, files, lambda rows: rows.with_columns(keys=masked)))
            forget(table)
    return entries.height


def _has(key: Mapping[str, object], values: Mapping[str, Sequence[str]]) -> bool:
    named = [name for name in values if name in key]
    return bool(named) and all(str(key[name]) in values[name] for name in named)


def digest(text: str) -> str:
    """Return the SHA-256 of a text: a person who knows the key can find its entry, but the entry does not reveal the key."""
    return hashlib.sha256(text.encode()).hexdigest()
