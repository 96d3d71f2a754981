"""Parse the keys to read from a state, and select their rows and slots."""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from keyfold.errors import InvalidData
from keyfold.exact_cast import exact_cast
from keyfold.keyed.calling.slots import Slots, slot_expression
from keyfold.keyed.generation.declaration import Declaration
from keyfold.keyed.rows.codec import polars_schema
from keyfold.keyed.rows.hashing import HASH
from keyfold.times import parse_time

Key = Any
"""A key as a caller gives it: its value if the key has one column, its values in the order of the columns, or a mapping from
columns to values, which may lack some columns."""


@dataclass(frozen=True)
class WantedKeys:
    """The keys to read from a state.

    Attributes:
        frames: values of the keys, a row for each. There is a frame for each set of columns that keys name.
    """

    frames: tuple[pl.DataFrame, ...]

    def of(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows that have these keys, in their order."""
        is_wanted = pl.lit(False)
        for frame in self.frames:
            columns = frame.columns
            same = (
                pl.col(columns[0]).is_in(frame[columns[0]].implode())
                if len(columns) == 1
                else pl.struct(columns).is_in(frame.to_struct().implode())
            )
            is_wanted = is_wanted | same
        return rows.filter(is_wanted)

    def slots(self, declared: Declaration, schema: pa.Schema) -> Slots | None:
        """Return the slots that may have these keys; None if all may.

        Args:
            declared: what the job declared when the generation was created.
            schema: columns of the state.
        """
        key = declared.key
        recorded = {name: kind.removesuffix(" not null") for name, kind in declared.events.items()}
        # Slots are hashes of the events' values. The state's values have the same hashes only if their types are the same.
        same_types = all(recorded.get(name) == str(schema.field(name).type) for name in key)
        # A part of a key has no slot: all slots are read.
        if declared.hash != HASH or not same_types or any(set(frame.columns) != set(key) for frame in self.frames):
            return None
        slot = slot_expression(key, declared.key_groups)
        return np.unique(np.concatenate([frame.select(slot).to_series().to_numpy() for frame in self.frames]))


def wanted_keys(keys: Iterable[Key], columns: tuple[str, ...], schema: pa.Schema) -> WantedKeys | None:
    """Parse keys; None if none is given, which means all keys.

    Text is parsed as the type of the column, or is a JSON object of the columns, which it must be if there are several.

    Raises:
        KeyfoldError: a column does not belong to the key, or a value does not fit its type.
    """
    rows: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    kinds = polars_schema(schema)
    for key in keys:
        values = {name: _value(name, value, kinds[name]) for name, value in _by_column(key, columns).items()}
        rows.setdefault(tuple(values), []).append(values)
    if not rows:
        return None
    return WantedKeys(
        tuple(pl.DataFrame(values, schema={name: kinds[name] for name in names}) for names, values in rows.items())
    )


def _by_column(key: Key, columns: tuple[str, ...]) -> Mapping[str, Any]:
    if isinstance(key, str):
        named = None
        with suppress(ValueError):
            named = json.loads(key)
        # One column's value may look like JSON too. Errors of jobs name the column.
        if isinstance(named, dict) and (len(columns) > 1 or named.keys() == set(columns)):
            key = named
        elif len(columns) > 1:
            example = json.dumps(dict.fromkeys(columns, "…"), ensure_ascii=False)
            raise InvalidData(f"the key has the columns {', '.join(columns)}: give it as a JSON object, {example}")
    if isinstance(key, Mapping):
        if strangers := [name for name in key if name not in columns]:
            raise InvalidData(f"{', '.join(strangers)}: not in the key, whose columns are {', '.join(columns)}")
        if not key:
            raise InvalidData(f"a key has no columns; give a value for one of {', '.join(columns)}")
        return {name: key[name] for name in columns if name in key}
    values = key if isinstance(key, tuple | list) else (key,)
    if len(values) != len(columns):
        raise InvalidData(
            f"key {key!r} has {len(values)} values: give one for each of the columns {', '.join(columns)}"
        )
    return dict(zip(columns, values, strict=True))


def _value(column: str, value: Any, kind: pl.DataType) -> Any:
    try:
        if isinstance(value, str) and isinstance(kind, pl.Datetime):
            moment = parse_time(column, value)
            return moment if kind.time_zone or moment is None else moment.replace(tzinfo=None)
        if isinstance(value, datetime):
            return value
        text = pl.Series([value])
        # A plain cast would turn 2.5 into 2, and find another key.
        return None if value is None else exact_cast(text, kind).drop_nulls().item()
    except (pl.exceptions.PolarsError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise InvalidData(f"key column {column} is {kind}, and {value!r} is not: give a value of that type") from error
