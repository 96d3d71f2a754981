"""Find INT96 times in Parquet files (Spark, Hive, Impala) that microseconds cannot represent.

INT96 has nanoseconds over more years than 64 bits can. Parquet readers silently truncate them to microseconds, or clamp or
wrap times outside the years 1678 to 2261.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import types

from keyfold.exact_times import nanoseconds_beyond

if TYPE_CHECKING:
    import pyarrow.parquet as pq

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
