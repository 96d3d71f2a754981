"""Combine the events of all inputs of a job into one frame, and separate them again for the step.

The frame of one input has its own columns. A job with several inputs has one key, one clock and one state too: its events become
rows of one frame, with `input`, the key, `event_time`, and all other columns of all inputs, which are NULL in rows of the other
inputs. So partitioning, counting and the late table are the same for any number of inputs, and only this module tells them apart.
"""

from collections.abc import Mapping
from datetime import datetime

import polars as pl
import pyarrow as pa

from keyfold.columns import required
from keyfold.errors import Misconfigured
from keyfold.keyed.job.inputs import EVENT_TIME, INPUT, Input
from keyfold.stream import TIMESTAMP


def joined_schema(key: tuple[str, ...], inputs: Mapping[str, Input]) -> pa.Schema:
    """Return the columns of the frame with events of all inputs. For several: `input`, the key, `event_time`, all others.

    Raises:
        Misconfigured: an input has a column of a reserved name.
    """
    if len(inputs) == 1:
        return next(iter(inputs.values())).schema
    for name, input_ in inputs.items():
        for taken in {INPUT, EVENT_TIME}.intersection(input_.schema.names) - ({EVENT_TIME} & {input_.event_time}):
            raise Misconfigured(
                f"input {name}: column {taken} has a name that Keyfold needs itself; give it another name with `derive`"
            )
    first = next(iter(inputs.values()))
    further: dict[str, pa.Field] = {}
    for input_ in inputs.values():
        for field_ in input_.schema:
            if field_.name not in key and field_.name != input_.event_time:
                # NULL in the rows of inputs that lack the column.
                further.setdefault(field_.name, field_.with_nullable(True))
    return pa.schema(
        [
            required(INPUT, pa.string(), "Which input the event is of"),
            *(first.schema.field(name) for name in key),
            required(
                EVENT_TIME,
                TIMESTAMP,
                "Event time (UTC), by the input's own column",
                lineage=tuple(dict.fromkeys(input_.event_time for input_ in inputs.values())),
            ),
            *further.values(),
        ]
    )


def tagged(
    inputs: Mapping[str, Input], name: str, events: pl.DataFrame, wanted: Mapping[str, pl.DataType]
) -> pl.DataFrame:
    """Convert events of an input to the columns of all inputs.

    Args:
        inputs: all inputs.
        name: name of the input.
        events: its events, in its own columns.
        wanted: the columns of all inputs (`joined_schema`), with their types.
    """
    if len(inputs) == 1:
        return events
    input_ = inputs[name]
    # The event time keeps its own name too, in case it is in the key.
    own = {field_: pl.col(field_) for field_ in input_.schema.names}
    own |= {INPUT: pl.lit(name), EVENT_TIME: pl.col(input_.event_time)}
    return events.select(own.get(field_, pl.lit(None)).cast(kind).alias(field_) for field_, kind in wanted.items())


def parted_by_input(inputs: Mapping[str, Input], events: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Separate events by input, each in its own columns; an input without events has an empty frame."""
    if len(inputs) == 1:
        return dict.fromkeys(inputs, events)
    by_input: dict[str, pl.DataFrame] = {}
    for name, input_ in inputs.items():
        own = [
            pl.col(EVENT_TIME).alias(field_) if field_ == input_.event_time else field_
            for field_ in input_.schema.names
        ]
        by_input[name] = events.filter(pl.col(INPUT) == name).select(own)
    return by_input


def are_late(inputs: Mapping[str, Input], events: pl.DataFrame, previous_watermark: datetime) -> pl.Series:
    """Return whether the result of each event was final at the previous watermark (`Input.final_at`)."""
    return (final_times(inputs, events) <= previous_watermark).fill_null(value=False)


def final_times(inputs: Mapping[str, Input], events: pl.DataFrame) -> pl.Series:
    """Return when the result of each event is final (`Input.final_at`); NULL where the step decides."""
    times = pl.Series([None], dtype=pl.Datetime("us", "UTC")).new_from_index(0, events.height)
    for name, input_ in inputs.items():
        final = input_.is_late_at
        if final is None or not events.height:
            continue
        own = events
        if len(inputs) > 1:
            # In the frame of all inputs, the event time has a name of its own.
            own = events.with_columns(pl.col(EVENT_TIME).alias(input_.event_time))
            final = pl.when(pl.col(INPUT) == name).then(final)
        of_input = own.select(final).to_series()
        times = of_input if len(inputs) == 1 else times.zip_with(times.is_not_null(), of_input)
    return times


def counts_by_input(inputs: Mapping[str, Input], events: pl.DataFrame) -> tuple[int, ...]:
    """Count the events of each input, in the order of their declaration."""
    if len(inputs) == 1:
        (input_,) = inputs.values()
        return (int(events.select(input_.events).item() or 0),)
    counts = dict(events[INPUT].value_counts().iter_rows()) if events.height else {}
    return tuple(counts.get(name, 0) for name in inputs)
