"""Make jobs that keep running totals: one row per key, upserted when it changes."""

from collections.abc import Mapping
from typing import Any

import polars as pl
import pyarrow as pa

from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.step import Clock, Step
from keyfold.operators.aggregation.aggregates import COUNTED, Aggregate, Aggregates, counting_job, newest


def totals(
    name: str,
    of: Mapping[str, Aggregate],
    *,
    key: tuple[str, ...],
    event_time: str,
    output: pa.Schema,
    then: Mapping[str, pl.Expr] | None = None,
    latest: str = "",
    counted: str = COUNTED,
    events: pa.Schema | None = None,
    **settings: Any,
) -> KeyedJob:
    """Make a job that aggregates all events of each key, and upserts the key's row when it changes.

    Keys never close, so no event is late, and the table does not depend on the order of events. Events are aggregated before
    the shuffle.

    Args:
        name, of, key, event_time, settings: as for `windows`.
        output: columns of the table: the key, and any of `of`, `then`, `latest` and `counted`.
        then: columns computed from the others, such as an average.
        latest: the column with the time of the newest event; none by default.
        counted: the column with the number of events.
        events: columns of the late table; by default the key, the event time, the aggregates and `counted`.

    Raises:
        Misconfigured: a sum is over floats, or a column is not declared.

    Example:
        >>> from datetime import UTC, datetime, timedelta
        >>> from keyfold import Stream, TestHarness
        >>> from keyfold.operators import max, sum
        >>> item = pa.field("item", pa.string(), nullable=False)
        >>> sale = pa.schema([item, ("at", pa.timestamp("us", tz="UTC")), ("price", pa.int64())])
        >>> job = totals(
        ...     "sales_of_items",
        ...     {"revenue": sum("price"), "dearest": max("price")},
        ...     stream=Stream("sales", sale, event_time="at"), key=("item",), event_time="at",
        ...     watermark_delay=timedelta(0), counted="sales", then={"average": pl.col("revenue") / pl.col("sales")},
        ...     output=pa.schema([item, ("revenue", pa.int64()), ("dearest", pa.int64()), ("average", pa.float64())]),
        ... )
        >>> harness, noon = TestHarness(job), datetime(2026, 1, 31, 12, tzinfo=UTC)
        >>> sold = pl.DataFrame({"item": ["tea"] * 2, "at": [noon] * 2, "price": [3, 5]})
        >>> harness.batch(sold).tables["sales_of_items"].rows()
        [('tea', 8, 5, 4.0)]
    """
    sums, by, last = (
        Aggregates(name, of, counted, event_time, output),
        list(key),
        [pl.col(latest).max()] if latest else [],
    )
    # Columns of `then` are computed from these again, so state does not need them.
    kept = [field for field in output if field.name in (*key, *sums.names, latest)]
    kept += [field for field in sums.fields if field not in kept]

    def combine(rows: pl.DataFrame) -> pl.DataFrame:
        return sums.combined(rows, by, pl.col(event_time).max())

    def step(state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
        came = events.with_columns(pl.col(event_time).alias(latest)) if latest else events
        rows = sums.joined(pl.concat([state, came.select(state.columns)]), by, *last).select(state.columns)
        return Step(state=rows, output=rows.with_columns(**then or {}).select(output.names))

    return counting_job(
        counted,
        settings,
        sums.derived,
        name=name,
        key=key,
        event_time=event_time,
        events=events or pa.schema([*(output.field(one) for one in key), newest(event_time), *sums.fields]),
        state=pa.schema(kept),
        output=output,
        step=step,
        combine=combine,
        output_events=pl.lit(0),
        # True for all rows: each key has one.
        one_per_key=pl.col(counted).is_not_null(),
        output_mode="upsert",
        output_key=key,
    )
