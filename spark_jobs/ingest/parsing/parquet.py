"""Reads Parquet files, batch by batch; a row's number stands for its line."""

import json
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from spark_jobs.ingest.parsing.rows import Rows
from spark_jobs.ingest.parsing.text import UnreadableFileError
from spark_jobs.lakehouse.parquet import parquet_file
from spark_jobs.objects.place import Place

BATCH_ROWS = 100_000


def read_parquet(schema: pa.Schema, path: Place, max_bytes: int) -> Iterator[Rows]:
    """Read a whole Parquet file of at most `max_bytes`, decompressed.

    Raises:
        UnreadableFileError: it has a column of the schema twice, or holds more than it may.
        OSError, pyarrow.ArrowException: it is broken.
    """
    # A file without rows, as in the other formats; Parquet itself would call it broken.
    if not path.stat().st_size:
        return
    with parquet_file(path) as file:
        names = file.schema_arrow.names
        twice = sorted({name for name in schema.names if names.count(name) > 1})
        if twice:
            raise UnreadableFileError(f"the file has the column {', '.join(twice)} twice")
        groups = file.metadata.num_row_groups
        # By the footer, before a page is decompressed: a few kilobytes may unpack to more than there is memory.
        if sum(file.metadata.row_group(at).total_byte_size for at in range(groups)) > max_bytes:
            raise UnreadableFileError(f"the file holds more than {max_bytes >> 20:,} MiB, which is its limit")
        done = 0
        for batch in file.iter_batches(BATCH_ROWS, use_threads=False):
            lines = np.arange(done + 1, done + 1 + batch.num_rows, dtype=np.int64)
            yield Rows(pa.Table.from_batches([batch]), lines, _Raw(batch))
            done += batch.num_rows


class _Raw:
    """A row as JSON text, for want of a text of its own."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch

    def __call__(self, position: int) -> str:
        row = {name: _plain(self._batch.column(at)[position]) for at, name in enumerate(self._batch.schema.names)}
        return json.dumps(row, ensure_ascii=False, default=str)


def _plain(scalar: pa.Scalar) -> object:
    if pa.types.is_temporal(scalar.type) and scalar.is_valid:
        return scalar.cast(pa.string()).as_py()  # Arrow holds years that Python's datetime does not
    return scalar.as_py()
