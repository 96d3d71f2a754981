"""Build previews of a few rows of a table or of a job's open state for Dagster, as text and without private values.

Previews are tables, not Markdown: in Markdown, Dagster would fetch images and make links from the data.
"""

from collections.abc import Collection, Mapping

import dagster as dg
import polars as pl
import pyarrow as pa

from keyfold.errors import KeyfoldError
from keyfold.keyed.generation.generations import live_generation
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.step import DEADLINE, PROCESSING_DEADLINE
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.reading import read_batches, readable, scan_table
from keyfold.privacy import MASK, masked
from keyfold.state.reading.reader import read_state
from keyfold.storage.place import Place
from keyfold.stream import Stream

ROWS = 10
_LONGEST_CELL = 60

MOST_BYTES = 64 << 20
"""Larger states are not read for metadata: it would delay every run."""


def preview(path: Place, private: Collection[str] = ()) -> dg.MetadataValue:
    """Return at most ten rows of a Delta table.

    Args:
        path: the table's path.
        private: columns whose values are masked.
    """
    return _shown(masked(_first_rows(path), private))


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
    return {"reasons": _shown(reasons_of(table).head(ROWS)), "preview": _shown(rows)}


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
    done = live.journal.last_done() if live else None
    if done is None:
        return {}
    if done.state_bytes > MOST_BYTES:
        size = f"{done.state_bytes >> 20:,} MiB: `keyfold state stats {job.name}` reads it"
        return {"open_state": dg.MetadataValue.text(size)}
    timers = (DEADLINE, PROCESSING_DEADLINE)
    times = [one.name for one in job.state.schema if pa.types.is_timestamp(one.type) and one.name not in timers]
    rows, keys, first, oldest = 0, 0, list[pl.DataFrame](), list[object]()
    try:
        # A frame has all rows of its keys.
        for frame in read_state(lakehouse, job).frames():
            rows, keys = rows + frame.height, keys + frame.select(job.key).n_unique()
            oldest += [least for name in times if (least := frame[name].min()) is not None]
            if sum(one.height for one in first) < ROWS:
                first.append(frame.head(ROWS))
    except KeyfoldError as error:
        log.warning(f"the open state of {job.name} cannot be shown: {error}")
        return {}
    shown = pl.concat(first) if first else pl.DataFrame()
    return {
        "open_state_rows": dg.MetadataValue.int(rows),
        "open_state_keys": dg.MetadataValue.int(keys),
        **({"open_state_oldest": dg.MetadataValue.timestamp(min(oldest))} if oldest else {}),  # pyright: ignore
        "open_state": _shown(masked(readable(shown.head(ROWS)), job.private_of(job.state.schema) & {*shown.columns})),
    }


def _first_rows(path: Place) -> pl.DataFrame:
    frames = [readable(frame) for frame in read_batches(path, ROWS)]
    return pl.concat(frames) if frames else pl.DataFrame()


def _shown(rows: pl.DataFrame) -> dg.MetadataValue:
    if not rows.height:
        return dg.MetadataValue.text("no rows")
    records = [
        dg.TableRecord({name: _cell(value) for name, value in row.items()}) for row in rows.iter_rows(named=True)
    ]
    return dg.MetadataValue.table(records, dg.TableSchema([dg.TableColumn(name) for name in rows.columns]))


def _cell(value: object) -> str:
    text = "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _LONGEST_CELL else f"{text[: _LONGEST_CELL - 1]}…"
