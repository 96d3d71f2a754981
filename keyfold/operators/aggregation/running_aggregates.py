"""Make jobs that write a row per event: what its key has come to with it, such as a running total or the event's number."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa

from keyfold.columns import required
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.inputs import Input, Source, as_input
from keyfold.keyed.job.parameters import WindowShape
from keyfold.keyed.job.state import State
from keyfold.keyed.job.step import DEADLINE, PROCESSING_DEADLINE, Clock, Step
from keyfold.keyed.job.tables import Append, OutputTable
from keyfold.keyed.job.timeouts import Timeout
from keyfold.operators.aggregation.aggregates import IN_ANY_ORDER, Aggregate
from keyfold.operators.aggregation.cutting import cut_lifetimes
from keyfold.operators.aggregation.inference import OutputColumns
from keyfold.operators.aggregation.rows_in_order import AggregatesInOrder
from keyfold.operators.aggregation.so_far import aggregates_so_far
from keyfold.operators.aggregation.window_shapes import WINDOW_END, WINDOW_START
from keyfold.operators.ordering import in_order
from keyfold.operators.signatures import operator
from keyfold.operators.stepping import optional, step_job
from keyfold.schemas import Columns, names_of
from keyfold.stream import TIMESTAMP
from keyfold.times import period_start, period_starts, to_times

_IS_THERE = "#there"
_KINDS = tuple(kind for kind in IN_ANY_ORDER if kind != "quantile")


class _Added(NamedTuple):
    """Rows of output, and the rows of all keys that were passed in, after them."""

    output: pl.DataFrame
    totals: pl.DataFrame


@operator()
def running(
    name: str,
    source: Source,
    of: Mapping[str, Aggregate],
    *,
    key: str | Sequence[str],
    output: Columns | None = None,
    then: Mapping[str, pl.Expr] | None = None,
    latest: OutputTable | None = None,
    at_once: bool = False,
    expiry: Timeout | None = None,
    window: WindowShape | None = None,
    **settings: Any,
) -> KeyedJob:
    """Make a job that writes a row per event with the aggregates of its key's events up to and with it.

    - **Order**: an event waits until the watermark has passed it. The events of a key are then taken in order, so neither
      arrival nor batch boundaries change a row. With `at_once`, the events of a batch are taken after those of earlier ones.
    - **Late events**: none without `window`; an event behind the watermark is taken at once, after those before it. With
      `window`, an event is late if its window ended before it arrived.
    - **Silent keys**: kept for ever, or until `expiry`; the next event starts anew. In event time the silence is between two
      events. In processing time it is from the run that brought the last event; waiting events are taken first.
    - **State**: one row per key, and the waiting events; a row with an event time is one. `count_distinct` and `collect` keep their
      values.
    - **`first`, `last` and `collect`** go by this order, so a late event comes after those before it. There is no `quantile`: each
      row would sort all values of its key again. Make a step of your own for it, or take it of `windows`.

    Args:
        name: the job's name.
        source: the stream, or its `Input`.
        of: the aggregates by column: all but `quantile`, `over_pairs` and `sum_of_decreases`.
        key: the key columns. With `window`, `window_start` is added to them.
        output: columns of the table: columns of the events, of `of` and of `then`; with `window` also `window_start` and
            `window_end`. By default all of them.
        then: columns computed from the event's columns and the aggregates, which come before an event's column of the same name.
        latest: a table to upsert when an event arrives, with the aggregates of all events of its key, waiting ones included. It has
            the key, and any of `of`, and of `then` that is computed of these alone.
        at_once: whether an event's row is written when it arrives, instead of when the watermark has passed it.
        expiry: silence after which a key's state is dropped.
        window: windows of event time in which keys are counted apart; an event of several windows is in each.
        settings: other arguments of `KeyedJob`.

    Raises:
        Misconfigured: an aggregate is none of these, or does not fit its values; or `latest` has another column.

    Example:
        >>> from datetime import UTC, datetime, timedelta
        >>> from keyfold import Input, Stream, TestHarness
        >>> from keyfold.operators import count, sum
        >>> user = pa.field("user", pa.string(), nullable=False)
        >>> sale = pa.schema([user, pa.field("at", TIMESTAMP, nullable=False), ("paid", pa.int64())])
        >>> job = running(
        ...     "spent", Input(Stream("sales", sale, event_time="at"), columns=sale),
        ...     {"n": count(), "in_all": sum("paid")}, key="user",
        ... )
        >>> harness, noon = TestHarness(job), datetime(2026, 1, 31, 12, tzinfo=UTC)
        >>> sales = pl.DataFrame({"user": ["ann"] * 2, "at": [noon, noon - timedelta(hours=1)], "paid": [3, 4]})
        >>> harness.batch(sales).tables["spent"].select("user", "n", "in_all").rows()
        [('ann', 1, 4), ('ann', 2, 7)]
    """
    source, key = as_input(source), names_of(key)
    events, event_time = source.schema, source.event_time
    computed = dict(then or {})
    if window is not None:
        computed[WINDOW_END] = pl.col(WINDOW_START) + window.length
        key, events = (*key, WINDOW_START), events.append(_window_start(event_time))
        source = _in_windows(source, events, window)
    output_columns = OutputColumns(name, source, key, of, computed, decided_by=[event_time])
    table = output_columns.output(output, by=events.names)
    taken = [*key, event_time, DEADLINE, PROCESSING_DEADLINE, WINDOW_START, WINDOW_END]
    aggregates = AggregatesInOrder(
        name,
        of,
        source,
        output_columns.aggregates_in(table),
        taken,
        operator="running",
        has=_KINDS,
        last_is_kept=False,
    )
    parts = aggregates.fields if window is None else aggregates.state
    columns = pa.schema([*map(events.field, key), *parts, *optional(events, key), pa.field(DEADLINE, TIMESTAMP)])
    columns, waits = columns if expiry is None else expiry.add_column(columns), pl.col(event_time)
    if latest is not None:
        latest = output_columns.table(latest, table, [events.field(column) for column in key])
    upserts = () if latest is None else (latest,)
    shown = [computed.get(column, pl.col(column)).alias(column) for column in table.names]
    step = _Running(aggregates, key, event_time, events.names, shown, computed, upserts, at_once, expiry, window).step
    stored = aggregates.stored(waits.is_null(), key, groups_end=window is not None)
    stored = replace(stored, of_events=[name for name in events.names if name not in (*key, event_time)])
    state = State(columns, events=waits.count(), one_per_key=waits.is_null(), aggregates=stored)
    return step_job(name, source, key, state, step, [Append(table), *upserts], settings)


@dataclass(frozen=True)
class _Running:
    """The step of `running`; `columns` are those of events."""

    aggregates: AggregatesInOrder
    key: tuple[str, ...]
    event_time: str
    columns: list[str]
    shown: list[pl.Expr]
    then: Mapping[str, pl.Expr]
    latest: tuple[OutputTable, ...]
    at_once: bool
    expiry: Timeout | None
    window: WindowShape | None

    @property
    def _parts(self) -> list[pa.Field]:
        return self.aggregates.fields if self.window is None else self.aggregates.state

    def step(self, state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
        late, waits = None, pl.col(self.event_time).is_not_null()
        if self.window is not None:
            # Decided by the watermark before these events, so that results do not depend on batch boundaries.
            was_over = pl.col(WINDOW_START) + self.window.length <= clock.previous_watermark
            late, events = events.filter(was_over), events.filter(~was_over)
        is_over = self.expiry is not None and self.expiry.has_run_out(state, clock)
        came = pl.concat([state.filter(waits).select(self.columns), events.select(self.columns)])
        is_due = pl.lit(value=True) if self.at_once or is_over else pl.col(self.event_time) <= clock.watermark
        waiting = came.filter(~is_due)
        added = self._add(state.filter(~waits), came.filter(is_due))
        if is_over:
            return Step(state=state.clear(), output=added.output)
        # The deadline is the expiry in event time, or the end of the window.
        totals = added.totals.filter((pl.col(DEADLINE) > clock.watermark).fill_null(value=True))
        rows = pl.concat([totals, waiting.with_columns(pl.col(self.event_time).alias(DEADLINE))], how="diagonal")
        if self.expiry is not None:
            rows = self.expiry.renew(rows, state, events, self.key, clock)
        newest = {table.name: self._newest(added.totals, waiting, events, table) for table in self.latest}
        return Step(state=rows, output=added.output, late=late, side=newest)

    def _add(self, totals: pl.DataFrame, events: pl.DataFrame) -> _Added:
        """Add events to the rows of their keys, or start anew if the key has expired."""
        parts = [field.name for field in self._parts]
        totals = totals.select(*self.key, *parts, DEADLINE).with_columns(pl.lit(value=True).alias(_IS_THERE))
        ordered = in_order(events.select(self.columns), self.key, self.event_time)
        totals_of_keys = ordered.events.select(self.key)[ordered.starts]
        totals_of_keys = totals_of_keys.join(totals, on=self.key, how="left", maintain_order="left")
        lifetimes = cut_lifetimes(ordered, self.event_time, totals_of_keys[DEADLINE], self.expiry)
        totals_of_keys = totals_of_keys[lifetimes.key_number]
        ordered, goes_on = lifetimes.ordered, pl.Series(lifetimes.goes_on) & totals_of_keys[_IS_THERE].is_not_null()
        before = totals_of_keys.select(parts)
        so_far = aggregates_so_far(self.aggregates, before, goes_on, ordered)
        ends = so_far.ends.filter(pl.Series(lifetimes.is_latest))
        lasts = ordered.lasts[lifetimes.is_latest]
        due = None
        if self.expiry is not None and self.expiry.in_event_time:
            due = to_times(lifetimes.last[lifetimes.is_latest]) + self.expiry.after
        changed = ordered.events.select(self.key)[lasts].with_columns(
            *(
                ends[part].cast(kind) if part in ends.columns else pl.lit(None, kind).alias(part)
                for part, kind in totals.select(parts).schema.items()
            ),
            pl.lit(due, pl.Datetime("us", "UTC")).alias(DEADLINE),
        )
        if self.window is not None:
            changed = changed.with_columns((pl.col(WINDOW_START) + self.window.length).alias(DEADLINE))
        rows = pl.concat([totals.join(changed, on=self.key, how="anti").drop(_IS_THERE), changed])
        return _Added(ordered.events.with_columns(so_far.values).select(self.shown), rows)

    def _newest(
        self, totals: pl.DataFrame, waiting: pl.DataFrame, events: pl.DataFrame, table: OutputTable
    ) -> pl.DataFrame:
        """Return the rows of the keys with new events, waiting events included."""
        keys = events.select(self.key).unique()
        with_events, held = (rows.join(keys, on=self.key, how="semi") for rows in (totals, waiting))
        rows = self._add(with_events, held).totals if held.height else with_events
        parts = rows.select(field.name for field in self._parts)
        rows = rows.select(self.key).with_columns(self.aggregates.finished(parts))
        return rows.select(self.then.get(column, pl.col(column)).alias(column) for column in table.schema.names)


def _window_start(event_time: str) -> pa.Field:
    return required(WINDOW_START, TIMESTAMP, "Start of the window (UTC)", lineage=(event_time,))


def _in_windows(source: Input, columns: pa.Schema, window: WindowShape) -> Input:
    """Return the input whose events get the start of their window, or of each of their windows."""
    time = pl.col(source.event_time)
    if window.overlaps:
        starts = period_starts(time, window.length, window.every)
        return replace(source, source=source.refined.explode(WINDOW_START, starts), columns=columns)
    derived = source.refined.derive(**{WINDOW_START: period_start(time, window.length)})
    return replace(source, source=derived, columns=columns)
