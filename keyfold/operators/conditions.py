"""The conditions of alerts, and when they begin and end along the events of keys."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from keyfold.keyed.job.step import DEADLINE
from keyfold.operators.ordering import Ordered
from keyfold.times import to_duration
from keyfold.validation import argument, declaration

KEY, NAME, SUBJECT, ROW = "#key", "#name", "#subject", "#row"
"""Columns of this module's frames: numbers of keys and rows, and whose condition it is. Columns of events may have their names without #."""

CHANGE, BEGAN, ENDED = "change", "BEGAN", "ENDED"
BEGAN_AT, ROLE = "began_at", "role"

Numbers = NDArray[np.int64]

_NEVER = np.iinfo(np.int64).min


@declaration("held")
class Held:
    """A condition that begins at an event for which `begins` is true, and ends at one for which `ends` is.

    Between the two it stays as it is (hysteresis). `ends` is never true where `begins` is; NULL is false.

    Attributes:
        begins, ends: expressions over the columns of events.
        held_for: how long it must hold until it is written, in event time, also as text (`"10m"`); one that ends sooner is not
            written. Its rows have the time and the columns of the event at which it began.
        cool_down: how long after its end one that begins again is not written, nor its end, which counts for the next one.
    """

    begins: pl.Expr
    ends: pl.Expr
    held_for: timedelta = argument(converter=to_duration, default=timedelta(0))
    cool_down: timedelta = argument(converter=to_duration, default=timedelta(0))


@declaration("listed")
class Listed:
    """A condition of each of some subjects, such as areas.

    Attributes:
        find: a function of events, in order of key and time, that returns a row per event and subject: `row` (the event's
            place), `subject`, and `begins`, sorted by subject and row. The condition begins at an event with `begins`, and
            ends at the first event of the key that is not listed for the subject.
    """

    find: Callable[[pl.DataFrame], pl.DataFrame]


class Judged(NamedTuple):
    """What began or ended (`_CHANGES`), and what is open after that (`_OPEN`)."""

    changes: pl.DataFrame
    open: pl.DataFrame


_CHANGES = {ROW: pl.Int64, NAME: pl.String, SUBJECT: pl.String, CHANGE: pl.String, BEGAN_AT: pl.Int64}
"""A condition that began or ended at a row; times in microseconds since 1970."""

_OPEN = {
    KEY: pl.Int64,
    NAME: pl.String,
    SUBJECT: pl.String,
    BEGAN_AT: pl.Int64,
    ROLE: pl.String,
    DEADLINE: pl.Int64,
    ROW: pl.Int64,
}
"""An open condition of a key, by the key's number; `ROW` is the row at which it began, if that is needed later."""


def held(ordered: Ordered, time: Numbers, opened: pl.DataFrame, name: str, condition: Held) -> Judged:
    """Evaluate a condition along the events; `opened` has the keys for which it is open before them."""
    rows, number, first = ordered.events, ordered.key_number, ordered.starts
    carried = np.full(first.size, _NEVER)
    carried[opened[KEY].to_numpy()] = opened[BEGAN_AT].to_numpy()
    decisive = rows.select(begins=condition.begins.fill_null(value=False), ends=condition.ends.fill_null(value=False))
    is_begin, index = decisive["begins"].to_numpy(), np.arange(rows.height)
    # The last decisive event before each one; before the first, the open conditions decide.
    last = np.maximum.accumulate(np.where(is_begin | decisive["ends"].to_numpy(), index, -1))
    is_carried = last < first[number]
    is_on = np.where(is_carried, carried[number] != _NEVER, is_begin[last])
    before = np.append(False, is_on[:-1])
    before[first] = carried != _NEVER
    began, ended = np.flatnonzero(is_on & ~before), np.flatnonzero(~is_on & before)
    since = np.maximum.accumulate(np.where(is_on & ~before, index, -1))
    began_at = np.where(since < first[number], carried[number], time[since])
    changes = pl.concat([_changes(began, name, BEGAN, time[began]), _changes(ended, name, ENDED, began_at[ended])])
    on = np.flatnonzero(is_on[ordered.lasts])
    return Judged(changes, _open(on, name, began_at[ordered.lasts][on]))


