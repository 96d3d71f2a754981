"""Compare two batches of one generation: workers read only the parts that the two states do not share."""

from collections.abc import Iterable, Iterator

import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from keyfold.errors import Damaged
from keyfold.keyed.parts.differences import differences
from keyfold.keyed.parts.manifest import Manifest
from keyfold.state.reading.failures import REMEDY
from keyfold.state.reading.state_rows import StateRows, on_workers

SIDE, EQUAL = "#side", "#equal"
"""`SIDE` of a row is 0 for the first state and 1 for the second; a row without `SIDE` has a number of equal keys in `EQUAL`."""


def share_parts(before: StateRows, after: StateRows) -> bool:
    """Whether two states are whole states of the same generation, so that they may share parts."""
    return (
        before.is_whole
        and after.is_whole
        and (before.job, before.generation) == (after.job, after.generation)
        and before.parts == after.parts
        and before.schema == after.schema
        and before.manifests is not None
        and after.manifests is not None
    )


def differing_rows(before: StateRows, after: StateRows, *, count: bool) -> DataFrame:
    """Return the rows of keys that may differ, with `SIDE` and `EQUAL`.

    Args:
        before, after: states that `share_parts`.
        count: whether to count equal keys.
    """
    assert before.manifests is not None and after.manifests is not None  # noqa: S101, PT018 - `share_parts` checks it
    schema = before.schema.append(pa.field(SIDE, pa.int32())).append(pa.field(EQUAL, pa.int64()))
    key, folder, where = before.key, before.parts, f"{before.where} and {after.where}"
    # A row of NULLs, which carries a number of equal keys: these are counted, and not returned.
    equal = pl.DataFrame(schema=dict.fromkeys(before.schema.names, pl.Null)).clear(1)

    def compared(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for left_manifest, right_manifest in zip(batch.column("before"), batch.column("after"), strict=True):
                was, now = (
                    Manifest.unpack(m.as_buffer()) if m.is_valid else Manifest(0)
                    for m in (left_manifest, right_manifest)
                )
                for difference in differences(was, now, folder, key, count=count):
                    for side, rows in enumerate((difference.before, difference.after)):
                        if rows.height:
                            yield from _tagged(rows, side, schema)
                    if difference.equal_keys:
                        yield from _tagged(equal.with_columns(pl.lit(difference.equal_keys).alias(EQUAL)), None, schema)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from compared(batches)
        except Damaged as error:
            raise Damaged(f"{where}: its state cannot be read: {error}; {REMEDY}") from error

    labels = sorted(before.manifests.keys() | after.manifests.keys())
    pairs = {"before": list(map(before.manifests.get, labels)), "after": list(map(after.manifests.get, labels))}
    rows = pa.table(pairs, pa.schema([("before", pa.binary()), ("after", pa.binary())]))
    return on_workers(before.session, rows, run, from_arrow_schema(schema))


def _tagged(rows: pl.DataFrame, side: int | None, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    tagged = rows.with_columns(pl.lit(side, pl.Int32).alias(SIDE))
    if EQUAL not in tagged.columns:
        tagged = tagged.with_columns(pl.lit(None, pl.Int64).alias(EQUAL))
    for part in tagged.iter_slices(50_000):
        yield from part.to_arrow().select(schema.names).cast(schema).to_batches()
