"""Make jobs that keep running totals: one row per key, upserted when it changes."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
import pyarrow as pa

from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.inputs import Source, as_input
from keyfold.keyed.job.state import State
from keyfold.keyed.job.step import Clock, Step
from keyfold.keyed.job.tables import Upsert
from keyfold.operators.aggregation.aggregates import Aggregate
from keyfold.operators.aggregation.combined_rows import Aggregates, counting_input, newest
from keyfold.operators.aggregation.inference import OutputColumns, counted_by
from keyfold.operators.signatures import operator
from keyfold.operators.stepping import step_job
from keyfold.schemas import Columns, field_of, names_of


@operator()
def totals(
    name: str,
    source: Source,
    of: Mapping[str, Aggregate],
    *,
    key: str | Sequence[str],
    output: Columns | None = None,
    then: Mapping[str, pl.Expr] | None = None,
    latest: str = "",
    counted: str = "",
    changes: bool = False,
    **settings: Any,
) -> KeyedJob:
    """Make a job that aggregates all events of each key, and upserts the key's row when it changes.

    Keys never close, so no event is late, and the table does not depend on the order of events. Events are aggregated before
    the shuffle.

    Args:
        name, source, of, key, settings: as for `windows`.
        output: columns of the table: the key, and any of `of`, `then`, `latest` and `counted`; by default all.
        then: columns computed from the others, such as an average.
        latest: the column with the time of the newest event; none by default.
        counted: the column with the number of events; by default the first `count()`, or `n_events`.
        changes: whether what changes is written to `changes.<name>`, for other jobs (`KeyedJob.changes`).

    Raises:
        Misconfigured: an aggregate does not fit its values, or `output` has a column that there is not.

    Example:
        >>> from datetime import UTC, datetime, timedelta
        >>> from keyfold import Stream, TestHarness
        >>> from keyfold.operators import max, sum
        >>> item = pa.field("item", pa.string(), nullable=False)
        >>> sale = pa.schema([item, ("at", pa.timestamp("us", tz="UTC")), ("price", pa.int64())])
        >>> job = totals(
        ...     "sales_of_items",
        ...     Stream("sales", sale, event_time="at"),
        ...     {"revenue": sum("price"), "dearest": max("price")},
        ...     key="item", counted="sales", then={"average": pl.col("revenue") / pl.col("sales")},
        ...     output=pa.schema([item, ("revenue", pa.int64()), ("dearest", pa.int64()), ("average", pa.float64())]),
        ... )
        >>> harness, noon = TestHarness(job), datetime(2026, 1, 31, 12, tzinfo=UTC)
        >>> sold = pl.DataFrame({"item": ["tea"] * 2, "at": [noon] * 2, "price": [3, 5]})
        >>> harness.batch(sold).tables["sales_of_items"].rows()
        [('tea', 8, 5, 4.0)]
    """
    source, key = as_input(source), names_of(key)
    event_time, counted = source.event_time, counted_by(of, counted)
    output_columns = OutputColumns(name, source, key, of, then or {})
    table = output_columns.output(output, times=[latest] if latest else [], counted=counted)
    taken = [*key, event_time, *([latest] if latest else [])]
    sums, by = Aggregates(name, of, counted, source, output_columns.aggregates_in(table), taken), list(key)
    last = [pl.col(latest).max()] if latest else []
    state_columns = [*(field for field in table if field.name in (*key, latest)), *sums.fields]

    def combine(rows: pl.DataFrame) -> pl.DataFrame:
        return sums.combined(rows, by, pl.col(event_time).max())

    def step(state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
        came = events.with_columns(pl.col(event_time).alias(latest)) if latest else events
        rows = sums.joined(pl.concat([state, came.select(state.columns)]), by, *last).select(state.columns)
        return Step(state=rows, output=sums.finished(rows).with_columns(**then or {}).select(table.names))

    number = pl.col(sums.counted)
    of_key = [field_of(f"job {name}: output", column, table) for column in key]
    columns = pa.schema([*of_key, newest(event_time), *sums.fields])
    source = counting_input(source, sums.counted, derive=sums.derived, columns=columns, combine=combine)
    # True for all rows: each key has one.
    stored = sums.stored(key, groups_end=False)
    state = State(pa.schema(state_columns), events=number.sum(), one_per_key=number.is_not_null(), aggregates=stored)
    return step_job(name, source, key, state, step, Upsert(table, key, events=pl.lit(0), changes=changes), settings)
