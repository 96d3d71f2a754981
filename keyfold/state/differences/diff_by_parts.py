"""Compare two batches of one generation: workers read only the parts that the two states do not share."""

from collections.abc import Iterable, Iterator

import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from keyfold.errors import Damaged
from keyfold.keyed.parts.differences import bytes_read, differences
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


_SMALL_BYTES = 32 << 20

_ROWS, _AFTER = "#rows", "#after"


def counts_of_small_difference(before: StateRows, after: StateRows) -> dict[str, int] | None:
    """Count added, removed, changed and equal keys, and the changed keys in which each column differs.

    Args:
        before, after: states that `diff_by_parts.share_parts`.

    Returns:
        the counts, with those of columns as `column NAME`; None if more than 32 MiB would be read, or a column is nested.

    Raises:
        Damaged: a manifest or a part is damaged.
    """
    if any(pa.types.is_nested(kind) for kind in before.schema.types):
        return None
    where = f"{before.where} and {after.where}"
    try:
        pairs = _pairs(before, after)
        if sum(bytes_read(*pair, count=True) for pair in pairs) > _SMALL_BYTES:
            return None
        found = [one for pair in pairs for one in differences(*pair, before.parts, before.key, count=True)]
    except Damaged as error:
        raise Damaged(f"{where}: its state cannot be read: {error}; {REMEDY}") from error
    equal = sum(one.equal_keys for one in found)
    sides = [
        rows.select(before.schema.names).with_columns(pl.lit(side).alias(SIDE))
        for one in found
        for side, rows in enumerate((one.before, one.after))
        if rows.height
    ]
    columns = [name for name in before.schema.names if name not in before.key]
    counts = count_changes(pl.concat(sides), list(before.key), columns) if sides else {}
    names = ("keys_before", "keys_after", "added", "removed", "changed", "unchanged")
    shared: dict[str, int] = dict.fromkeys(("keys_before", "keys_after", "unchanged"), equal)
    return {name: counts.get(name, 0) + shared.get(name, 0) for name in (*names, *(f"column {one}" for one in columns))}


def count_changes(rows: pl.DataFrame, key: list[str], columns: list[str]) -> dict[str, int]:
    """Count keys in rows of both sides. The rows of a key have no order; NaN equals NaN, and NULL equals NULL, as in Spark.

    Args:
        rows: rows of whole keys, with `SIDE`.
        key: columns of the key.
        columns: the other columns, which are compared; none is nested.
    """
    # Sorted, since the rows of a key have no order.
    by_key = rows.sort(columns) if columns else rows
    by_key = by_key.group_by([*key, SIDE], maintain_order=True).agg(*columns, pl.len().alias(_ROWS))
    was, now = (by_key.filter(pl.col(SIDE) == side).drop(SIDE) for side in (0, 1))
    joined = was.join(now, on=key, how="full", nulls_equal=True, coalesce=True, suffix=_AFTER)
    is_before, is_after = pl.col(_ROWS).is_not_null(), pl.col(f"{_ROWS}{_AFTER}").is_not_null()
    both = is_before & is_after
    differs = {name: ~pl.col(name).eq_missing(pl.col(f"{name}{_AFTER}")) for name in (_ROWS, *columns)}
    changed = both & pl.any_horizontal(*differs.values())
    counts = {
        "keys_before": is_before,
        "keys_after": is_after,
        "added": ~is_before,
        "removed": ~is_after,
        "changed": changed,
        "unchanged": both & ~changed,
        **{f"column {name}": both & differs[name] for name in columns},
    }
    return joined.select(condition.sum().alias(name) for name, condition in counts.items()).row(0, named=True)


def _pairs(before: StateRows, after: StateRows) -> list[tuple[Manifest, Manifest]]:
    was, now = before.manifests or {}, after.manifests or {}
    nothing = Manifest(0)
    return [
        (
            Manifest.unpack(was[label]) if label in was else nothing,
            Manifest.unpack(now[label]) if label in now else nothing,
        )
        for label in sorted(was.keys() | now.keys())
    ]
