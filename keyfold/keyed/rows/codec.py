"""Encode Polars frames as bytes and decode them, and check frames against their schemas."""

import io
from functools import cache

import polars as pl
import pyarrow as pa

from keyfold.privacy import ShowableError


class AnswerError(ShowableError, ValueError):
    """A step returned a frame that does not fit its schema. The message names columns and types, and quotes no value."""


_SMALL = 32 << 10
"""Bytes below which a frame is encoded as an Arrow stream."""

_PARQUET = b"PAR1"
"""First bytes of Parquet. An Arrow stream begins with 0xFFFFFFFF."""

_END = b"\xff\xff\xff\xff\0\0\0\0"
"""Last bytes of an Arrow stream."""


def encode(frame: pl.DataFrame) -> bytes:
    """Encode a frame as a blob: Parquet, or an Arrow stream if it is small."""
    buffer = io.BytesIO()
    if frame.estimated_size() < _SMALL:
        # Parquet takes 0.2 ms to write and to read, even for a few rows; an Arrow stream takes a tenth of that. Small batches
        # consist of such blobs.
        # Inside of lists and structs, texts as views would drag along all texts of the frame that the rows were taken from.
        is_nested = any(kind.is_nested() for kind in frame.dtypes)
        level = pl.CompatLevel.oldest() if is_nested else pl.CompatLevel.newest()
        frame.write_ipc_stream(buffer, compression="lz4", compat_level=level)
    else:
        # Cheapest to write and read among the layouts measured, and half as large as an Arrow stream, since texts that repeat are
        # written once; compressed, it would be a tenth smaller and take half as long again to write. No statistics, since a
        # blob is read whole.
        frame.write_parquet(buffer, compression="uncompressed", statistics=False)
    return buffer.getvalue()


def decode(payload: bytes | bytearray | memoryview) -> pl.DataFrame:
    """Decode what `encode` made.

    Raises:
        PolarsError, OSError: the blob is damaged.
    """
    source = io.BytesIO(payload)
    if source.getbuffer()[:4] == _PARQUET:
        return pl.read_parquet(source)
    # An Arrow stream that is cut between two batches would be read as one with fewer rows.
    if source.getbuffer()[-len(_END) :] != _END:
        raise pl.exceptions.ComputeError("the blob is cut short, or none: it lacks an Arrow stream's end")
    return pl.read_ipc_stream(source)


def empty(schema: pa.Schema) -> pl.DataFrame:
    """Return an empty frame with an Arrow schema."""
    return _empty(schema).clone()


@cache
def _empty(schema: pa.Schema) -> pl.DataFrame:
    return pl.DataFrame(schema=polars_schema(schema))


@cache
def polars_schema(schema: pa.Schema) -> dict[str, pl.DataType]:
    """Return the Polars types of an Arrow schema, by column."""
    # Not by an empty table: for that pyarrow imports pandas, if it is there.
    return dict(pl.Schema(schema))


def with_plain_floats(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a frame with 0.0 in place of -0.0, and one NaN in place of all.

    They are equal in a key and in a sort, so that which of them a row keeps would follow the order of arrival.

    Example:
        >>> with_plain_floats(pl.DataFrame({"change": [-0.0, 1.5]}))["change"].to_list()
        [0.0, 1.5]
    """
    floats = [column for column in frame if column.dtype.is_float()]
    changed = [column for column in floats if ((column == 0) | column.is_nan()).any()]
    return frame.with_columns(**{column.name: plain_float(pl.col(column.name), column.dtype) for column in changed})


def plain_float(value: pl.Expr, kind: pl.DataType) -> pl.Expr:
    """Return floats of a type as in `with_plain_floats`."""
    # Polars takes `value + 0.0` for `value`, with its sign.
    zero, nan = pl.lit(0.0, kind), pl.lit(float("nan"), kind)
    return pl.when(value == 0).then(zero).when(value.is_nan()).then(nan).otherwise(value)


def conform(frame: pl.DataFrame, schema: pa.Schema, subject: str) -> pl.DataFrame:
    """Check a step's frame against its schema, and return its columns in the schema's order.

    Raises:
        AnswerError: a column is missing, unknown, or has another type; the message names it.
    """
    wanted = polars_schema(schema)
    if frame.schema == wanted:
        return frame
    missing = [name for name in wanted if name not in frame.columns]
    surplus = [name for name in frame.columns if name not in wanted]
    wrong = [
        f"{name} is {frame.schema[name]}, not {kind}"
        for name, kind in wanted.items()
        if name in frame.columns and frame.schema[name] not in (kind, pl.Null)
    ]
    faults = [
        *([f"misses {', '.join(missing)}"] if missing else []),
        *([f"has {', '.join(surplus)} besides its columns"] if surplus else []),
        *wrong,
    ]
    if faults:
        raise AnswerError(f"the step's {subject} {'; '.join(faults)}")
    # Only columns of type Null are cast here: a column of NULLs only has no other type.
    return frame.select(pl.col(name).cast(kind) for name, kind in wanted.items())
