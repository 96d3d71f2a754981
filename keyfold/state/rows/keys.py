"""Which keys are wanted of a state, and so which of its slots."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from keyfold.errors import InvalidData
from keyfold.keyed.calling.slots import Slots, slot_expression
from keyfold.keyed.rows.codec import polars_schema
from keyfold.keyed.rows.hashing import HASH
from keyfold.state.rows.exact_cast import exact_cast
from keyfold.times import parse_time

Key = Any
"""A key as it is given: the value of a key of one column, the values of one of several in their order, or a mapping of
columns, of which some may be left out."""


@dataclass(frozen=True)
class WantedKeys:
    """Keys to keep of a state; those of one frame name the same columns.

    Attributes:
        frames: the values wanted, a row a key.
    """

    frames: tuple[pl.DataFrame, ...]

    def of(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows of the keys wanted, in their order."""
        found = pl.lit(False)
        for frame in self.frames:
            columns = frame.columns
            same = (
                pl.col(columns[0]).is_in(frame[columns[0]].implode())
                if len(columns) == 1
                else pl.struct(columns).is_in(frame.to_struct().implode())
            )
            found = found | same
        return rows.filter(found)

    def slots(self, fixed: Mapping[str, Any], schema: pa.Schema) -> Slots | None:
        """The slots that may hold them, None if all may.

        Args:
            fixed: what a generation's birth record says of its key, key groups and hash.
            schema: of its state.
        """
        key = tuple(fixed["key"])
        born = {name: kind.removesuffix(" not null") for name, kind in fixed["columns of events"].items()}
        # The hash is of the events' values: of the same text as the state's, if their types are the same.
        alike = all(born.get(name) == str(schema.field(name).type) for name in key)
        # A part of a key hashes to no slot: all are looked through.
        if fixed["hash"] != HASH or not alike or any(set(frame.columns) != set(key) for frame in self.frames):
            return None
        slot = slot_expression(key, fixed["key_groups"])
        return np.unique(np.concatenate([frame.select(slot).to_series().to_numpy() for frame in self.frames]))


def wanted_keys(keys: Iterable[Key], columns: tuple[str, ...], schema: pa.Schema) -> WantedKeys | None:
    """Read keys as people give them; None if none is given: all are wanted.

    Text is read as its column's type wants it. Of a key of several columns, text is a JSON object of them.

    Raises:
        KeyfoldError: a column is none of the key's, or a value is none of its type.
    """
    rows: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    kinds = polars_schema(schema)
    for key in keys:
        values = {name: _value(name, value, kinds[name]) for name, value in _by_column(key, columns).items()}
        rows.setdefault(tuple(values), []).append(values)
    if not rows:
        return None
    return WantedKeys(
        tuple(pl.DataFrame(found, schema={name: kinds[name] for name in names}) for names, found in rows.items())
    )


def _by_column(key: Key, columns: tuple[str, ...]) -> Mapping[str, Any]:
    if isinstance(key, str) and len(columns) > 1:
        try:
            key = json.loads(key)
        except ValueError:
            key = None
        if not isinstance(key, dict):
            example = json.dumps(dict.fromkeys(columns, "…"), ensure_ascii=False)
            raise InvalidData(f"a key here has the columns {', '.join(columns)}: give it as a JSON object, {example}")
    if isinstance(key, Mapping):
        if strangers := [name for name in key if name not in columns]:
            raise InvalidData(f"{', '.join(strangers)}: no column of the key, which has {', '.join(columns)}")
        if not key:
            raise InvalidData(f"a key without a column; it has {', '.join(columns)}")
        return {name: key[name] for name in columns if name in key}
    values = key if isinstance(key, tuple | list) else (key,)
    if len(values) != len(columns):
        raise InvalidData(f"key {key!r} has {len(values)} values for the columns {', '.join(columns)}")
    return dict(zip(columns, values, strict=True))


def _value(column: str, value: Any, kind: pl.DataType) -> Any:
    try:
        if isinstance(value, str) and isinstance(kind, pl.Datetime):
            moment = parse_time(column, value)
            return moment if kind.time_zone or moment is None else moment.replace(tzinfo=None)
        if isinstance(value, datetime):
            return value
        given = pl.Series([value])
        # Not by a cast: it would take 2.5 for 2, and find another key.
        return None if value is None else exact_cast(given, kind).drop_nulls().item()
    except (pl.exceptions.PolarsError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise InvalidData(f"key column {column} is {kind}, and {value!r} is none") from error
