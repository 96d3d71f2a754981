"""Make jobs that cut the events of each key into sessions, and write a row of each when it has ended."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
import pyarrow as pa

from keyfold.columns import plain_columns
from keyfold.errors import Misconfigured
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.inputs import Input, Source, as_input
from keyfold.keyed.job.state import State
from keyfold.keyed.job.step import DEADLINE, PROCESSING_DEADLINE
from keyfold.keyed.job.tables import Append, OutputTable, of_own_events
from keyfold.keyed.job.timeouts import Silence, Timeout, as_timeout
from keyfold.operators.aggregation.aggregates import Aggregate
from keyfold.operators.aggregation.combined_rows import Aggregates
from keyfold.operators.aggregation.inference import OutputColumns, counted_by
from keyfold.operators.aggregation.rows_in_order import AggregatesInOrder
from keyfold.operators.aggregation.session_ends import Until, While
from keyfold.operators.aggregation.sessions_by_gap import END, START, SessionsByGap
from keyfold.operators.aggregation.sessions_in_order import (
    CLOSED_AT,
    ENDED,
    HOLDS,
    SessionsInOrder,
    Written,
    count_and_start,
)
from keyfold.operators.signatures import operator
from keyfold.operators.stepping import step_job
from keyfold.schemas import Columns, check_condition, names_of
from keyfold.stream import TIMESTAMP


@operator(
    lateness="a late event may join two sessions that were written, of which none can be taken back; give the input a "
    "longer delay"
)
def sessions(
    name: str,
    source: Source,
    of: Mapping[str, Aggregate],
    *,
    key: str | Sequence[str],
    gap: Silence,
    until: Until | None = None,
    while_: While | None = None,
    then: Mapping[str, pl.Expr] | None = None,
    selected: Sequence[tuple[OutputTable, pl.Expr]] = (),
    output: Columns | None = None,
    counted: str = "",
    **settings: Any,
) -> KeyedJob:
    """Make a job that writes one row per session of a key: events at most `gap` apart, which an event or a condition may end sooner.

    | a session | is written when the watermark passes | events are late |
    |---|---|---|
    | with `gap` alone | `gap` after its last event | if their session would have been over, and they join no open one |
    | `until` an event | that event, or `gap` after the last one; an event `at_once` | behind the watermark, or for `closed_for` after the end of their key's session |
    | `while_` a condition holds | `pause` after the event that ends it, or `gap` after the last one | behind the watermark |

    - **`gap` in processing time** is from the run that brought the key's last event; events that wait are taken first. It is for
      sessions with `until` or `while_`. After it, a key may have another session at once.
    - **Order**: with `until` and `while_`, events are taken in order when the watermark has passed them. Neither arrival nor batch
      boundaries change a row, but with `at_once`.
    - **`while_`**: events for which the condition does not hold, for less than `pause`, are part of the session. All others are of
      the time between sessions, which ends with the next session or a silence. The event that ends either, the first of what
      follows without a silence, counts in all aggregates except the count. NaN in a column that may be NULL counts as NULL.
    - **State**: with `gap` alone one row per open session; else one row that sums up what the watermark has passed, the events that
      may be a pause, and those ahead of the watermark. Of a session that has ended, one row for `closed_for`.
    - There is no `lateness`: a late event may join two sessions that were written, and no row is taken back. Give the
      input a longer `delay`.

    Args:
        name, source, key, settings: as for `windows`.
        of: the aggregates by column. With `until` or `while_`, one is `count()`, and one the first event time.
        gap: the longest time between two events, in event time (`"30m"`), or a `Timeout` in processing time.
        until: the event that ends a session, and for how long its key is closed then.
        while_: the condition, its pause, and the table of the time between sessions.
        then: columns computed from the others; with `until` or `while_` also from `ended` (by an event, not a silence) and `holds`
            (whether it is a session).
        selected: further tables of sessions, each with a condition on the rows that it has too.
        output: columns of the table: the key, any of `of` and `then`; with `gap` alone also `window_start` (the first event),
            `window_end` and `counted`. By default all of them.
        counted: with `gap` alone, the column with the number of events; by default the first `count()`, or `n_events`.

    Raises:
        Misconfigured: both `until` and `while_` are given, or `gap` alone is in processing time; with either, `of` has no count, or
            no first event time; an aggregate does not fit its values; or `output` lacks `counted`.

    Example:
        >>> from datetime import UTC, datetime, timedelta
        >>> from keyfold import Stream, TestHarness, required
        >>> from keyfold.operators import count, first
        >>> click = [required("user", pl.String, "Who"), required("at", pl.Datetime("us", "UTC"), "When"), ("page", pl.String)]
        >>> clicks, noon = Stream("clicks", click, event_time="at"), datetime(2026, 1, 31, 12, tzinfo=UTC)
        >>> times = [noon + timedelta(minutes=minutes) for minutes in (0, 20, 25, 90)]
        >>> came = pl.DataFrame({"user": ["ann"] * 4, "at": times, "page": ["home", "bye", "home", "home"]})
        >>> of, is_bye = {"since": first("at"), "clicks": count()}, pl.col("page") == "bye"
        >>> for ends in {}, {"until": Until(is_bye, closed_for="1m")}, {"while_": While(~is_bye, pause="1m")}:
        ...     job = sessions("visits", clicks, of, key="user", gap="30m", **ends)
        ...     print(TestHarness(job).batch(came).tables["visits"]["clicks"].to_list())
        [3]
        [2, 1]
        [1, 1]
    """
    source, key, longest = as_input(source), names_of(key), as_timeout(f"job {name}: gap", gap)
    rule, then = until or while_, then or {}
    if until is not None and while_ is not None:
        raise Misconfigured(f"job {name}: until and while_ exclude each other; give one of them at most")
    if rule is not None:
        if counted:
            raise Misconfigured(f"job {name}: counted is for sessions with a gap alone; `of` has the count of these")
        return _in_order(name, source, of, key, longest, rule, then, selected, output, settings)
    if not longest.in_event_time:
        raise Misconfigured(f"job {name}: gap is in processing time, which only sessions with until or while_ have")
    counted, times = counted_by(of, counted), (START, END)
    output_columns = OutputColumns(name, source, key, of, then)
    table = output_columns.output(output, times=times, counted=counted)
    if counted not in table.names:
        raise Misconfigured(f"job {name}: output has no column {counted}, by which events are counted (`counted`)")
    taken = [*key, source.event_time, DEADLINE, *times]
    aggregates = Aggregates(name, of, counted, source, output_columns.aggregates_in(table), taken)
    own = [*map(source.schema.field, key), *(pa.field(time, TIMESTAMP) for time in times)]
    further = [
        (output_columns.table(further_table, table, own, counted=counted), which) for further_table, which in selected
    ]
    by_gap = SessionsByGap(aggregates, key, source.event_time, longest, then, table, further)
    tables = [Append(table, events=pl.col(counted).sum()), *(further_table for further_table, _ in further)]
    return by_gap.job(name, source, tables, settings)


def _in_order(
    name: str,
    source: Input,
    of: Mapping[str, Aggregate],
    key: tuple[str, ...],
    gap: Timeout,
    rule: Until | While,
    then: Mapping[str, pl.Expr],
    selected: Sequence[tuple[OutputTable, pl.Expr]],
    output: Columns | None,
    settings: Mapping[str, Any],
) -> KeyedJob:
    """Make a job whose sessions an event or a condition ends."""
    events, event_time, of_rule = source.schema, source.event_time, type(rule).__name__
    check_condition(f"job {name}: {of_rule}: condition", rule.condition, events)
    counted, start = count_and_start(name, of, event_time)
    output_columns = OutputColumns(name, source, key, of, then, decided_by=rule.condition.meta.root_names())
    flags = plain_columns(pa.bool_(), HOLDS, ENDED)
    table = output_columns.output(output, never_null=(counted, start), hidden=flags)
    taken = [HOLDS, ENDED, CLOSED_AT, DEADLINE, PROCESSING_DEADLINE]
    in_table = output_columns.aggregates_in(table)
    aggregates = AggregatesInOrder(name, of, source, in_table, taken, operator="sessions")
    own = [*map(events.field, key), *flags]
    written, tables = [Written("", table)], list[OutputTable]()
    for further, condition in selected:
        tables.append(output_columns.table(further, table, own))
        written.append(Written(further.name, tables[-1].schema, condition=condition))
    if isinstance(rule, While):
        between = output_columns.table(rule.between or Append(table, name=f"{name}_between"), table, own)
        tables.append(of_own_events(f"job {name}: between", between, counted))
        written.append(Written(between.name, between.schema, of_sessions=False))
    counts, starts = aggregates.column(counted), aggregates.column(start)
    step = SessionsInOrder(aggregates, rule, gap, key, event_time, events, counts, starts, then, written)
    # A key has one row of what has passed, or one of a session that has ended, beside any number of events.
    one_per_key = pl.col(starts).is_not_null() | pl.col(CLOSED_AT).is_not_null()
    stored = aggregates.stored(pl.col(starts).is_not_null(), key, counted, start)
    state = State(step.state, events=pl.col(counts).sum(), one_per_key=one_per_key, aggregates=stored)
    return step_job(name, source, key, state, step, [Append(table, events=pl.col(counted).sum()), *tables], settings)
