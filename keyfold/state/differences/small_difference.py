"""Count a small difference of two batches of one generation in the driver, where Spark would take longer to plan than to count."""

import polars as pl
import pyarrow as pa

from keyfold.errors import Damaged
from keyfold.keyed.parts.differences import bytes_read, differences
from keyfold.keyed.parts.manifest import Manifest
from keyfold.state.reading.failures import REMEDY
from keyfold.state.reading.state_rows import StateRows

_SMALL_BYTES = 32 << 20
SIDE = "#side"
"""Column of the side of a row: 0 before, 1 after."""

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
