"""The job of sessions that only a silence ends: their rows stand for several events, and take more of them in any order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from keyfold.columns import column
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.inputs import Input
from keyfold.keyed.job.state import State
from keyfold.keyed.job.step import DEADLINE, Clock, Step
from keyfold.keyed.job.tables import OutputTable
from keyfold.keyed.job.timeouts import Timeout
from keyfold.operators.aggregation.combined_rows import Aggregates, counting_input, newest
from keyfold.operators.aggregation.cutting import after_silence
from keyfold.operators.ordering import in_order
from keyfold.operators.stepping import step_job
from keyfold.schemas import field_of
from keyfold.stream import TIMESTAMP
from keyfold.times import period_start, to_micros

START, END = "window_start", "window_end"


@dataclass(frozen=True)
class SessionsByGap:
    """What the job is made of.

    Attributes:
        aggregates: the aggregates.
        key, event_time: columns of the events.
        gap: the longest silence in a session.
        then: columns computed from the others.
        output: the columns of the table.
        selected: further tables of the rows, each with a condition.
    """

    aggregates: Aggregates
    key: tuple[str, ...]
    event_time: str
    gap: Timeout
    then: Mapping[str, pl.Expr]
    output: pa.Schema
    selected: Sequence[tuple[OutputTable, pl.Expr]]

    def job(self, name: str, source: Input, tables: Sequence[OutputTable], settings: Mapping[str, Any]) -> KeyedJob:
        """Return the job."""
        keyed = [field_of(f"job {name}: output", key, self.output) for key in self.key]
        start, deadline = (
            column(name, TIMESTAMP, meaning, lineage=(self.event_time,), nullable=False)
            for name, meaning in (
                (START, "Event time of the first of them (UTC)"),
                (DEADLINE, "End of the session (UTC)"),
            )
        )
        rows = pa.schema([*keyed, newest(self.event_time), start, *self.aggregates.fields])
        derived = {START: pl.col(self.event_time), **self.aggregates.derived}
        counted = self.aggregates.counted
        source = counting_input(source, counted, derive=derived, columns=rows, combine=self.combine)
        columns = pa.schema([*keyed, newest(self.event_time), start, *self.aggregates.state, deadline])
        stored = self.aggregates.stored([*self.key, START])
        state = State(columns, events=pl.col(counted).sum(), aggregates=stored)
        return step_job(name, source, self.key, state, self.step, tables, settings)

    @property
    def _span(self) -> tuple[pl.Expr, pl.Expr]:
        return pl.col(self.event_time).max(), pl.col(START).min()

    def combine(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Make one row of each period of the gap's length, whose events are always in one session."""
        rows = rows.with_columns(period_start(pl.col(self.event_time), self.gap.after).alias("#period"))
        return self.aggregates.combined(rows, [*self.key, "#period"], *self._span).drop("#period")

    def step(self, state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
        # The last column of state is the deadline, which events lack.
        both = ((state.drop(DEADLINE), True), (self.aggregates.new(events).select(state.columns[:-1]), False))
        rows = pl.concat([part.with_columns(pl.lit(is_known).alias("#known")) for part, is_known in both])
        ordered = in_order(rows, self.key, START, [])
        # A row may span several events, so its start is compared with the latest end before it.
        ends = ordered.events.select(pl.col(self.event_time).cum_max().over(self.key)).to_series()
        begins = after_silence(ordered, to_micros(ordered.events[START]), self.gap, to_micros(ends))
        rows = ordered.events.with_columns(pl.Series("#session", np.cumsum(begins)))
        joined = self.aggregates.joined(rows, [*self.key, "#session"], *self._span, pl.col("#known").any())
        joined = joined.with_columns((pl.col(self.event_time) + self.gap.after).alias(DEADLINE))
        # A session that contains state was open before, so its new events are not late: they have extended it.
        was_over = (pl.col(DEADLINE) <= clock.previous_watermark) & ~pl.col("#known")
        is_over = pl.col(DEADLINE) <= clock.watermark
        ended = self.aggregates.finished(joined.filter(is_over & ~was_over)).with_columns(pl.col(DEADLINE).alias(END))
        ended = ended.with_columns(**self.then)
        return Step(
            state=joined.filter(~is_over).select(state.columns),
            output=ended.select(self.output.names),
            side={table.name: ended.filter(which).select(table.schema.names) for table, which in self.selected},
            late=rows.join(joined.filter(was_over), on="#session", how="semi").select(events.columns),
        )