def listed(ordered: Ordered, time: Numbers, opened: pl.DataFrame, name: str, condition: Listed) -> Judged:
    """Evaluate a condition of each subject: it begins at an event with `begins`, and ends at the first that is not listed."""
    rows, first, last = ordered.events, ordered.starts, ordered.lasts
    listed_rows = condition.find(rows)
    row, subject, key = (
        listed_rows["row"].to_numpy(),
        listed_rows["subject"],
        ordered.key_number[listed_rows["row"].to_numpy()],
    )
    # A run: consecutive events of a key that are all listed for one subject.
    begins = np.ones(row.size, dtype=bool)
    begins[1:] = (subject != subject.shift()).to_numpy()[1:] | (np.diff(row) != 1) | (np.diff(key) != 0)
    run = np.flatnonzero(begins)
    end = row[np.append(run[1:], row.size)[: run.size] - 1]
    of, subject_of_run, start = key[run], subject.gather(run), row[run]
    # The first event of a run that begins the condition; the number of rows if none does.
    entered = np.where(listed_rows["begins"].to_numpy(), row, rows.height)
    entered = np.minimum.reduceat(entered, run) if run.size else run
    carried = pl.DataFrame({KEY: of, SUBJECT: subject_of_run, "start": start}).join(
        opened.with_columns(start=pl.Series(first[opened[KEY].to_numpy()])),
        on=[KEY, SUBJECT, "start"],
        how="left",
        maintain_order="left",
    )[BEGAN_AT]
    goes_on = carried.is_not_null().to_numpy()
    is_entered = ~goes_on & (entered < rows.height)
    is_on = goes_on | is_entered
    began_at = np.where(goes_on, carried.fill_null(0).to_numpy(), time[np.minimum(entered, rows.height - 1)])
    ends = is_on & (end < last[of])
    stays = is_on & ~ends
    # What was open before ends at the key's first event if that is not listed.
    left = opened.join(
        pl.DataFrame({KEY: of[goes_on], SUBJECT: subject_of_run.filter(pl.Series(goes_on))}),
        on=[KEY, SUBJECT],
        how="anti",
    )
    changes = [
        _changes(
            entered[is_entered], name, BEGAN, time[entered[is_entered]], subject_of_run.filter(pl.Series(is_entered))
        ),
        _changes(end[ends] + 1, name, ENDED, began_at[ends], subject_of_run.filter(pl.Series(ends))),
        _changes(first[left[KEY].to_numpy()], name, ENDED, left[BEGAN_AT], left[SUBJECT]),
    ]
    return Judged(pl.concat(changes), _open(of[stays], name, began_at[stays], subject_of_run.filter(pl.Series(stays))))


