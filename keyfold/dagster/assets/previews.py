"""Build previews of a few rows of a table or of a job's open state for Dagster, as text and without private values.

Previews are tables, not Markdown: in Markdown, Dagster would fetch images and make links from the data.
"""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime

import dagster as dg
import polars as pl
import pyarrow as pa

from keyfold.errors import KeyfoldError
from keyfold.keyed.generation.generations import live_generation
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.step import DEADLINE, PROCESSING_DEADLINE
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.reading import count_rows, read_batches, scan_table
from keyfold.privacy import MASK, masked
from keyfold.state.reading.reader import read_state
from keyfold.state.rows.lines import json_lines
from keyfold.storage.place import Place
from keyfold.stream import Stream

ROWS = 10
_LONGEST_CELL = 20
"""Rows of ten columns fit a page; a longer id is cut."""
_LONGEST_LINE = 60
"""Of a quarantined line, and its reason."""
_EVENTS, _DUE = "__events", "__due"

_UNBROKEN = str.maketrans({" ": "\u00a0", "-": "\u2011"})
"""A page breaks a line at a space or hyphen, where it is narrow. Texts keep theirs: who copies an id must get the id."""

MOST_BYTES = 64 << 20
"""Larger states are not read for metadata: it would delay every run."""


def preview(path: Place, private: Collection[str] = ()) -> dg.MetadataValue:
    """Return at most ten rows of a Delta table.

    Args:
        path: the table's path.
        private: columns whose values are masked.
    """
    return _table_of(masked(_first_rows(path), private))


def explain_metadata(lakehouse: Lakehouse, job: KeyedJob) -> dict[str, dg.MetadataValue]:
    """Return the command that explains the first row of a job's main table; nothing where its key is private, or not in the table."""
    schema = job.main.schema
    if not set(job.key) <= set(schema.names) - job.private_of(schema):
        return {}
    first = _first_rows(lakehouse.table(job.name)).head(1)
    if first.is_empty():
        return {}
    rows = first.select(job.key)
    value = rows.item() if len(job.key) == 1 else None
    key = value if isinstance(value, str) else json_lines(rows)[0]
    return {"explain": dg.MetadataValue.text(lakehouse.command("explain", job.name, key))}


def quarantine_metadata(path: Place, stream: Stream) -> dict[str, dg.MetadataValue]:
    """Return how many rows of a stream's quarantine have each reason, most first, and the newest ten rows.

    If the stream has private columns, the raw line and the values in reasons are masked: a line that could not be parsed may
    contain private values anywhere, and a reason quotes the wrong value after a colon.
    """
    table = scan_table(path)
    newest = table.top_k(ROWS, by="batch").select("reason", pl.col("file").str.split("/").list.last(), "line", "raw")
    rows = newest.collect(engine="streaming")
    if stream.private and rows.height:
        rows = masked(rows, {"raw"}).with_columns(pl.col("reason").str.replace(r"(?s): .*", f": {MASK}"))
    return {
        "reasons": _table_of(reasons_of(table).head(ROWS), _LONGEST_LINE),
        "preview": _table_of(rows, _LONGEST_LINE),
    }


def late_metadata(lakehouse: Lakehouse, job: KeyedJob) -> dict[str, dg.MetadataValue]:
    """Return how many late events a job has, and ten of them; private columns are masked."""
    if job.late_table not in lakehouse.tables():
        return {}
    path = lakehouse.table(job.late_table)
    (late,) = (table for table in job.tables if table.name == job.late_table)
    return {
        "late_rows": dg.MetadataValue.text(f"{count_rows(path):,}"),
        "late": preview(path, job.private_of(late.schema)),
    }


def reasons_of(quarantined: pl.LazyFrame) -> pl.DataFrame:
    """Count quarantined rows by `reason`, without the value that a reason quotes after a colon; most `rows` first."""
    reason = pl.col("reason").str.split(": ").list.first()
    counts = quarantined.group_by(reason).agg(rows=pl.len()).sort("rows", "reason", descending=[True, False])
    return counts.collect(engine="streaming")


