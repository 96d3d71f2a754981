"""Read Parquet files from a disk or a bucket: with Polars, or with pyarrow for single row groups."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import polars as pl

from keyfold.lakehouse.files import open_for_reading
from keyfold.storage.place import Place, as_source

if TYPE_CHECKING:
    import pyarrow.parquet as pq


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

    with open_for_reading(path) as opened, pq.ParquetFile(opened) as file:
        yield file


def _source(files: Place | Sequence[Place]) -> Any:
    return [as_source(file) for file in files] if isinstance(files, Sequence) else as_source(files)
