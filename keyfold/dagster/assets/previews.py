"""Build previews of a few rows of a table for Dagster, as text and without private values.

Previews are tables, not Markdown: in Markdown, Dagster would fetch images and make links from the data.
"""

from collections.abc import Collection

import dagster as dg
import polars as pl

from keyfold.lakehouse.reading import read_batches, readable
from keyfold.privacy import MASK, masked
from keyfold.storage.place import Place
from keyfold.stream import Stream

ROWS = 10
_LONGEST_CELL = 60


def preview(path: Place, private: Collection[str] = ()) -> dg.MetadataValue:
    """Return at most ten rows of a Delta table.

    Args:
        path: the table's path.
        private: columns whose values are masked.
    """
    return _shown(masked(_first_rows(path), private))


def preview_rows(rows: pl.DataFrame, private: Collection[str] = ()) -> dg.MetadataValue:
    """Return at most ten rows of a frame, with private columns masked."""
    return _shown(masked(readable(rows.head(ROWS)), set(private) & set(rows.columns)))


def preview_quarantine(path: Place, stream: Stream) -> dg.MetadataValue:
    """Return at most ten rows of a stream's quarantine.

    If the stream has private columns, the raw line and the values in reasons are masked: a line that could not be parsed may
    contain private values anywhere, and a reason quotes the wrong value after a colon.
    """
    rows = _first_rows(path)
    if stream.private and rows.height:
        rows = masked(rows, {"raw"}).with_columns(pl.col("reason").str.replace(r"(?s): .*", f": {MASK}"))
    return _shown(rows)


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
