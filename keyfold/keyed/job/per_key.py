"""Write a step that handles one key at a time, with `per_key`.

It is simpler than a step over tables, and slower: every row is converted to Python values and back, which takes some
microseconds. Use it if the logic is hard to express with columns, and events are few.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from numbers import Integral, Real
from typing import Any, cast

import polars as pl
import pyarrow as pa

from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.step import Clock, Step, StepFunction
from keyfold.keyed.rows.codec import AnswerError, polars_schema

Record = Mapping[str, Any]
"""A row by column names, with Python values; times are `datetime` in UTC."""


@dataclass
class KeyAnswer:
    """The result of a handler for one key: a `Step` made of records. The key's columns are added.

    Attributes:
        state: the key's new rows of state; none removes its state.
        output: rows for the job's main table.
        late: late events.
        side: rows for side outputs, by table.

    Example:
        >>> KeyAnswer(state=[{"seen": 3}]).output
        ()
    """

    state: Sequence[Record] = ()
    output: Sequence[Record] = ()
    late: Sequence[Record] = ()
    side: Mapping[str, Sequence[Record]] = field(default_factory=dict)


KeyHandler = Callable[[tuple[Any, ...], list[Record], list[Record], Clock], KeyAnswer]
"""A function `(key, state, events, clock) -> KeyAnswer`; events are in order of event time, then of their other columns."""


@dataclass(frozen=True)
class PerKey:
    """A step that handles one key at a time (`per_key`); its job gives it the columns of events, state and tables."""

    handler: KeyHandler

    def bound(self, job: KeyedJob) -> StepFunction:
        """Return the step of a job."""
        return _step(
            self.handler,
            key=job.key,
            event_time=job.event_time,
            events=job.columns,
            state=job.state.schema,
            output=job.main.schema,
            side_outputs={table.name: table.schema for table in job.own_tables[1:]},
        )


def per_key(handler: KeyHandler) -> PerKey:
    """Make a step from a handler, which is called for each key with events or a due timer. The handler must be pure.

    A record must have all columns of its table, except those of the key, and no others, with values that fit. Otherwise the
    step raises AnswerError.

    Example:
        >>> from datetime import UTC, datetime
        >>> from keyfold import Append, Input, KeyedJob, Stream, TestHarness, required
        >>> came = pa.schema([required("user", pa.string(), "Who"), required("at", pa.timestamp("us", "UTC"), "When")])
        >>> def count(key, state, events, clock):
        ...     total = (state[0]["seen"] if state else 0) + len(events)
        ...     return KeyAnswer(state=[{"seen": total}], output=[{"seen": total}])
        >>> seen = {"user": pl.String, "seen": pl.Int64}
        >>> visits = Input(Stream("visits", came, "at"), columns=("user", "at"), final_at="at")
        >>> job = KeyedJob("visits_so_far", visits, "user", seen, per_key(count), Append(seen))
        >>> noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
        >>> events = pl.DataFrame({"user": ["ann", "bob", "ann"], "at": [noon] * 3})
        >>> TestHarness(job).batch(events).tables["visits_so_far"].rows()
        [('ann', 2), ('bob', 1)]
    """
    return PerKey(handler)


def _step(
    handler: KeyHandler,
    *,
    key: tuple[str, ...],
    event_time: str,
    events: pa.Schema,
    state: pa.Schema,
    output: pa.Schema,
    side_outputs: Mapping[str, pa.Schema],
) -> StepFunction:
    tables = {"state": state, "output": output, "late": events, **side_outputs}
    frames = {name: polars_schema(schema) for name, schema in tables.items()}
    # Events of the same time by all their columns: the engine passes them in the order of their files, which is by chance.
    order = [event_time, *(name for name in events.names if name != event_time)]

    def step(stored: pl.DataFrame, came: pl.DataFrame, clock: Clock) -> Step:
        # In a fixed order: a repeated batch must write the same rows.
        touched = pl.concat([came.select(key), stored.select(key)]).unique(maintain_order=True)
        rows: dict[str, list[dict[str, Any]]] = {name: [] for name in tables}
        state_of = _by_key(stored, key)
        events_of = _by_key(came.sort(order), key)
        for values in touched.iter_rows():
            answer = handler(values, state_of.get(values, []), events_of.get(values, []), clock)
            named = dict(zip(key, values, strict=True))
            by_name = {"state": answer.state, "output": answer.output, "late": answer.late, **answer.side}
            for name, records in by_name.items():
                if name not in frames:
                    raise AnswerError(
                        f"the handler writes {name}, which is no table of the job: correct the name, or declare the table"
                    )
                rows[name] += _complete(name, records, _known(named, frames[name]), frames[name])
        rows_of_frames = {name: _frame(name, records, frames[name]) for name, records in rows.items()}
        return Step(
            state=rows_of_frames["state"],
            output=rows_of_frames["output"],
            late=rows_of_frames["late"],
            side={name: rows_of_frames[name] for name in side_outputs},
        )

    return step


def _by_key(frame: pl.DataFrame, key: tuple[str, ...]) -> Mapping[tuple[Any, ...], list[Record]]:
    parts = frame.partition_by(key, as_dict=True, maintain_order=True) if frame.height else {}
    return {values: list(part.iter_rows(named=True)) for values, part in parts.items()}


def _complete(
    name: str, records: Sequence[Record], example: Mapping[str, Any], columns: Mapping[str, pl.DataType]
) -> list[dict[str, Any]]:
    """Add the key's columns to records, and check that each has exactly the table's columns.

    Raises:
        AnswerError: a record lacks a column, or has an unknown one; names them.
    """
    complete = [{**example, **record} for record in records]
    for record in complete:
        # Otherwise a misspelt column would be dropped, and the right one would be NULL.
        if record.keys() != columns.keys():
            missing, unknown = columns.keys() - record.keys(), record.keys() - columns.keys()
            faults = [
                *([f"misses {', '.join(sorted(missing))}"] if missing else []),
                *([f"has {', '.join(sorted(unknown))} besides its columns"] if unknown else []),
            ]
            raise AnswerError(
                f"a record of the handler's {name} {' and '.join(faults)}; its columns are {', '.join(columns)}, each given "
                "in every record, and None where there is no value"
            )
    return complete


def _frame(name: str, records: list[dict[str, Any]], columns: Mapping[str, pl.DataType]) -> pl.DataFrame:
    subject = f"a record of the handler's {name}"
    return pl.DataFrame(
        [column_of(column, [record[column] for record in records], kind, subject) for column, kind in columns.items()]
    )


def _known(named: dict[str, Any], columns: Mapping[str, pl.DataType]) -> dict[str, Any]:
    """Return the key's columns that a table has: an output may lack some."""
    return {name: value for name, value in named.items() if name in columns}


