"""Make events of a job's inputs: few keys, values that are often equal or missing, and times at which answers turn.

A history of runs has times on a coarse grid with ties, in no order; or times that follow each other, with silences around each
duration that the job declares.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import polars as pl
import pyarrow as pa
from pyarrow import types

from keyfold.errors import Misconfigured
from keyfold.keyed.job.contract import KeyedJob
from keyfold.stream import INGESTED_AT, Stream
from keyfold.testing.durations import silences_of

Rows = Mapping[str, Sequence[Mapping[str, object]]]
"""Events of a run, by input: rows in the columns of the event table."""

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
"""About when made events happen."""

_GRID = timedelta(minutes=5)
_MOST = 16
_LONGEST = timedelta(days=3650)
_TRIES = 20


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
    return {
        name: _valid(job, name, [_event(job, name, sample, chance) for _ in range(chance.randint(0, _MOST))])
        for name in dict.fromkeys(first_readers(job).values())
    }


def made_history(job: KeyedJob, sample: Mapping[str, pl.DataFrame], chance: random.Random) -> list[Rows]:
    """Return runs whose events follow each other in time, with silences around the durations of the job between them.

    No event of a run is before or at the time of one of an earlier run, so that none is late. Arguments and errors are as of
    `made_events`; the events of a sample get other times.
    """
    tables, silences = list(dict.fromkeys(first_readers(job).values())), drawn_silences(job)
    # Few keys, and the same in all tables, so that most silences are between two events of one key.
    keys = [_event(job, tables[0], sample, chance) for _ in range(chance.randint(1, 2))]
    runs: list[dict[str, list[dict[str, object]]]] = [{name: [] for name in tables}]
    now = NOON
    for _ in range(chance.randint(2, _MOST)):
        step = chance.choice(silences) if chance.random() < 0.7 else timedelta(0)
        now += step
        if step and chance.random() < 0.4:
            runs.append({name: [] for name in tables})
        name = chance.choice(tables)
        of_key = {column: value for column, value in chance.choice(keys).items() if column in job.key}
        times = {job.inputs[reader].stored_time: now for reader, first in first_readers(job).items() if first == name}
        for _ in range(_TRIES):
            row = _event(job, name, sample, chance)
            row |= {column: value for column, value in of_key.items() if column in row} | times
            if valid := _valid(job, name, [row]):
                runs[-1][name] += valid
                break
    return [run for run in runs if any(run.values())]


def drawn_silences(job: KeyedJob) -> list[timedelta]:
    """Return the silences that histories of a job are made of."""
    return [silence for silence in silences_of(job) if silence <= _LONGEST] or [_GRID]


def first_readers(job: KeyedJob) -> dict[str, str]:
    """Return for each input the first one that reads its table: a stream may be joined with itself."""
    first = {input_.table: name for name, input_ in reversed([*job.inputs.items()])}
    return {name: first[input_.table] for name, input_ in job.inputs.items()}


def _event(job: KeyedJob, name: str, sample: Mapping[str, pl.DataFrame], chance: random.Random) -> dict[str, object]:
    """Return an event of an input's table."""
    if name in sample:
        return sample[name].row(chance.randrange(sample[name].height), named=True)
    stream = job.inputs[name].stream
    row = {field.name: _value(field, chance, name) for field in stream.event_schema}
    return {**row, INGESTED_AT: NOON} if isinstance(stream, Stream) and INGESTED_AT in row else row


_MADE: tuple[tuple[Callable[[pa.DataType], bool], Callable[[random.Random], object]], ...] = (
    (types.is_timestamp, lambda chance: NOON + chance.randrange(0, 30) * _GRID),
    (types.is_string, lambda chance: chance.choice("abc")),
    (types.is_boolean, lambda chance: chance.random() < 0.5),
    (types.is_integer, lambda chance: chance.randint(0, 5)),
    (types.is_floating, lambda chance: chance.randint(0, 20) / 2),
    (types.is_decimal, lambda chance: Decimal(chance.randint(-3, 3))),
    (types.is_date, lambda chance: NOON.date() + timedelta(days=chance.randint(0, 2))),
)


def _value(field: pa.Field, chance: random.Random, input_name: str) -> object:
    kind = field.type
    if field.nullable and chance.random() < 0.2:
        return None
    if types.is_list(kind):
        return [_value(kind.value_field, chance, input_name) for _ in range(chance.randint(0, 3))]
    if types.is_struct(kind):
        return {member.name: _value(member, chance, input_name) for member in kind}
    make = next((make for is_kind, make in _MADE if is_kind(kind)), None)
    if make is not None or field.nullable:
        return None if make is None else make(chance)
    raise Misconfigured(
        f"input {input_name}: no values of {field.name} are made, which is {kind}; give a sample of its events"
    )


def _valid(job: KeyedJob, name: str, rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """Leave out the events that the rules of the stream refuse."""
    stream = job.inputs[name].stream
    if not isinstance(stream, Stream) or not stream.rules or not rows:
        return rows
    frame = pl.DataFrame(rows, schema=pl.Schema(stream.event_schema), orient="row")
    refused = frame.select(pl.any_horizontal(rule.broken.fill_null(value=False) for rule in stream.rules)).to_series()
    return [row for row, is_refused in zip(rows, refused, strict=True) if not is_refused]
