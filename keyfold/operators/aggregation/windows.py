"""Make jobs that aggregate the events of each key by tumbling or hopping windows of event time, or by the calendar."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import polars as pl
import pyarrow as pa

from keyfold.columns import column, passed_on
from keyfold.errors import Misconfigured
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.inputs import Source, as_input
from keyfold.keyed.job.row_times import RowTimes
from keyfold.keyed.job.state import State
from keyfold.keyed.job.step import DEADLINE
from keyfold.keyed.job.tables import Append, OutputTable, Upsert
from keyfold.operators.aggregation.aggregates import COUNTED, Aggregate, readable
from keyfold.operators.aggregation.combined_rows import Aggregates, counting_input, newest
from keyfold.operators.aggregation.inference import OutputColumns, counted_by
from keyfold.operators.aggregation.open_windows import OpenWindows
from keyfold.operators.aggregation.top_groups import Top, TopGroups, rank_column
from keyfold.operators.aggregation.window_shapes import IS_OPEN, PANE, WINDOW_END, WINDOW_START, Calendar, shape_of
from keyfold.operators.signatures import operator
from keyfold.operators.stepping import step_job
from keyfold.schemas import Columns, field_of, names_of
from keyfold.stream import TIMESTAMP
from keyfold.times import to_silence
from keyfold.validation import argument, declaration, optional

_TIMES = (WINDOW_START, WINDOW_END)


@declaration("lateness")
class Lateness:
    """When the row of a window is written again (`windows(lateness=…)`); the table is one to upsert then.

    Its key are the key of the job, `by` and `window_start`.

    Attributes:
        allowed: how long after its end a window takes events: each batch that has some upserts the corrected row.
        while_open: whether the row is written whenever it changes, with `is_open` until the end of the window; for windows that
            do not overlap.
        changes: whether what changes is written to `changes.<name>`, for other jobs (`KeyedJob.changes`).

    Raises:
        Misconfigured: `allowed` is not positive, or there is neither `allowed` nor `while_open`.

    Example:
        >>> Lateness(allowed="1h").allowed
        datetime.timedelta(seconds=3600)
    """

    allowed: timedelta | None = argument(converter=optional(to_silence), default=None)
    while_open: bool = False
    changes: bool = False

    def __post_init__(self) -> None:
        if self.allowed is None and not self.while_open:
            raise ValueError("no row changes without `allowed` or `while_open`; give one of them")


@operator()
def windows(
    name: str,
    source: Source,
    of: Mapping[str, Aggregate],
    *,
    length: timedelta | str | Calendar,
    key: str | Sequence[str] = (),
    every: timedelta | str | None = None,
    by: str | Sequence[str] = (),
    keep_max: str = "",
    top: Top | None = None,
    lateness: Lateness | None = None,
    then: Mapping[str, pl.Expr] | None = None,
    output: Columns | None = None,
    counted: str = "",
    **settings: Any,
) -> KeyedJob:
    """Make a job that aggregates the events of each key and window, and writes a window when the watermark passes its end.

    - **Windows** are aligned to 1970-01-01 UTC and exclude their end.
    - **Late events**: an event is added to those of its windows that are not final; it is late if all are. A window is final
      when it is written, or, with `Lateness(allowed=…)`, so long after its end: until then an event corrects its row.
    - **Order**: neither arrival nor batch boundaries change the row of a window that is final. Sums are exact.
    - **Silent keys**: their windows are written when the watermark passes their end, as those of all keys.
    - **State**: aggregates per pane of length `every` until its last window is final, not events.

    Args:
        name: the job's name.
        source: the stream, or its `Input`.
        of: the aggregates by column.
        length: length of a window; or `Calendar("month", "Europe/Berlin")`: its periods are the windows.
        key: the key columns. Only with `top` there may be none: each window is a key of its own then, and ranks cover all groups.
        every: time between two window starts, a divisor of `length`; by default `length`, so that windows do not overlap.
        by: further grouping columns within a window of a key.
        keep_max: write only the rows with the greatest value of this column in each window of a key, including ties.
        top: write only the groups of `by` with the highest aggregate in each window, with their `rank`, and the totals of
            all groups to a table of their own; for windows that do not overlap.
        lateness: write the row of a window again until it is final.
        then: columns computed from the others.
        output: columns of the table: the key, `by`, `window_start` or `window_end`, any of `of` and `then`, and `counted`; with
            `top` also `rank`. By default all of them.
        counted: the column with the number of events whose last window this is, including rows that `keep_max` drops. By
            default the first `count()` of windows that do not overlap, or `n_events`. With `top` it is in the table of totals.
        settings: other arguments of `KeyedJob`.

    Raises:
        Misconfigured: `length` is not a multiple of `every`, `output` lacks `counted`, there is no `key`, or two of `keep_max`,
            `top` and `lateness` are given, or `top` or `Lateness(while_open=True)` for windows that overlap.

    Example:
        >>> from datetime import UTC, datetime
        >>> from keyfold import Stream, TestHarness
        >>> from keyfold.operators import count
        >>> click = pa.schema([pa.field(one, kind, nullable=False) for one, kind in (("user", pa.string()), ("at", TIMESTAMP))])
        >>> clicks = Stream("clicks", click, event_time="at")
        >>> job = windows("clicks_per_hour", clicks, {"clicks": count()}, key="user", length="1h")
        >>> harness, noon = TestHarness(job), datetime(2026, 1, 31, 12, tzinfo=UTC)
        >>> came = pl.DataFrame({"user": ["ann"] * 2, "at": [noon] * 2})
        >>> harness.batch(came, advance_to=noon + timedelta(hours=1)).tables["clicks_per_hour"]["clicks"].to_list()
        [2]
        >>> best = windows("best", clicks, {"clicks": count()}, length="1h", by="user", top=Top(n=1, highest="clicks"))
        >>> ranks = TestHarness(best).batch(came, advance_to=noon + timedelta(hours=1)).tables
        >>> ranks["best"].select("rank", "user", "clicks").rows(), ranks["best_windows"].select("clicks", "n_groups").rows()
        ([(1, 'ann', 2)], [(2, 1)])
    """
    source, key, by, shape = as_input(source), names_of(key), names_of(by), shape_of(name, length, every)
    counted = counted_by(of, counted or (COUNTED if shape.overlaps or keep_max or top else ""))
    _check(name, of, key, by, keep_max, top, lateness, shape.overlaps, counted)
    event_time, computed = source.event_time, dict(then or {})
    groups, allowed_lateness = [*key, *by], None if lateness is None else lateness.allowed
    while_open = lateness is not None and lateness.while_open
    # An upsert table has the groups in its key.
    never_null = groups if lateness is not None else key
    ranking_columns = {} if top is None else top.columns_of(of, by)
    output_columns = OutputColumns(name, source, never_null, of, computed, ranking_columns)
    own = [column(IS_OPEN, pa.bool_(), "Whether it may still change", nullable=False)] if while_open else []
    own += [] if top is None else [rank_column()]
    table = output_columns.output(output, by=groups, times=_TIMES, counted="" if top else counted, more=own)
    if top is None and counted not in table.names:
        raise Misconfigured(f"job {name}: output has no column {counted}, by which events are counted (`counted`)")
    # Without a key, the window is the key, whose name people see.
    pane = PANE if key else WINDOW_START
    taken = [*groups, event_time, pane, DEADLINE, *_TIMES, IS_OPEN, *ranking_columns]
    sums = Aggregates(name, of, counted, source, output_columns.aggregates_in(table), taken)
    if top is None:
        fields, ranks = [field_of(f"job {name}: output", group, table) for group in groups], None
    else:
        fields = [field_of(f"job {name}: by", group, readable(source)) for group in groups]
        whole, latest = top.tables(output_columns, table, fields, counted)
        ranks = TopGroups(top, sums, key, by, pane, computed, table, whole, latest)
        fields = passed_on(pa.schema(fields))
    windows_of = OpenWindows(
        shape, sums, [*key], groups, pane, event_time, counted, keep_max, allowed_lateness, while_open, ranks, computed,
        table.names,
    )  # fmt: skip
    start, deadline = (
        column(own_name, TIMESTAMP, meaning, lineage=(event_time,), nullable=False)
        for own_name, meaning in (
            (pane, "Start of the span between two beginnings of windows (UTC)" if key else "Start of the window (UTC)"),
            (DEADLINE, "When the next window with this span is over, or the last is final (UTC)"),
        )
    )
    in_state = pl.col(sums.counted).sum()
    if allowed_lateness is not None:
        # Events of windows that have not ended are counted in state, all others in the table.
        in_state = pl.col(sums.counted).filter(pl.col(DEADLINE) <= windows_of.end).sum()
    derived = {pane: shape.start(pl.col(event_time)), **sums.derived}
    columns = pa.schema([*fields, newest(event_time), start, *sums.fields])
    source = counting_input(source, sums.counted, derive=derived, columns=columns, combine=windows_of.combine)
    state_columns = pa.schema([*fields, start, *sums.state, deadline])
    state = State(state_columns, events=in_state, aggregates=sums.stored([*groups, pane]))
    tables = _tables(table, groups, counted, lateness, ranks)
    settings["row_times"] = RowTimes(
        # An event counts in the last of its windows, which begins with its pane.
        (pl.col(WINDOW_START), shape.start_of(pl.col(WINDOW_END))), pl.col(pane), pl.col(pane), periods=shape,
        lateness=allowed_lateness or timedelta(0),
    )  # fmt: skip
    return step_job(name, source, key or (pane,), state, windows_of.step, tables, settings)


def _tables(
    table: pa.Schema, groups: Sequence[str], counted: str, lateness: Lateness | None, ranks: TopGroups | None
) -> list[OutputTable]:
    """Return the tables of a job, of which each event is counted in one."""
    if ranks is not None:
        others = [ranks.whole] if ranks.latest is None else [ranks.latest, ranks.whole]
        return [Append(table, events=pl.lit(0)), *others]
    number = pl.col(counted)
    if lateness is None:
        return [Append(table, events=number.sum())]
    closed = number.filter(~pl.col(IS_OPEN)) if lateness.while_open else number
    return [Upsert(table, (*groups, WINDOW_START), events=closed.sum(), changes=lateness.changes)]


def _check(
    job: str,
    of: Mapping[str, Aggregate],
    key: Sequence[str],
    by: Sequence[str],
    keep_max: str,
    top: Top | None,
    lateness: Lateness | None,
    overlaps: bool,
    counted: str,
) -> None:
    """Check that the arguments of a job fit together.

    Raises:
        Misconfigured: they do not.
    """
    chosen = {"keep_max": bool(keep_max), "top": top is not None, "lateness": lateness is not None}
    if len(both := [argument for argument, is_given in chosen.items() if is_given]) > 1:
        raise Misconfigured(f"job {job}: {both[0]} and {both[1]} cannot be combined; leave one of them out")
    if not key and top is None:
        raise Misconfigured(f"job {job}: give the columns of its key as `key`; only `top` ranks groups without one")
    if clash := sorted({*of, counted}.intersection(by)):
        raise Misconfigured(f"job {job}: {clash[0]} is a column of `by` and an aggregate, or `counted`: rename one")
    if keep_max and (
        keep_max not in (*by, *of, counted)
        or (keep_max in of and of[keep_max].kind in ("collect", "distinct", "first", "last"))
    ):
        raise Misconfigured(
            f"job {job}: keep_max is {keep_max!r}; it must be of `by`, or an aggregate that has an order"
        )
    if overlaps and (top is not None or (lateness is not None and lateness.while_open)):
        argument = "while_open" if top is None else "top"
        raise Misconfigured(f"job {job}: {argument} is for windows that do not overlap; leave out `every`")
    if top is not None:
        top.check(job, of, by)
