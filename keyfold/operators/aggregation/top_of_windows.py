"""Make jobs that rank the rows of each window of event time: the best-selling products of an hour."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import polars as pl
import pyarrow as pa

from keyfold.columns import column, passed_on
from keyfold.errors import Misconfigured
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.inputs import Source, as_input
from keyfold.keyed.job.state import State
from keyfold.keyed.job.step import DEADLINE, Clock, Step
from keyfold.keyed.job.tables import Append, OutputTable
from keyfold.operators.aggregation.aggregates import COUNTED, IN_ANY_ORDER, Aggregate, readable, require_known
from keyfold.operators.aggregation.chosen_rows import RANK
from keyfold.operators.aggregation.combined_rows import Aggregates, counting_job, newest
from keyfold.operators.aggregation.inference import OutputColumns
from keyfold.operators.signatures import operator
from keyfold.schemas import Columns, field_of, names_of, nearest
from keyfold.stream import TIMESTAMP
from keyfold.times import as_duration, period_start

START, END, IS_OPEN, GROUPS = "window_start", "window_end", "is_open", "n_groups"


@operator()
def top_of_windows(
    name: str,
    source: Source,
    of: Mapping[str, Aggregate],
    *,
    n: int,
    by: str | Sequence[str],
    highest: str,
    length: timedelta | str,
    output: Columns | None = None,
    whole: OutputTable | None = None,
    latest: OutputTable | None = None,
    then: Mapping[str, pl.Expr] | None = None,
    counted: str = COUNTED,
    **settings: Any,
) -> KeyedJob:
    """Make a job that writes the `n` groups of each window with the highest aggregate, once the watermark passes its end.

    - **Windows** follow one another, aligned to 1970-01-01 UTC, and exclude their end. The window is the key, so that ranks
      cover all groups.
    - **Late events**: those of a window that had ended before they arrived.
    - **Ties** are ranked by the columns of `by`. Sums are exact, so neither arrival nor batch boundaries change a row.
    - **State**: one row per group of an open window. Events are aggregated before the shuffle.

    Args:
        name: the job's name.
        source: the stream, or its `Input`.
        n: number of ranks.
        of: the aggregates by column.
        by: the columns of a group.
        highest: the aggregate that ranks groups.
        length: length of a window.
        output: columns of the table: `window_start`, `window_end`, `rank`, and any of `by`, `of` and `then`; by default all.
        whole: the table with one row per ended window, the aggregates of all its groups, and `n_groups`, their number; by default
            `<name>_windows`. One that is given must count the events (`Append(events=…)`).
        latest: a table to upsert with the ranks of windows with new events, open ones too (`is_open`).
        then: columns computed from the others.
        counted: the column of events and state with the number of events.
        settings: other arguments of `KeyedJob`.

    Raises:
        Misconfigured: `n` is less than 1, or `highest` is no aggregate that has an order.

    Example:
        >>> from datetime import UTC, datetime
        >>> from keyfold import Append, Stream, TestHarness
        >>> from keyfold.operators import sum
        >>> sale = pa.schema([("item", pa.string()), pa.field("at", TIMESTAMP, nullable=False), ("pieces", pa.int64())])
        >>> job = top_of_windows(
        ...     "best", Stream("sales", sale, event_time="at"), {"pieces": sum("pieces")}, n=1,
        ...     by="item", highest="pieces", length="1h",
        ... )
        >>> harness, noon = TestHarness(job), datetime(2026, 1, 31, 12, tzinfo=UTC)
        >>> sold = pl.DataFrame({"item": ["tea", "cup"], "at": [noon] * 2, "pieces": [3, 5]})
        >>> best = harness.batch(sold, advance_to=noon + timedelta(hours=1)).tables
        >>> best["best"].select("rank", "item", "pieces").rows(), best["best_windows"].select("pieces", "n_groups").rows()
        ([(1, 'cup', 5)], [(8, 2)])
    """
    source, by, length = as_input(source), names_of(by), as_duration(f"job {name}: length", length)
    event_time = source.event_time
    _check(name, of, n, by, highest, counted)
    ranking = of[highest].value.meta.root_names()
    output_columns = OutputColumns(name, source, (), of, then or {}, {RANK: [*ranking, *by], GROUPS: by})
    place = column(RANK, pa.int64(), "Place among the groups of the window, from 1", nullable=False)
    table = output_columns.output(output, by=by, times=(START, END), more=[place])
    number = column(GROUPS, pa.int64(), "How many groups", nullable=False)
    times = [pa.field(one, TIMESTAMP) for one in (START, END)]
    if whole is None:
        all_of = replace(output_columns, then={}).output(
            None, by=(), times=(START, END), counted=counted, more=[number]
        )
        declared = output_columns.aggregates_in(table)
        all_of = pa.schema([declared.field(one.name) if one.name in declared.names else one for one in all_of])
        whole = Append(all_of, name=f"{name}_windows", events=pl.col(counted).sum())
    whole = output_columns.table(whole, table, [*times, number], counted=counted)
    if latest is not None:
        of_groups = [field_of(f"job {name}: by", one, readable(source)) for one in by]
        own = [*times, *of_groups, place, pa.field(IS_OPEN, pa.bool_())]
        latest = output_columns.table(latest, table, own, counted=counted)
    taken = [START, *by, event_time, DEADLINE, END, RANK, IS_OPEN, GROUPS]
    sums = Aggregates(name, of, counted, source, output_columns.aggregates_in(table), taken)
    groups, end = [START, *by], pl.col(START) + length

    def combine(rows: pl.DataFrame) -> pl.DataFrame:
        return sums.combined(rows, groups, pl.col(event_time).max())

    def step(state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
        # Decided by the watermark before these events, so that results do not depend on batch boundaries.
        was_over, is_over = end <= clock.previous_watermark, end <= clock.watermark
        came = events.filter(~was_over)
        columns = [*groups, *sums.names]
        rows = sums.joined(pl.concat([state.select(columns), came.select(columns)]), groups)
        # Of open windows too: their totals are refused as soon as they do not fit.
        totals = sums.finished(sums.joined(rows, [START], pl.len().cast(pl.Int64).alias(GROUPS))).sort(START)
        still_open = rows.filter(~is_over)
        changed = still_open.join(came.select(START).unique(), on=START, how="semi")
        final, interim = ranked(sums.finished(rows.filter(is_over))), ranked(sums.finished(changed))
        side = {whole.name: shown(totals.filter(is_over), whole.schema)}
        if latest is not None:
            both = ((final, False), (interim, True))
            parts = [part.with_columns(pl.lit(is_open).alias(IS_OPEN)) for part, is_open in both]
            side[latest.name] = pl.concat([shown(part, latest.schema) for part in parts])
        return Step(
            state=still_open.with_columns(end.alias(DEADLINE)).select(state.columns),
            output=shown(final, table),
            late=events.filter(was_over),
            side=side,
        )

    def ranked(rows: pl.DataFrame) -> pl.DataFrame:
        # Sort only the groups that have as much as the n-th.
        candidates = rows.filter(pl.col(highest) >= pl.col(highest).top_k(n).min().over(START))
        ordered = candidates.sort(START, highest, *by, descending=[False, True, *(False for _ in by)])
        return ordered.with_columns(pl.int_range(1, pl.len() + 1).over(START).alias(RANK)).filter(pl.col(RANK) <= n)

    def shown(rows: pl.DataFrame, schema: pa.Schema) -> pl.DataFrame:
        used = {one: how for one, how in (then or {}).items() if one in schema.names}
        return rows.with_columns(end.alias(END)).with_columns(**used).select(schema.names)

    start, deadline = (
        column(one, TIMESTAMP, what, lineage=(event_time,), nullable=False)
        for one, what in ((START, "Start of the window (UTC)"), (DEADLINE, "End of the window (UTC)"))
    )
    keyed = [start, *passed_on(pa.schema([field_of(f"job {name}: by", one, readable(source)) for one in by]))]
    return counting_job(
        name,
        source,
        sums.counted,
        derive={START: period_start(pl.col(event_time), length), **sums.derived},
        columns=pa.schema([*keyed, newest(event_time), *sums.fields]),
        combine=combine,
        key=(START,),
        state=State(pa.schema([*keyed, *sums.fields, deadline]), events=pl.col(sums.counted).sum()),
        step=step,
        tables=[Append(table, events=pl.lit(0)), *(one for one in (latest, whole) if one is not None)],
        settings=settings,
    )


def _check(job: str, of: Mapping[str, Aggregate], n: int, by: Sequence[str], highest: str, counted: str) -> None:
    if n < 1:
        raise Misconfigured(f"job {job}: n is {n}; it must be 1 or more")
    require_known(job, of, IN_ANY_ORDER)
    if highest not in of or of[highest].kind in ("collect", "distinct"):
        raise Misconfigured(
            f"job {job}: highest is {highest!r}; it must be an aggregate that has an order{nearest(highest, list(of))}"
        )
    if both := sorted({*of, counted}.intersection(by)):
        raise Misconfigured(f"job {job}: {both[0]} is a column of `by` and an aggregate, or `counted`: rename one")