def column_of(name: str, values: Sequence[Any], kind: pl.DataType, subject: str) -> pl.Series:
    """Make a column of Python values.

    Args:
        name: name of the column.
        values: the values; None for NULL.
        kind: type of the column.
        subject: names the source of the values in errors.

    Raises:
        AnswerError: a value has another type, or does not fit; names the column and the value's type, and not the value.

    Example:
        >>> column_of("clicks", [1, None], pl.Int64(), "a record").to_list()
        [1, None]
        >>> column_of("clicks", [1.5], pl.Int64(), "a record")
        Traceback (most recent call last):
        keyfold.keyed.rows.codec.AnswerError: a record has a value of type float in clicks, which holds Int64
    """
    # First compare the types only: for most columns that is enough.
    if not {type(value) for value in values} <= {type(None), *_plain(kind)}:
        for value in values:
            if value is not None and not _is_held(value, kind):
                raise AnswerError(f"{subject} has a value of type {_type(value)} in {name}, which holds {kind}")
        # Polars expects all values to have the type of the first one.
        make = float if kind.is_float() else Decimal if isinstance(kind, pl.Decimal) else None
        values = values if make is None else [None if value is None else make(value) for value in values]
    try:
        return pl.Series(name, values, kind)
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
        # From None: the error quotes the value.
        raise AnswerError(f"{subject} has a value in {name} that does not fit into {kind}") from None


_PLAIN: dict[Any, tuple[type, ...]] = {
    pl.Boolean: (bool,),
    pl.String: (str,),
    pl.Binary: (bytes,),
    pl.Datetime: (datetime,),
    pl.Date: (date,),
    pl.Time: (time,),
    pl.Duration: (timedelta,),
}


def _plain(kind: pl.DataType) -> tuple[type, ...]:
    """Return the Python types whose values Polars either stores unchanged, or refuses."""
    if kind.is_integer():
        return int, bool
    return (float,) if kind.is_float() else _PLAIN.get(kind.base_type(), ())


def _is_held(value: Any, kind: pl.DataType) -> bool:
    if isinstance(kind, pl.List | pl.Array):
        inner = cast(pl.DataType, kind.inner)
        return isinstance(value, list | tuple) and all(part is None or _is_held(part, inner) for part in value)
    if isinstance(kind, pl.Struct):
        fields = {field.name: cast(pl.DataType, field.dtype) for field in kind.fields}
        is_named = isinstance(value, Mapping) and value.keys() == fields.keys()
        return is_named and all(value[name] is None or _is_held(value[name], part) for name, part in fields.items())
    if kind.is_integer():
        return isinstance(value, Integral)
    if kind.is_float():
        return isinstance(value, Real) and (not isinstance(value, Integral) or _is_exact(int(value)))
    if isinstance(kind, pl.Decimal):
        return isinstance(value, Integral) or (isinstance(value, Decimal) and _decimals(value) <= kind.scale)
    # Types that are not listed take whatever value Polars takes.
    return type(value) in (_plain(kind) or (type(value),))


def _is_exact(value: int) -> bool:
    try:
        return int(float(value)) == value
    except OverflowError:
        return False


def _decimals(value: Decimal) -> float:
    exponent = value.as_tuple().exponent
    return -exponent if isinstance(exponent, int) else float("inf")


def _type(value: Any) -> str:
    return type(value).__name__
