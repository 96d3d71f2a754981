"""Make events of a job's inputs: few keys, times on a coarse grid with ties, and values that are often equal or missing."""

import random
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import polars as pl
import pyarrow as pa
from pyarrow import types

from keyfold.errors import Misconfigured
from keyfold.keyed.job.contract import KeyedJob
from keyfold.stream import INGESTED_AT, Stream

_NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
_GRID = timedelta(minutes=5)
_MOST = 16


def made_events(
    job: KeyedJob, sample: Mapping[str, pl.DataFrame], chance: random.Random
) -> dict[str, list[dict[str, object]]]:
    """Return up to 16 events of each table, by the first input that reads it, in the columns of the table.

    Args:
        job: the job.
        sample: events to draw from, by input; they are drawn with their own times.
        chance: draws.

    Raises:
        Misconfigured: a column has a type of which no values are made; give a sample.
    """
    made = {}
    for name in dict.fromkeys(first_readers(job).values()):
        one = job.inputs[name]
        count = chance.randint(0, _MOST)
        if name in sample:
            picked = [chance.randrange(sample[name].height) for _ in range(count)]
            made[name] = sample[name][picked].to_dicts()
            continue
        schema = one.stream.event_schema
        rows = [{field.name: _value(field, chance, name) for field in schema} for _ in range(count)]
        if isinstance(one.stream, Stream) and INGESTED_AT in schema.names:
            rows = [{**row, INGESTED_AT: _NOON} for row in rows]
        made[name] = _valid(one.stream, rows)
    return made


def first_readers(job: KeyedJob) -> dict[str, str]:
    """Return for each input the first one that reads its table: a stream may be joined with itself."""
    first = {one.table: name for name, one in reversed([*job.inputs.items()])}
    return {name: first[one.table] for name, one in job.inputs.items()}


_MADE: tuple[tuple[Callable[[pa.DataType], bool], Callable[[random.Random], object]], ...] = (
    (types.is_timestamp, lambda chance: _NOON + chance.randrange(0, 30) * _GRID),
    (types.is_string, lambda chance: chance.choice("abc")),
    (types.is_boolean, lambda chance: chance.random() < 0.5),
    (types.is_integer, lambda chance: chance.randint(0, 5)),
    (types.is_floating, lambda chance: chance.randint(0, 20) / 2),
    (types.is_decimal, lambda chance: Decimal(chance.randint(-3, 3))),
    (types.is_date, lambda chance: _NOON.date() + timedelta(days=chance.randint(0, 2))),
)


def _value(field: pa.Field, chance: random.Random, where: str) -> object:
    kind = field.type
    if field.nullable and chance.random() < 0.2:
        return None
    if types.is_list(kind):
        return [_value(kind.value_field, chance, where) for _ in range(chance.randint(0, 3))]
    if types.is_struct(kind):
        return {one.name: _value(one, chance, where) for one in kind}
    make = next((make for is_kind, make in _MADE if is_kind(kind)), None)
    if make is not None or field.nullable:
        return None if make is None else make(chance)
    raise Misconfigured(
        f"input {where}: no values of {field.name} are made, which is {kind}; give a sample of its events"
    )


def _valid(stream: object, rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """Leave out the events that the rules of the stream refuse."""
    if not isinstance(stream, Stream) or not stream.rules or not rows:
        return rows
    frame = pl.DataFrame(rows, schema=pl.Schema(stream.event_schema), orient="row")
    refused = frame.select(pl.any_horizontal(rule.broken.fill_null(value=False) for rule in stream.rules)).to_series()
    return [row for row, is_refused in zip(rows, refused, strict=True) if not is_refused]
