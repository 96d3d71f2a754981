"""Read Delta tables without a JVM: counts, scans and previews."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import polars as pl
import pyarrow as pa
from deltalake import DeltaTable

from keyfold.lakehouse.paths import Lakehouse
from keyfold.storage.place import Place, to_place
from keyfold.times import ISO_FORMAT

if TYPE_CHECKING:
    import pyarrow.parquet as pq


def count_rows(path: Place, version: int | None = None) -> int:
    """Return the number of rows of a Delta table, now or at a version, from its log alone."""
    return DeltaTable(str(path), version=version).count()


def data_file_paths(path: Place, version: int | None = None) -> list[Place]:
    """Return the data files of a Delta table, now or at a version."""
    # Not `file_uris`: it leaves a blank in the table's own path as %20.
    return [
        path / unquote(name) for name in DeltaTable(str(path), version=version).get_add_actions()["path"].to_pylist()
    ]


def read_table(lakehouse: Lakehouse, name: str) -> pl.LazyFrame:
    """Return the rows of a table, to read lazily with Polars.

    Args:
        lakehouse: the lakehouse.
        name: name of the table: `ride_summaries`, `late.ride_summaries`, `events.ride_points`.

    Raises:
        NotFound: there is no such table; lists those that there are.

    Example:
        >>> import keyfold
        >>> keyfold.read_table(keyfold.Lakehouse("no-such-folder"), "rides")
        Traceback (most recent call last):
        keyfold.errors.NotFound: no table 'rides' in ...no-such-folder; tables there: none yet
    """
    return scan_table(lakehouse.table(name))


def scan_table(path: Path | Place | str) -> pl.LazyFrame:
    """Scan a Delta table lazily, such as `lakehouse.table("visits")` or `lakehouse.events("clicks")`.

    Example:
        >>> from tempfile import mkdtemp
        >>> from deltalake import write_deltalake
        >>> folder = mkdtemp()
        >>> write_deltalake(folder, pl.DataFrame({"user": ["ann"]}).to_arrow())
        >>> scan_table(folder).collect().rows()
        [('ann',)]
    """
    table = to_place(path)
    return scan_files(table, data_file_paths(table))


def scan_files(path: Place, files: Sequence[Place]) -> pl.LazyFrame:
    """Scan some files of a Delta table lazily, with the table's columns."""
    return scan_in_columns(files, DeltaTable(str(path)).to_pyarrow_dataset().schema)


def scan_in_columns(files: Sequence[Place], schema: pa.Schema) -> pl.LazyFrame:
    """Scan data files lazily with the given columns; a column that a file lacks is NULL."""
    # Not Polars' `scan_delta`: it does not find the files if the table's path has a character that URLs escape.
    empty = pl.from_arrow(schema.empty_table())
    assert isinstance(empty, pl.DataFrame)  # noqa: S101 - narrows from_arrow's union of frame and series
    if not files:
        return empty.lazy()
    return scan_parquet(
        files,
        schema=empty.schema,
        # Files that are older than a column lack it.
        missing_columns="insert",
        extra_columns="ignore",
        # Spark writes nanoseconds by default; Delta tables have microseconds in UTC.
        cast_options=pl.ScanCastOptions(datetime_cast=["nanosecond-downcast", "convert-timezone"]),
    )


def read_batches(
    path: Place, limit: int | None = None, condition: Callable[[pl.DataFrame], pl.DataFrame] | None = None
) -> Iterator[pl.DataFrame]:
    """Read a Delta table in frames of bounded size, at most `limit` rows in all.

    Args:
        path: an existing Delta table.
        limit: None for all rows.
        condition: returns those rows of a frame that count.
    """
    left = limit
    for batch in DeltaTable(str(path)).to_pyarrow_dataset().to_batches():
        frame = pl.from_arrow(batch)
        if not isinstance(frame, pl.DataFrame) or not frame.height:
            continue
        if condition is not None and not (frame := condition(frame)).height:
            continue
        if left is not None:
            frame = frame.head(left)
            left -= frame.height
        yield frame
        if left == 0:
            return


def readable(frame: pl.DataFrame) -> pl.DataFrame:
    """Convert columns of times to ISO 8601 text in UTC with microseconds."""
    times = [name for name, kind in frame.schema.items() if isinstance(kind, pl.Datetime)]
    return frame.with_columns(pl.col(name).dt.convert_time_zone("UTC").dt.strftime(ISO_FORMAT) for name in times)


def scan_parquet(files: Place | Sequence[Place], **options: Any) -> pl.LazyFrame:
    """Scan files lazily; options are those of `polars.scan_parquet`."""
    # No glob: folder names may contain its special characters. No credential provider of Polars: credentials come from the
    # environment, as everywhere in Keyfold.
    return pl.scan_parquet(_source(files), **{"glob": False, "credential_provider": None, **options})


def scan_rows(file: Place, offset: int, rows: int) -> pl.LazyFrame:
    """Scan `rows` rows of a file from `offset` on. Few of the other rows are read."""
    return scan_parquet(file).slice(offset, rows)


def read_parquet(file: Place, **options: Any) -> pl.DataFrame:
    """Read all rows of a file; options are those of `polars.read_parquet`."""
    return pl.read_parquet(_source(file), **{"glob": False, "credential_provider": None, **options})


@contextmanager
def parquet_file(path: Place) -> Iterator["pq.ParquetFile"]:
    """Open a file for reading its footer and single row groups."""
    import pyarrow.parquet as pq  # noqa: PLC0415 - takes 0.1 s

    with path.open_for_reading() as opened, pq.ParquetFile(opened) as file:
        yield file


def _source(files: Place | Sequence[Place]) -> Any:
    return [file.as_source() for file in files] if isinstance(files, Sequence) else files.as_source()