def after_times(
    judged: Judged,
    ordered: Ordered,
    time: Numbers,
    rows_of_state: pl.DataFrame,
    name: str,
    times: tuple[int, int],
    watermark: int,
) -> Judged:
    """Hold a condition back until it has held for a time, and while it cools down after its last end.

    Args:
        found: what began and ended at events, without these times.
        ordered, time: the events that the watermark has passed, and their times.
        known: rows of state of the condition, `ROW` after those of the events: open ones, and the ends that rest.
        name: the condition.
        times: how long it must hold, and how long it cools down, in microseconds, as the watermark.
        watermark: what has passed.
    """
    held_for, cool_down = times
    of_key = pl.Series(KEY, ordered.key_number, dtype=pl.Int64)
    new = judged.changes.filter(pl.col(CHANGE) == BEGAN).select(ROW, BEGAN_AT)
    new = new.with_columns(of_key.gather(new[ROW]), pl.lit(None, pl.String).alias(ROLE))
    is_rest = pl.col(ROLE) == "rests"
    # The spans of a key in order: the one that was open comes first. All but the last one have ended.
    spans = pl.concat(
        [rows_of_state.filter(~is_rest).select(KEY, ROW, BEGAN_AT, ROLE), new.select(KEY, ROW, BEGAN_AT, ROLE)]
    )
    spans = spans.sort(KEY, maintain_order=True).with_columns(pl.int_range(pl.len()).over(KEY).alias("place"))
    ends = judged.changes.filter(pl.col(CHANGE) == ENDED).select(end=ROW)
    ends = ends.with_columns(of_key.gather(ends["end"]), pl.Series("ended_at", time[ends["end"].to_numpy()]))
    ends = ends.with_columns(pl.int_range(pl.len()).over(KEY).alias("place"))
    rests = rows_of_state.filter(is_rest).select(KEY, rested=BEGAN_AT)
    spans = spans.join(ends, on=[KEY, "place"], how="left", maintain_order="left")
    spans = spans.join(rests, on=KEY, how="left", maintain_order="left")
    is_open, was_written = pl.col("ended_at").is_null(), pl.col(ROLE).is_in(["holds", "silent"]).fill_null(value=False)
    has_held = pl.col("ended_at").fill_null(watermark) - pl.col(BEGAN_AT) >= held_for
    pending = spans.filter(~(was_written | has_held) & is_open)
    spans = spans.filter(was_written | has_held)
    before = pl.coalesce(pl.col("ended_at").shift().over(KEY), "rested")
    cools = pl.col(ROLE).ne_missing("holds") & (pl.col(BEGAN_AT) - before < cool_down).fill_null(value=False)
    spans = spans.with_columns((cools | pl.col(ROLE).eq_missing("silent")).alias("is_silent"))
    written = spans.filter(~pl.col("is_silent"))
    began, ended = written.filter(pl.col(ROLE).ne_missing("holds")), written.filter(~is_open)
    changes = [
        _changes(began[ROW], name, BEGAN, began[BEGAN_AT]),
        _changes(ended["end"], name, ENDED, ended[BEGAN_AT]),
    ]
    last_ends = pl.concat([rests, spans.filter(~is_open).select(KEY, rested="ended_at")])
    last_ends = last_ends.group_by(KEY, maintain_order=True).max()
    # What is pending may turn out to have begun in the cool-down.
    is_needed = (pl.col("rested") + cool_down > watermark) | pl.col(KEY).is_in(pending[KEY].implode())
    resting = last_ends.filter(is_needed & bool(cool_down))
    opened = spans.filter(is_open)
    silent = opened["is_silent"]
    states = [
        _open(opened[KEY], name, opened[BEGAN_AT]).with_columns(
            pl.Series(ROLE, np.where(silent.to_numpy(), "silent", "holds"), pl.String)
        ),
        _open(pending[KEY], name, pending[BEGAN_AT]).with_columns(
            pending[ROW], pl.lit("pending").alias(ROLE), pl.col(BEGAN_AT).add(held_for).alias(DEADLINE)
        ),
        _open(resting[KEY], name, resting["rested"]).with_columns(
            pl.lit("rests").alias(ROLE), pl.col(BEGAN_AT).add(cool_down).alias(DEADLINE)
        ),
    ]
    return Judged(pl.concat(changes), pl.concat(states))


def _changes(rows: Any, name: str, change: str, began_at: Any, subject: pl.Series | None = None) -> pl.DataFrame:
    columns = {ROW: rows, NAME: name, SUBJECT: subject, CHANGE: change, BEGAN_AT: began_at}
    return pl.DataFrame(columns, schema=_CHANGES)


def _open(key: Any, name: str, began_at: Any, subject: pl.Series | None = None) -> pl.DataFrame:
    columns = {
        KEY: key,
        NAME: name,
        SUBJECT: subject,
        BEGAN_AT: began_at,
        ROLE: "holds",
        DEADLINE: None,
        ROW: None,
    }
    return pl.DataFrame(columns, schema=_OPEN)
