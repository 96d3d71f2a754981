"""Parquet files wherever they lie: by Polars, and by pyarrow where row groups are looked at one by one."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq

from keyfold.lakehouse.files import open_for_reading
from keyfold.storage.object_path import ObjectPath
from keyfold.storage.place import Place
from keyfold.storage.remote_path import RemotePath


def scan_parquet(files: Place | Sequence[Place], **options: Any) -> pl.LazyFrame:
    """The rows of files, of which a query reads what it needs; options are those of `polars.scan_parquet`."""
    # No pattern: a folder's name may have characters that would be taken for one. And no credentials of Polars' own
    # finding: like all else here it goes by the environment.
    return pl.scan_parquet(_source(files), **{"glob": False, "credential_provider": None, **options})


def scan_rows(file: Place, offset: int, rows: int) -> pl.LazyFrame:
    """Some of the rows of a file, from one on; of the others as little is read as can be."""
    return scan_parquet(file).slice(offset, rows)


def read_parquet(file: Place, **options: Any) -> pl.DataFrame:
    """The rows of a file; options are those of `polars.read_parquet`."""
    return pl.read_parquet(_source(file), **{"glob": False, "credential_provider": None, **options})


@contextmanager
def parquet_file(path: Place) -> Iterator[pq.ParquetFile]:
    """A file, to look at its footer and at single row groups."""
    with open_for_reading(path) as opened, pq.ParquetFile(opened) as file:
        yield file


def _source(files: Place | Sequence[Place]) -> Any:
    return _url(files) if isinstance(files, Path | RemotePath) else [_url(file) for file in files]


def _url(file: Place) -> Any:
    return file.url if isinstance(file, ObjectPath) else file
