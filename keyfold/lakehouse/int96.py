"""Times of 96 bits in Parquet, as Spark, Hive and Impala write them: nanoseconds, over more years than 64 bits have.

Readers of Parquet cut them to microseconds, or bound or wrap those outside the years 1678 to 2261; all of it in silence.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types

from keyfold.exact_times import nanoseconds_beyond

_ROWS = 100_000


def int96_columns(metadata: pq.FileMetaData) -> list[str]:
    """The columns that hold such times, at whatever depth."""
    columns = [metadata.schema.column(at) for at in range(metadata.num_columns)]
    return list(dict.fromkeys(one.path.split(".")[0] for one in columns if one.physical_type == "INT96"))


def finer_time(source: Any, metadata: pq.FileMetaData) -> str | None:
    """Where in a file, open for reading, a time of 96 bits is finer than a microsecond: for people; None where none is."""
    if not (names := int96_columns(metadata)):
        return None
    done = 0
    in_micros, in_nanos = (_batches(source, metadata, unit, names) for unit in ("us", "ns"))
    for micros, nanos in zip(in_micros, in_nanos, strict=True):
        for name in names:
            for one, other in zip(_times(micros[name]), _times(nanos[name]), strict=True):
                if nanoseconds_beyond(one, other).any():
                    return f"column {name}, among rows {done + 1:,} to {done + micros.num_rows:,}"
        done += micros.num_rows
    return None


def _batches(source: Any, metadata: pq.FileMetaData, unit: str, names: list[str]) -> Iterator[pa.RecordBatch]:
    file = pq.ParquetFile(source, metadata=metadata, coerce_int96_timestamp_unit=unit)
    return file.iter_batches(_ROWS, columns=names, use_threads=False)


def _times(column: pa.Array) -> Iterator[np.ndarray]:
    """The times in a column, at any depth, as numbers; 0 where there is none."""
    if types.is_timestamp(column.type):
        yield column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    elif types.is_struct(column.type):
        for part in column.flatten():
            yield from _times(part)
    elif types.is_list(column.type) or types.is_large_list(column.type):
        yield from _times(column.flatten())
