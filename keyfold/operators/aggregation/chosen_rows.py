"""Make jobs that keep the top rows or the last row of each key."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import polars as pl
import pyarrow as pa

from keyfold.columns import column
from keyfold.errors import Misconfigured
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.inputs import Input, Source, as_input
from keyfold.keyed.job.state import State
from keyfold.keyed.job.step import DEADLINE, Clock, Step, StepFunction
from keyfold.keyed.job.tables import Append, OutputTable, Upsert
from keyfold.operators.aggregation.aggregates import COUNTED
from keyfold.operators.aggregation.combined_rows import counting_job, number_of_events
from keyfold.operators.aggregation.cutting import cut_lifetimes, expiry_of
from keyfold.operators.ordering import in_order
from keyfold.operators.signatures import operator
from keyfold.operators.stepping import tie_columns
from keyfold.schemas import field_of, names_of
from keyfold.stream import TIMESTAMP

RANK = "rank"
"""Output column: the rank of a row within its key, from 1."""


@operator()
def top_rows(
    name: str,
    source: Source,
    *,
    n: int,
    highest: str,
    ties: str | Sequence[str] = (),
    key: str | Sequence[str],
    counted: str = COUNTED,
    changes: bool = False,
    **settings: Any,
) -> KeyedJob:
    """Make a job that keeps the `n` rows with the highest values of each key, and upserts a row when its rank changes.

    The table has the columns of the events and `rank`; key and `rank` are unique. Keys never close, so no event is late. Each
    partition drops all but its highest rows before the shuffle.

    Args:
        name: the job's name.
        source: the stream, or its `Input`, whose columns the table has.
        n: number of rows per key.
        highest: the column that ranks rows; never NULL.
        ties: columns that rank rows with equal values, ascending; the remaining columns follow.
        key: the key columns.
        counted: the column of events and state with the number of events of a key.
        changes: whether what changes is written to `changes.<name>`, for other jobs (`KeyedJob.changes`).
        settings: other arguments of `KeyedJob`.

    Raises:
        Misconfigured: `n` is less than 1, or `highest` may be NULL.

    Example:
        >>> from datetime import UTC, datetime, timedelta
        >>> from keyfold import Input, Stream, TestHarness
        >>> fields = ("game", pa.string()), ("at", pa.timestamp("us", "UTC")), ("score", pa.int64())
        >>> score = pa.schema([pa.field(one, kind, nullable=False) for one, kind in fields])
        >>> job = top_rows(
        ...     "best_scores", Input(Stream("scores", score, event_time="at"), columns=score), n=2, highest="score", key="game",
        ... )
        >>> harness, noon = TestHarness(job), datetime(2026, 1, 31, 12, tzinfo=UTC)
        >>> played = pl.DataFrame({"game": ["go"] * 3, "at": [noon] * 3, "score": [7, 9, 8]})
        >>> harness.batch(played).tables["best_scores"].select("score", "rank").rows()
        [(9, 1), (8, 2)]
    """
    if n < 1:
        raise Misconfigured(f"job {name}: n is {n}; it must be 1 or more")
    source, key = as_input(source), names_of(key)
    events = source.schema
    if highest not in events.names or events.field(highest).nullable:
        raise Misconfigured(
            f"job {name}: highest is {highest}; it must be a column of events that is never NULL (nullable=False)"
        )
    ties = names_of(ties)
    for one in ties:
        field_of(f"job {name}: ties", one, events)
    by, others = list(key), [one for one in events.names if one not in (*key, highest, *ties)]
    order = [*key, highest, *ties, *others]
    descending = [one == highest for one in order]

    def top(rows: pl.DataFrame) -> pl.DataFrame:
        ordered = rows[rows.select(pl.arg_sort_by(order, descending=descending)).to_series()]
        rank = pl.int_range(1, pl.len() + 1, dtype=pl.Int64).over(by)
        ranked = ordered.with_columns(rank.alias(RANK), pl.col(counted).sum().over(by))
        # The first row has the number of events of all rows of the key, also of those that are dropped here.
        first = pl.when(pl.col(RANK) == 1).then(counted).otherwise(0).alias(counted)
        return ranked.filter(pl.col(RANK) <= n).with_columns(first)

    def step(state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
        kept = top(pl.concat([state.drop(RANK), events], how="diagonal"))
        # By value: a row may move to a rank where the table has an equal row.
        changed = kept.join(state, on=output.names, how="anti", nulls_equal=True, maintain_order="left")
        return Step(state=kept.select(state.columns), output=changed.select(output.names))

    output = events.append(
        column(RANK, pa.int64(), "Place among the rows of the key, from 1", lineage=(highest,), nullable=False)
    )
    return _kept(
        name,
        source,
        key,
        counted,
        output,
        (*key, RANK),
        step,
        lambda rows: top(rows).drop(RANK),
        settings,
        changes=changes,
    )


@operator()
def last_rows(
    name: str,
    source: Source,
    *,
    key: str | Sequence[str],
    expires: timedelta | str | None = None,
    counted: str = COUNTED,
    changes: bool = False,
    **settings: Any,
) -> KeyedJob:
    """Make a job that keeps the last row of each key by event time, and upserts it when a later one arrives.

    The job also de-duplicates a stream by its key. State is one row per key.

    - **Without `expires`**, keys never close, so no event is late.
    - **With `expires`**, a key that was silent for longer leaves state. The table keeps its row, and `<name>_expired` gets a row
      with the number of its events; how many such rows a key has depends on the batches, and their sum does not. An event is
      late if it is that much behind the watermark, so that no older row replaces a newer one.

    Args:
        name: the job's name.
        source: the stream, or its `Input`, whose columns the table has.
        key: the key columns.
        expires: silence in event time after which a key leaves state; by default never.
        counted: the column of events and state with the number of events that a row stands for.
        changes: whether what changes is written to `changes.<name>`, for other jobs (`KeyedJob.changes`).
        settings: other arguments of `KeyedJob`.

    Raises:
        Misconfigured: `expires` is not positive.

    Example:
        >>> from datetime import UTC, datetime, timedelta
        >>> from keyfold import Input, Stream, TestHarness
        >>> user = pa.field("user", pa.string(), nullable=False)
        >>> seen = pa.schema([user, ("at", pa.timestamp("us", "UTC")), ("place", pa.string())])
        >>> job = last_rows(
        ...     "places", Input(Stream("seen", seen, event_time="at"), columns=seen), key="user",
        ... )
        >>> harness, noon = TestHarness(job), datetime(2026, 1, 31, 12, tzinfo=UTC)
        >>> came = {"user": ["ann"] * 2, "at": [noon + timedelta(hours=1), noon], "place": ["Rome", "Bern"]}
        >>> harness.batch(pl.DataFrame(came)).tables["places"]["place"].to_list()
        ['Rome']
    """
    source, key = as_input(source), names_of(key)
    events, event_time = source.schema, source.event_time
    columns, expiry = events.names, expiry_of(name, expires)
    others = tie_columns(events, key, event_time)
    until = pl.col(event_time) + (timedelta(0) if expiry is None else expiry.after)

    def last(rows: pl.DataFrame) -> pl.DataFrame:
        """Return the last row of each lifetime of a key; `#newest` is the key's last."""
        ordered = in_order(rows, key, event_time, others)
        never = pl.Series([None], dtype=pl.Datetime("us", "UTC")).new_from_index(0, ordered.starts.size)
        lifetimes = cut_lifetimes(ordered, event_time, never, expiry)
        # Differences of one running sum give the number of events of each key without a group-by.
        lasts = lifetimes.ordered.lasts
        upto = ordered.events[counted].cum_sum().gather(lasts)
        number = (upto - upto.shift(fill_value=0)).alias(counted)
        return ordered.events[lasts].with_columns(number, pl.Series("#newest", lifetimes.is_latest))

    def step(state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
        late = None
        if expiry is not None:
            is_late = until <= clock.previous_watermark
            late, events = events.filter(is_late), events.filter(~is_late)
        known = state.with_columns(pl.lit(value=True).alias("#known"))
        rows = last(pl.concat([known, events], how="diagonal"))
        # If the last row comes from state, it is in the table already.
        changed = rows.filter(pl.col("#known").is_null() & pl.col("#newest")).select(columns)
        if expiry is None:
            return Step(state=rows.select(state.columns), output=changed)
        rows = rows.with_columns(until.alias(DEADLINE))
        stays = pl.col("#newest") & (pl.col(DEADLINE) > clock.watermark)
        ended = rows.filter(~stays).select(expired.schema.names)
        return Step(
            state=rows.filter(stays).select(state.columns), output=changed, late=late, side={expired.name: ended}
        )

    number = number_of_events(counted, event_time)
    expired = Append(
        pa.schema([*map(events.field, (*key, event_time)), number]),
        name=f"{name}_expired",
        events=pl.col(counted).sum(),
    )
    combine = (lambda rows: last(rows).drop("#newest")) if expiry is None else None
    more = {} if expiry is None else {"expired": expired}
    return _kept(name, source, key, counted, events, key, step, combine, settings, changes=changes, **more)


def _kept(
    name: str,
    source: Input,
    key: tuple[str, ...],
    counted: str,
    output: pa.Schema,
    output_key: tuple[str, ...],
    step: StepFunction,
    combine: Callable[[pl.DataFrame], pl.DataFrame] | None,
    settings: Mapping[str, Any],
    *,
    changes: bool,
    expired: OutputTable | None = None,
) -> KeyedJob:
    """Make a job that drops keys to `expired` only; one row of each key has the number of events of all its rows."""
    number = number_of_events(counted, source.event_time)
    kept = [number] if expired is None else [number, pa.field(DEADLINE, TIMESTAMP)]
    # A column of the key is never NULL where the condition leaves out such events.
    output = pa.schema([one.with_nullable(source.may_lack(one)) if one.name in key else one for one in output])
    return counting_job(
        name,
        source,
        counted,
        derive={counted: pl.lit(1, pl.Int64)},
        columns=source.schema.append(number),
        combine=combine,
        key=key,
        state=State(pa.schema([*output, *kept]), events=pl.col(counted).sum()),
        step=step,
        # State keeps the number of all events of its keys, so the conservation check must not count them in the table too.
        tables=[
            Upsert(output, output_key, events=pl.lit(0), changes=changes),
            *([] if expired is None else [expired]),
        ],
        settings=settings,
    )
