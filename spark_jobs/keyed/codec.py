"""Tables as blobs: Polars frames to bytes and back, held to their schemas."""

import io
from functools import cache

import polars as pl
import pyarrow as pa


def encode(frame: pl.DataFrame) -> bytes:
    """Encode a frame as a blob."""
    buffer = io.BytesIO()
    # Of the layouts measured the cheapest to write and read back together, a quarter smaller than Arrow IPC, and one
    # that other programs read: blobs lie in state for years. No statistics, since a blob is read whole.
    frame.write_parquet(buffer, compression="lz4", statistics=False)
    return buffer.getvalue()


def decode(payload: bytes | bytearray | memoryview) -> pl.DataFrame:
    """Decode what `encode` made."""
    return pl.read_parquet(io.BytesIO(payload))


def empty(schema: pa.Schema) -> pl.DataFrame:
    """An empty frame of an Arrow schema."""
    return pl.DataFrame(schema=polars_schema(schema))


@cache
def polars_schema(schema: pa.Schema) -> dict[str, pl.DataType]:
    """The Polars types of an Arrow schema, by column."""
    frame = pl.from_arrow(schema.empty_table())
    assert isinstance(frame, pl.DataFrame)  # noqa: S101 - narrows from_arrow's union of frame and series
    return dict(frame.schema)


def conform(frame: pl.DataFrame, schema: pa.Schema, what: str) -> pl.DataFrame:
    """Put a step's frame into its declared columns, in their order.

    Raises:
        ValueError: a column is missing, is one too many, or has another type; the message names it.
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
        raise ValueError(f"the step's {what} {'; '.join(faults)}")
    # Only columns of type Null are cast here: one of nothing but None has no type of its own.
    return frame.select(pl.col(name).cast(kind) for name, kind in wanted.items())
