"""Reads of Delta tables without a JVM: counts and previews."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import polars as pl
from deltalake import DeltaTable

from spark_jobs.times import ISO_FORMAT


def count_rows(path: Path) -> int:
    """The number of rows of a Delta table, from its log alone."""
    return DeltaTable(str(path)).count()


def data_file_paths(path: Path) -> list[Path]:
    """The data files that a Delta table consists of now."""
    # Not `file_uris`: paths in the log are URLs, and that one leaves a blank in the table's own path as %20.
    return [path / unquote(name) for name in DeltaTable(str(path)).get_add_actions()["path"].to_pylist()]


def read_batches(path: Path, limit: int | None = None) -> Iterator[pl.DataFrame]:
    """The rows of a Delta table in frames of bounded size, at most `limit` rows in all."""
    left = limit
    for batch in DeltaTable(str(path)).to_pyarrow_dataset().to_batches():
        frame = pl.from_arrow(batch)
        if not isinstance(frame, pl.DataFrame) or not frame.height:
            continue
        if left is not None:
            frame = frame.head(left)
            left -= frame.height
        yield frame
        if left == 0:
            return


def readable(frame: pl.DataFrame) -> pl.DataFrame:
    """Times as ISO 8601 text in UTC with microseconds."""
    times = [name for name, kind in frame.schema.items() if isinstance(kind, pl.Datetime)]
    return frame.with_columns(pl.col(name).dt.convert_time_zone("UTC").dt.strftime(ISO_FORMAT) for name in times)