def open_state_metadata(
    log: dg.DagsterLogManager, lakehouse: Lakehouse, job: KeyedJob
) -> Mapping[str, dg.MetadataValue]:
    """Read a job's state after its last batch, and return its metadata.

    Returns:
        `open_state_rows`, `open_state_keys`, `open_state_oldest` (UTC, the earliest event time in the state; missing if it has
        none) and `open_state` (ten rows; private columns are masked). For a state of more than 64 MiB, only its size. Nothing
        if the job has no state yet, or if it cannot be read: the tables are written, so this only warns.
    """
    live = live_generation(lakehouse, job.name)
    record = live.journal.last_done() if live else None
    if record is None:
        return {}
    if record.state_bytes > MOST_BYTES:
        size = f"{record.state_bytes >> 20:,} MiB: `keyfold state stats {job.name}` reads it"
        return {"open_state": dg.MetadataValue.text(size)}
    timers = [name for name in (DEADLINE, PROCESSING_DEADLINE) if name in job.state.schema.names]
    times = [field.name for field in job.state.schema if pa.types.is_timestamp(field.type) and field.name not in timers]
    rows, keys, first, oldest = 0, 0, pl.DataFrame(), list[object]()
    try:
        # A frame has all rows of its keys.
        for frame in read_state(lakehouse, job).frames():
            open_rows = _of_open_keys(frame, job)
            rows, keys = rows + open_rows.height, keys + open_rows.select(job.key).n_unique()
            oldest += [earliest for name in times if (earliest := open_rows[name].min()) is not None]
            # All rows of the keys that are due first.
            due = pl.min_horizontal(timers).min().over(job.key) if timers else pl.lit(None)
            open_rows = open_rows.with_columns(due.alias(_DUE))
            first = pl.concat([first, open_rows] if first.width else [open_rows])
            first = first.sort(_DUE, *job.key, nulls_last=True, maintain_order=True).head(ROWS)
    except KeyfoldError as error:
        log.warning(f"the open state of {job.name} cannot be shown: {error}")
        return {}
    columns = [*job.key, *timers]
    first = first.select(*columns, pl.exclude(*columns, _DUE)) if first.width else first
    return {
        "open_state_rows": dg.MetadataValue.text(f"{rows:,}"),
        "open_state_keys": dg.MetadataValue.text(f"{keys:,}"),
        **({"open_state_oldest": dg.MetadataValue.text(_time(min(oldest)))} if oldest else {}),  # pyright: ignore
        "open_state": _table_of(masked(first, job.private_of(job.state.schema) & {*first.columns})),
    }


def _of_open_keys(frame: pl.DataFrame, job: KeyedJob) -> pl.DataFrame:
    """Return the rows of keys with events that are in no output row yet; others are markers, such as those of ended sessions."""
    counted = frame.group_by(job.key).agg(job.state.events.alias(_EVENTS))
    return frame.join(counted.filter(pl.col(_EVENTS) > 0), on=job.key, how="semi", nulls_equal=True)


def _first_rows(path: Place) -> pl.DataFrame:
    frames = list(read_batches(path, ROWS))
    return pl.concat(frames) if frames else pl.DataFrame()


def _table_of(rows: pl.DataFrame, longest: int = _LONGEST_CELL) -> dg.MetadataValue:
    if not rows.height:
        return dg.MetadataValue.text("no rows")
    records = [
        dg.TableRecord({name: _cell(value, longest) for name, value in row.items()})
        for row in rows.iter_rows(named=True)
    ]
    return dg.MetadataValue.table(records, dg.TableSchema([dg.TableColumn(name) for name in rows.columns]))


def _cell(value: object, longest: int) -> str:
    if isinstance(value, datetime):
        return _time(value).translate(_UNBROKEN)
    text = "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _time(moment: datetime) -> str:
    """Return a time in UTC, to the second."""
    in_utc = moment.astimezone(UTC) if moment.tzinfo else moment
    return f"{in_utc:%Y-%m-%d %H:%M:%S}"
