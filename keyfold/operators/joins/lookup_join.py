"""Lookup join: join each event with a row of a small table, as of when the event's batch was planned."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import polars as pl
import pyarrow as pa

from keyfold.errors import Misconfigured
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.inputs import STEP_DECIDES
from keyfold.keyed.job.lookups import Lookup
from keyfold.keyed.job.row_times import RowTimes
from keyfold.keyed.job.state import State
from keyfold.keyed.job.step import Clock, Step
from keyfold.keyed.job.tables import Append
from keyfold.keyed.rows.codec import polars_schema
from keyfold.operators.joins.sides import Side, named
from keyfold.operators.signatures import operator


@operator()
def lookup_join(
    name: str,
    events: Side,
    lookup: tuple[str, Lookup],
    *,
    how: Literal["inner", "left"] = "left",
    **settings: Any,
) -> KeyedJob:
    """Make a job that writes each event with the columns of its row in a lookup. It has no state, and no event is late.

    The events must have the lookup's key columns. A change of the lookup applies from the next run on, and does not change
    written rows.

    Args:
        name: name of the job.
        events: the input, with a name where it is not that of its stream.
        lookup: the lookup with its name.
        how: `left` keeps events without a row, with NULL in the lookup's columns; `inner` leaves them out.
        settings: other settings of `KeyedJob`.

    Raises:
        Misconfigured: the events lack a key column of the lookup, or both have another column of the same name.

    Example:
        >>> from datetime import UTC, datetime
        >>> from keyfold import Input, Stream, TestHarness
        >>> item = pa.field("item", pa.string(), nullable=False)
        >>> sold = pa.schema([item, pa.field("sold_at", pa.timestamp("us", tz="UTC"), nullable=False)])
        >>> job = lookup_join(
        ...     "named_sales",
        ...     Input(Stream("sales", sold, "sold_at"), columns=sold),
        ...     ("products", Lookup("products.csv", pa.schema([item, ("title", pa.string())]), ("item",))),
        ... )
        >>> harness = TestHarness(job)
        >>> _ = harness.batch({
        ...     "sales": pl.DataFrame({"item": ["t1", "x9"], "sold_at": [datetime(2026, 1, 31, tzinfo=UTC)] * 2}),
        ...     "products": pl.DataFrame({"item": ["t1"], "title": ["Green tea"]}),
        ... })
        >>> harness.written["named_sales"]["title"].to_list()
        ['Green tea', None]
    """
    (input_name, input_), (lookup_name, table) = named(events), lookup
    if lacking := [column for column in table.key if column not in input_.schema.names]:
        raise Misconfigured(
            f"job {name}: input {input_name} has no column {', '.join(lacking)}, the key of {lookup_name}; make it with "
            "`derive`"
        )
    for column in table.key:
        of_events, of_lookup = input_.schema.field(column).type, table.columns.field(column).type
        if of_events != of_lookup:
            raise Misconfigured(
                f"job {name}: the key's column {column} is {of_events} in {input_name}, and {of_lookup} in {lookup_name}; cast it with `derive`"
            )
    added = [field for field in table.columns if field.name not in table.key]
    if both := [field.name for field in added if field.name in input_.schema.names]:
        raise Misconfigured(
            f"job {name}: both {input_name} and {lookup_name} have {', '.join(both)}; leave it out of one of them"
        )
    output = pa.schema([*input_.schema, *(field.with_nullable(how == "left" or field.nullable) for field in added)])

    def step(state: pl.DataFrame, events: Mapping[str, pl.DataFrame], clock: Clock) -> Step:
        # Here, and not when the job is made: it imports pandas, which loading definitions should not.
        types = polars_schema(output)
        rows = events[input_name].join(events[lookup_name], on=list(table.key), how=how, maintain_order="left")
        return Step(state=state, output=rows.select(pl.col(column).cast(type_) for column, type_ in types.items()))

    # With `inner`, events without a row are in no output: they cannot be conserved.
    read = replace(input_, conserved=how == "left", final_at=STEP_DECIDES)
    state = State(pa.schema([input_.schema.field(column) for column in table.key]), events=pl.lit(0))
    written = Append(output, events=pl.len() if how == "left" else pl.lit(0))
    times = RowTimes(read.event_time)
    return KeyedJob(
        name, {input_name: read, lookup_name: table}, table.key, state, step, written, row_times=times, **settings
    )
