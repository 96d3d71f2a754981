"""Make jobs that collect the events of each key, and hand them on many at a time."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Any

import numpy as np
import polars as pl
import pyarrow as pa
from pydantic import Field

from keyfold.errors import Misconfigured
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.inputs import Source, as_input
from keyfold.keyed.job.state import State
from keyfold.keyed.job.step import DEADLINE, PROCESSING_DEADLINE, Clock, Step
from keyfold.keyed.job.tables import OutputTable
from keyfold.operators.ordering import in_order
from keyfold.operators.signatures import operator
from keyfold.operators.stepping import step_job
from keyfold.schemas import names_of
from keyfold.stream import TIMESTAMP
from keyfold.times import as_duration, shifted

BATCH = "batch"
"""The column with the number of an event's batch, in the frame that the function of `buffer` gets."""

_NEVER = pl.lit(None, pl.Datetime("us", "UTC"))

Send = Callable[[pl.DataFrame, Clock], Mapping[str, pl.DataFrame]]
"""Makes rows of tables, by name, of the events that leave."""


@operator()
def buffer(
    name: str,
    source: Source,
    size: Annotated[int, Field(ge=1)],
    send: Send,
    tables: Sequence[OutputTable],
    *,
    key: str | Sequence[str],
    wait: timedelta | str | None = None,
    processing_wait: timedelta | str | None = None,
    **settings: Any,
) -> KeyedJob:
    """Make a job that collects the events of a key, and hands on `size` of them at a time, or fewer that have waited long enough.

    - **Order**: event time, ties by all other columns. Each `size` events of a key leave together as soon as they are there. The
      rest leaves, all together, when one of them has waited for `wait` of event time or `processing_wait`. So which events are a
      batch depends on the clock and on which micro-batch brought them; a micro-batch that is repeated makes the same batches.
    - **Late events**: none; every event leaves.
    - **Silent keys**: their events leave by the waits; without these they stay until there are `size`.
    - **State**: the events that wait: fewer than `size` per key.

    Args:
        name: the job's name.
        source: the stream, or its `Input`.
        size: the number of events in a full batch.
        send: a function of the events that leave, in order, with the column `batch` (equal in events that leave together), and
            the clock. It returns rows by table. It may call a service if it keeps the answers (`Clock.responses`).
        tables: the tables; the first is the main one. Each event must be in one row of one of them, or be counted by
            the table's `events`.
        key: the key columns.
        wait: event time that an event waits at most, after its own time.
        processing_wait: processing time that an event waits at most.
        settings: other arguments of `KeyedJob`.

    Raises:
        Misconfigured: `size` is less than one, a wait is none, or the events have a column with a reserved name.

    Example:
        >>> from datetime import UTC, datetime
        >>> from keyfold import Append, Input, Stream, TestHarness
        >>> room = pa.field("room", pa.string(), nullable=False)
        >>> read = pa.schema([room, pa.field("at", TIMESTAMP, nullable=False), ("celsius", pa.float64())])
        >>> rows = pa.schema([room, ("celsius", pa.list_(pa.float64()))])
        >>> job = buffer(
        ...     "pairs", Input(Stream("readings", read, event_time="at"), columns=read), 2,
        ...     lambda events, clock: {"pairs": events.group_by("room", "batch").agg("celsius").drop("batch")},
        ...     [Append(rows, events=pl.col("celsius").list.len().sum())], key="room", wait="1h",
        ... )
        >>> harness, noon = TestHarness(job), datetime(2026, 1, 31, 12, tzinfo=UTC)
        >>> times = [noon + timedelta(minutes=minutes) for minutes in range(3)]
        >>> came = pl.DataFrame({"room": ["hall"] * 3, "at": times, "celsius": [20.0, 21.0, 22.0]})
        >>> harness.batch(came).tables["pairs"].rows()
        [('hall', [20.0, 21.0])]
    """
    source, key = as_input(source), names_of(key)
    if taken := {BATCH, DEADLINE, PROCESSING_DEADLINE}.intersection(source.schema.names):
        raise Misconfigured(
            f"job {name}: {source.stream.name} has {', '.join(sorted(taken))}, which the job's state needs"
        )
    wait = None if wait is None else as_duration(f"job {name}: wait", wait)
    if processing_wait is not None:
        processing_wait = as_duration(f"job {name}: processing_wait", processing_wait)
    state = pa.schema([*source.schema, pa.field(DEADLINE, TIMESTAMP), pa.field(PROCESSING_DEADLINE, TIMESTAMP)])

    def step(rows: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
        leaves_at = None if processing_wait is None else shifted(clock.processing_time, processing_wait)
        came = events.with_columns(
            _NEVER.alias(DEADLINE) if wait is None else (pl.col(source.event_time) + wait).alias(DEADLINE),
            pl.lit(leaves_at, pl.Datetime("us", "UTC")).alias(PROCESSING_DEADLINE),
        )
        ordered = in_order(pl.concat([rows, came.select(rows.columns)]), key, source.event_time)
        waiting, number = ordered.events, ordered.key_number
        is_due = (pl.col(DEADLINE) <= clock.watermark) | (pl.col(PROCESSING_DEADLINE) <= clock.processing_time)
        place = np.arange(waiting.height) - ordered.starts[number]
        counts = ordered.lasts + 1 - ordered.starts
        is_full = place < (counts - counts % size)[number]
        # If one event of a key's rest is due, all of it leaves.
        due = waiting.select(is_due.fill_null(value=False)).to_series().to_numpy() & ~is_full
        leaves = is_full | np.bincount(number[due], minlength=len(counts)).astype(bool)[number]
        batch = pl.Series(BATCH, np.cumsum(place % size == 0)[leaves])
        leaving = waiting.filter(leaves).drop(DEADLINE, PROCESSING_DEADLINE).with_columns(batch)
        tables_by_name = dict(send(leaving, clock))
        return Step(state=waiting.filter(~leaves), output=tables_by_name.pop(name), side=tables_by_name)

    return step_job(name, source, key, State(state), step, tables, settings)
