"""Compare two states of a generation by their parts. Parts that both have are not read."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from keyfold.keyed.calling.slots import NO_SLOTS, SLOT, Slots, are_among, distinct, positions_of, union
from keyfold.keyed.parts.folding import Layers
from keyfold.keyed.parts.manifest import Manifest, Part
from keyfold.storage.place import Place


class Different(NamedTuple):
    """All rows of keys that may differ, without `SLOT`; and the number of keys in the same range that are equal."""

    before: pl.DataFrame
    after: pl.DataFrame
    equal_keys: int


def differences(
    before: Manifest, after: Manifest, folder: Place, key: Sequence[str], *, count: bool
) -> Iterator[Different]:
    """Yield the differences of two manifests of a partition, range by range.

    Rows of a slot that is only in shared parts are equal in both, since shared parts are in the same order.

    Args:
        before, after: the manifests.
        folder: folder of the parts.
        key: columns of the key.
        count: whether to count equal keys. This reads the slots of all rows if there are many changes, or if the base has
            several rows per slot.
    """
    # These parts alone show which slots may differ.
    marks = Layers(Manifest(0, 0, (), _unshared(before, after)), folder)
    was, now = Layers(before, folder), Layers(after, folder)
    compared = NO_SLOTS
    for begin, end in marks.ranges():
        wanted = NO_SLOTS
        for source in marks.sources:
            wanted = union(wanted, distinct(source.between(begin, end, [SLOT])[SLOT].to_numpy()))
        if wanted.size:
            compared = union(compared, wanted)
            yield _different(was.of(wanted), now.of(wanted), key)
    if not count:
        return
    changed = NO_SLOTS
    for source in was.changes:
        changed = union(changed, distinct(source.between(0, _END, [SLOT])[SLOT].to_numpy()))
    keys_in_base = sum(part.slots for part in before.base)
    if _has_a_row_per_key(before) and changed.size + compared.size < keys_in_base // _FEW:
        base = Layers(Manifest(0, base=before.base), folder)
        yield Different(_NONE, _NONE, keys_in_base + _keys_above(was, base, changed, compared, key))
    else:
        for begin, end in was.ranges():
            yield Different(_NONE, _NONE, _keys_between(was, begin, end, key, compared))


_NONE = pl.DataFrame()
_END = 1 << 63
_FEW = 8
"""Equal keys are counted from the manifest if less than one slot in this many has changed."""


def _has_a_row_per_key(manifest: Manifest) -> bool:
    """Whether the number of slots of the base is its number of keys."""
    return all(part.rows == part.slots for part in manifest.base)


def _unshared(before: Manifest, after: Manifest) -> tuple[Part, ...]:
    return tuple(part for one, other in ((before, after), (after, before)) for part in _not_of(one, other))


def _not_of(one: Manifest, other: Manifest) -> list[Part]:
    known = {part.file or part.payload for part in other.parts}
    return [part for part in one.parts if (part.file or part.payload) not in known]


def _different(before: pl.DataFrame | None, after: pl.DataFrame | None, key: Sequence[str]) -> Different:
    if before is None or after is None:
        was, now = (_NONE if rows is None else rows.drop(SLOT) for rows in (before, after))
        return Different(was, now, 0)
    slots, others = before[SLOT].to_numpy(), after[SLOT].to_numpy()
    both = distinct(slots)
    both = both[are_among(both, distinct(others))]
    both = both[_counts(slots, both) == _counts(others, both)]
    # Only slots with as many rows on both sides: their rows are aligned.
    one, other = before[positions_of(slots, both)], after[positions_of(others, both)]
    # Compare row by row. Rows of a key in another order count as different here; the caller compares them regardless of order.
    differs = np.zeros(one.height, bool)
    for name in one.columns:
        differs |= one[name].ne_missing(other[name]).to_numpy()
    equal = both[~are_among(both, distinct(one[SLOT].to_numpy()[differs]))]
    was, now = (rows.filter(~are_among(rows[SLOT].to_numpy(), equal)).drop(SLOT) for rows in (before, after))
    return Different(was, now, _keys(before.filter(are_among(slots, equal)), key))


def _counts(slots: np.ndarray, wanted: Slots) -> np.ndarray:
    return np.searchsorted(slots, wanted, side="right") - np.searchsorted(slots, wanted, side="left")


def _keys_between(layers: Layers, begin: int, end: int, key: Sequence[str], without: Slots) -> int:
    slots = layers.between(begin, end, [])[SLOT].to_numpy()
    kept = slots[~are_among(slots, without)]
    # With one row per slot there is one key per slot, so keys need not be read.
    if distinct(kept).size == kept.size:
        return kept.size
    rows = layers.between(begin, end, key)
    return _keys(rows.filter(~are_among(rows[SLOT].to_numpy(), without)), key)


def _keys_above(was: Layers, base: Layers, changed: Slots, compared: Slots, key: Sequence[str]) -> int:
    """Return how many more keys the slots that were not compared have than the base, which has one key per slot."""
    replaced = base.of(union(changed, compared), [])
    rows = was.of(changed[~are_among(changed, compared)], key)
    return (0 if rows is None else _keys(rows, key)) - (0 if replaced is None else replaced.height)


def _keys(rows: pl.DataFrame, key: Sequence[str]) -> int:
    return rows.select(pl.struct(key).n_unique()).item() if rows.height else 0
