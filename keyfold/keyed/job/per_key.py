"""Write a step that handles one key at a time, with `per_key`.

It is simpler than a step over tables, and slower: every row is converted to Python values and back, which takes some
microseconds. Use it if the logic is hard to express with columns, and events are few.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl
import pyarrow as pa

from keyfold.keyed.job.step import Clock, Step, StepFunction
from keyfold.keyed.rows.codec import AnswerError, polars_schema
from keyfold.keyed.rows.record_values import column_of

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
"""A function `(key, state, events, clock) -> KeyAnswer`; events are in order of event time."""


def per_key(
    handler: KeyHandler,
    *,
    key: tuple[str, ...],
    event_time: str,
    events: pa.Schema,
    state: pa.Schema,
    output: pa.Schema,
    side_outputs: Mapping[str, pa.Schema] | None = None,
) -> StepFunction:
    """Make a step from a handler, which is called for each key with events or a due timer. The handler must be pure.

    A record must have all columns of its table, except those of the key, and no others, with values that fit. Otherwise the
    step raises AnswerError.

    Example:
        >>> from datetime import UTC, datetime
        >>> user = pa.field("user", pa.string(), nullable=False)
        >>> came, seen = pa.schema([user, ("at", pa.timestamp("us", "UTC"))]), pa.schema([user, ("seen", pa.int64())])
        >>> def count(key, state, events, clock):
        ...     total = (state[0]["seen"] if state else 0) + len(events)
        ...     return KeyAnswer(state=[{"seen": total}], output=[{"seen": total}])
        >>> step = per_key(count, key=("user",), event_time="at", events=came, state=seen, output=seen)
        >>> noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
        >>> events = pl.DataFrame({"user": ["ann", "bob", "ann"], "at": [noon] * 3})
        >>> kept = pl.DataFrame({"user": ["ann"], "seen": [5]})
        >>> step(kept, events, Clock(noon, noon, noon)).output.rows()
        [('ann', 7), ('bob', 1)]
    """
    tables = {"state": state, "output": output, "late": events, **(side_outputs or {})}
    frames = {name: polars_schema(schema) for name, schema in tables.items()}

    def step(kept: pl.DataFrame, came: pl.DataFrame, clock: Clock) -> Step:
        # In a fixed order: a repeated batch must write the same rows.
        touched = pl.concat([came.select(key), kept.select(key)]).unique(maintain_order=True)
        rows: dict[str, list[dict[str, Any]]] = {name: [] for name in tables}
        state_of = _by_key(kept, key)
        # The engine passes events in no order.
        events_of = _by_key(came.sort(event_time, maintain_order=True), key)
        for values in touched.iter_rows():
            answer = handler(values, state_of.get(values, []), events_of.get(values, []), clock)
            named = dict(zip(key, values, strict=True))
            given = {"state": answer.state, "output": answer.output, "late": answer.late, **answer.side}
            for name, records in given.items():
                if name not in frames:
                    raise AnswerError(f"the handler writes {name}, which side_outputs does not have")
                rows[name] += _complete(name, records, _known(named, frames[name]), frames[name])
        made = {name: _frame(name, records, frames[name]) for name, records in rows.items()}
        return Step(
            state=made["state"],
            output=made["output"],
            late=made["late"],
            side={name: made[name] for name in side_outputs or {}},
        )

    return step


def _by_key(frame: pl.DataFrame, key: tuple[str, ...]) -> Mapping[tuple[Any, ...], list[Record]]:
    parts = frame.partition_by(key, as_dict=True, maintain_order=True) if frame.height else {}
    return {values: list(part.iter_rows(named=True)) for values, part in parts.items()}


def _complete(
    name: str, records: Sequence[Record], known: Mapping[str, Any], columns: Mapping[str, pl.DataType]
) -> list[dict[str, Any]]:
    """Add the key's columns to records, and check that each has exactly the table's columns.

    Raises:
        AnswerError: a record lacks a column, or has an unknown one; names them.
    """
    complete = [{**known, **record} for record in records]
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
    what = f"a record of the handler's {name}"
    return pl.DataFrame(
        [column_of(column, [record[column] for record in records], kind, what) for column, kind in columns.items()]
    )


def _known(named: dict[str, Any], columns: Mapping[str, pl.DataType]) -> dict[str, Any]:
    """Return the key's columns that a table has: an output may lack some."""
    return {name: value for name, value in named.items() if name in columns}
