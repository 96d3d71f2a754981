"""Check files of others: Delta tables name none outside their folder, and INT96 times fit microseconds."""

import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable
from pyarrow import types

from keyfold.errors import KeyfoldError
from keyfold.storage.place import Place, path_below
from keyfold.times import nanoseconds_beyond

if TYPE_CHECKING:
    import pyarrow.parquet as pq


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def check_files_are_inside(table: Place) -> DeltaTable:
    """Open a Delta table after checking that all its data files are below its folder.

    Raises:
        KeyfoldError: its log names a file elsewhere: by an absolute path (as a shallow clone does), by `..`, or by a link.
    """
    delta = DeltaTable(str(table))
    names = delta.get_add_actions()["path"].to_pylist()
    # Paths in a log are URLs: %2e%2e means .. too.
    leads_out = next((name for name in names if _leads_out(unquote(name))), None)
    if leads_out is not None:
        raise _refusal(table, leads_out)
    check_no_link_leads_out(table, (table / unquote(name) for name in names))
    return delta


def check_no_link_leads_out(folder: Place, files: Iterable[Place]) -> None:
    """Check that files of a folder are inside it after links are resolved.

    Raises:
        KeyfoldError: a file is outside.
    """
    # Buckets have no links that leave a folder.
    if folder.local_path is None:
        return
    root = folder.resolve()
    for file in files:
        if path_below(file.resolve(), root) is None:
            raise _refusal(folder, str(file))


def _leads_out(name: str) -> bool:
    path = PurePosixPath(name)
    return path.is_absolute() or ".." in path.parts or _SCHEME.match(name) is not None


def _refusal(folder: Place, name: str) -> KeyfoldError:
    return KeyfoldError(
        f"{folder} names the file {name}, which is outside its folder and is not read; copy the rows into a table of their own "
        "first (instead of a shallow clone, make a deep one)"
    )


_ROWS = 100_000


def int96_columns(metadata: "pq.FileMetaData") -> list[str]:
    """Return the top-level columns that hold INT96 times, at any depth."""
    columns = [metadata.schema.column(at) for at in range(metadata.num_columns)]
    return list(dict.fromkeys(one.path.split(".")[0] for one in columns if one.physical_type == "INT96"))


def finer_time(source: Any, metadata: "pq.FileMetaData") -> str | None:
    """Describe where an open file has an INT96 time finer than a microsecond, for a message; None if nowhere."""
    if not (names := int96_columns(metadata)):
        return None
    done = 0
    # Read in both units: where truncation or clamping changed a value, the two disagree.
    in_micros, in_nanos = (_batches(source, metadata, unit, names) for unit in ("us", "ns"))
    for micros, nanos in zip(in_micros, in_nanos, strict=True):
        for name in names:
            for in_us, in_ns in zip(_times(micros[name]), _times(nanos[name]), strict=True):
                if nanoseconds_beyond(in_us, in_ns).any():
                    return f"column {name}, among rows {done + 1:,} to {done + micros.num_rows:,}"
        done += micros.num_rows
    return None


def _batches(source: Any, metadata: "pq.FileMetaData", unit: str, names: list[str]) -> Iterator[pa.RecordBatch]:
    import pyarrow.parquet as pq  # noqa: PLC0415 - takes 0.1 s

    file = pq.ParquetFile(source, metadata=metadata, coerce_int96_timestamp_unit=unit)
    return file.iter_batches(_ROWS, columns=names, use_threads=False)


def _times(column: pa.Array) -> Iterator[np.ndarray]:
    """Yield the times in a column, at any depth, as integers; 0 for NULL."""
    if types.is_timestamp(column.type):
        yield column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    elif types.is_struct(column.type):
        for part in column.flatten():
            yield from _times(part)
    elif types.is_list(column.type) or types.is_large_list(column.type):
        yield from _times(column.flatten())
