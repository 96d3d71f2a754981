"""Make jobs that write the first row of each key and drop those that repeat it, for ever or for a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from keyfold.columns import column
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.inputs import Source, as_input
from keyfold.keyed.job.state import State
from keyfold.keyed.job.step import DEADLINE, Clock, Step
from keyfold.keyed.job.tables import Append, OutputTable
from keyfold.operators.aggregation.cutting import expiry_of
from keyfold.operators.ordering import Ordered, in_order
from keyfold.operators.signatures import operator
from keyfold.operators.stepping import optional, step_job
from keyfold.schemas import names_of
from keyfold.stream import TIMESTAMP
from keyfold.times import micros, to_micros

N_DUPLICATES = "n_duplicates"
_IS_NEW = "#new"


@operator()
def first_rows(
    name: str, source: Source, *, key: str | Sequence[str], expires: timedelta | str | None = None, **settings: Any
) -> KeyedJob:
    """Make a job that writes the first row of each key by event time; those that follow it are duplicates.

    - **Order**: an event waits until the watermark has passed it, so that a row is written once and never taken back: the table
      is one that rows are appended to. Neither arrival nor batch boundaries change a row.
    - **With `expires`**, an event that comes so long after the row that was written is a first one again. Duplicates do not
      renew the time.
    - **Late events**: those at or behind the watermark, unless they repeat a row that has been written and has not expired.
    - **Duplicates** are counted: with `expires`, the table `<name>_duplicates` has a row with the number of duplicates of each
      row that had some, once it has expired.
    - **State**: key and time per written row, until it expires, and the waiting events.

    Args:
        name: the job's name.
        source: the stream, or its `Input`, whose columns the table has.
        key: the key columns, such as an order's number.
        expires: how long a row has duplicates, in event time; by default for ever, with state for each key.
        settings: other arguments of `KeyedJob`.

    Raises:
        Misconfigured: `expires` is not positive.

    Example:
        >>> from datetime import UTC, datetime
        >>> from keyfold import Input, Stream, TestHarness
        >>> user = pa.field("user", pa.string(), nullable=False)
        >>> login = pa.schema([user, pa.field("at", TIMESTAMP, nullable=False)])
        >>> logins = Input(Stream("logins", login, event_time="at"), columns=login)
        >>> job = first_rows("first_logins", logins, key="user", expires="1d")
        >>> harness, noon = TestHarness(job), datetime(2026, 1, 31, 12, tzinfo=UTC)
        >>> times = [noon, noon + timedelta(hours=3), noon + timedelta(hours=24)]
        >>> came = pl.DataFrame({"user": ["ann"] * 3, "at": times})
        >>> harness.batch(came).tables["first_logins"]["at"].to_list() == [times[0], times[2]]
        True
    """
    source, key = as_input(source), names_of(key)
    events, event_time = source.schema, source.event_time
    expiry = expiry_of(name, expires)
    after = None if expiry is None else expiry.after
    number = column(N_DUPLICATES, pa.int64(), "How many events repeat the row", lineage=(event_time,), nullable=False)
    kept = [events.field(one) for one in (*key, event_time)]
    duplicates = Append(pa.schema([*kept, number]), name=f"{name}_duplicates", events=pl.col(N_DUPLICATES).sum())
    step = _FirstRows(key, event_time, events.names, after, duplicates)
    columns = pa.schema([*kept, *optional(events, (*key, event_time)), number, pa.field(DEADLINE, TIMESTAMP)])
    state = State(columns, events=pl.col(N_DUPLICATES).sum(), one_per_key=~step.waits)
    tables = [Append(events), *([duplicates] if after is not None else [])]
    return step_job(name, source, key, state, step.step, tables, settings)


@dataclass(frozen=True)
class _FirstRows:
    """The step of `first_rows`. A row of state is a waiting event, due at its time, or the key and time of a written row.

    `n_duplicates` is the number of events that it stands for and that are not written: 1 if it waits.
    """

    key: tuple[str, ...]
    event_time: str
    columns: list[str]
    after: timedelta | None
    duplicates: OutputTable

    @property
    def waits(self) -> pl.Expr:
        """Whether a row of state is a waiting event; never NULL."""
        return pl.col(DEADLINE).eq_missing(pl.col(self.event_time))

    def step(self, state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
        time, is_late = pl.col(self.event_time), self._are_late(state, events, clock)
        came = events.filter(~is_late).with_columns(pl.lit(1, pl.Int64).alias(N_DUPLICATES), time.alias(DEADLINE))
        rows = pl.concat([state, came.select(state.columns)])
        is_ahead = self.waits & (time > clock.watermark)
        others = [one for one in self.columns if one not in (*self.key, self.event_time)]
        # The written row of a key comes before its simultaneous duplicates.
        passed = rows.filter(~is_ahead).with_columns(self.waits.alias(_IS_NEW))
        ordered = in_order(passed, self.key, self.event_time, [_IS_NEW, *others])
        first = self._firsts(ordered)
        firsts = ordered.events[first]
        numbers = ordered.events[N_DUPLICATES].to_numpy()
        # A new row stands for itself, too.
        number = pl.Series(np.add.reduceat(numbers, first) if first.size else numbers) - firsts[_IS_NEW]
        until = pl.lit(None, pl.Datetime("us", "UTC")) if self.after is None else time + self.after
        is_last = np.append(np.diff(ordered.key_number[first]) > 0, True)[: first.size]
        firsts = firsts.with_columns(number.alias(N_DUPLICATES), until.alias(DEADLINE))
        is_kept = pl.lit(pl.Series(is_last)) & (pl.col(DEADLINE) > clock.watermark).fill_null(value=True)
        kept = firsts.filter(is_kept).select(*self.key, self.event_time, N_DUPLICATES, DEADLINE)
        side = {}
        if self.after is not None:
            ended = firsts.filter(~is_kept, pl.col(N_DUPLICATES) > 0)
            side = {self.duplicates.name: ended.select(self.duplicates.schema.names)}
        return Step(
            state=pl.concat([rows.filter(is_ahead), kept], how="diagonal"),
            output=firsts.filter(_IS_NEW).select(self.columns),
            late=events.filter(is_late),
            side=side,
        )

    def _are_late(self, state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> pl.Series:
        is_late = events[self.event_time] <= clock.previous_watermark
        if is_late.any():
            # A written row is in state for as long as an event behind the watermark can repeat it.
            written = state.filter(~self.waits).select(*self.key, pl.col(self.event_time).alias("#since"))
            known = events.join(written, on=self.key, how="left", maintain_order="left")
            is_late &= (known["#since"] > known[self.event_time]).fill_null(value=True)
        return is_late

    def _firsts(self, ordered: Ordered) -> NDArray[np.intp]:
        """Return the first row of each key, and each that comes at least `after` behind the first row before it."""
        first = ordered.starts
        if self.after is None or not first.size:
            return first
        times, after = to_micros(ordered.events[self.event_time]), micros(self.after)
        found, is_long = [first], times[ordered.lasts] - times[first] >= after
        rows = np.flatnonzero(is_long[ordered.key_number])
        times, keys = times[rows], ordered.key_number[rows]
        # For each row, where the first of its key comes that is `after` behind it: all are sorted together.
        both = np.lexsort((np.repeat([1, 0], rows.size), np.append(times, times + after), np.append(keys, keys)))
        following = np.empty(rows.size, np.intp)
        following[both[both >= rows.size] - rows.size] = np.cumsum(both < rows.size)[both >= rows.size]
        here = np.searchsorted(rows, first[is_long])
        # As often as the key with the most first rows has some.
        while here.size:
            on = following[here]
            is_there = on < rows.size
            is_there[is_there] = keys[on[is_there]] == keys[here[is_there]]
            here = on[is_there]
            found.append(rows[here])
        return np.sort(np.concatenate(found))
