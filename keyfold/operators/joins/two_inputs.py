"""Join two inputs: the step of all joins but that with a lookup, each of which is a rule.

Rows of both sides wait in state. A rule says which of them match now, and until when a row may match another one. When the watermark
has reached that time, all rows that could match it have come, since later ones are late, and it leaves state. If it has no match then,
and the join keeps such rows, it is written without one. So each pair and each row without a match is written once.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.inputs import EVENT_TIME, INPUT, STEP_DECIDES
from keyfold.keyed.job.row_times import RowTimes
from keyfold.keyed.job.state import State
from keyfold.keyed.job.step import DEADLINE, Clock, InOneCall, Step
from keyfold.keyed.job.tables import Append
from keyfold.operators.aggregation.ranges import Rows
from keyfold.operators.joins.sides import How, Semi, Sides

IS_NEW = "#new"
"""Column of the rows that a rule gets: whether they are of this batch."""


class Matches(NamedTuple):
    """What a rule says of the rows of both sides.

    Attributes:
        left, right: the rows, with the time until which they may match as `deadline`.
        left_rows, right_rows: the pairs that match and have not been written, as numbers of these rows.
    """

    left: pl.DataFrame
    right: pl.DataFrame
    left_rows: Rows
    right_rows: Rows


Rule = Callable[[pl.DataFrame, pl.DataFrame, Clock], Matches]


def join_job(
    name: str,
    sides: Sides,
    how: How | Semi,
    rule: Rule,
    settings: Mapping[str, Any],
    row_times: RowTimes,
    *,
    writes_left_once: bool = False,
) -> KeyedJob:
    """Make the job of a join.

    Args:
        name: the job's name.
        sides: the inputs.
        how: which rows it writes besides matches.
        rule: which rows match.
        settings: other arguments of `KeyedJob`.
        row_times: the times of its rows.
        writes_left_once: whether each left row is in one row of the output, so that left events can be counted there. Else rows
            may match any number of others.
    """
    left = sides.left[0] if writes_left_once else None
    inputs = {
        side: replace(input_, conserved=side == left, final_at=STEP_DECIDES) for side, input_ in sides.inputs.items()
    }
    waiting = (pl.col(INPUT) == left).sum().cast(pl.Int64) if left else pl.lit(0)
    table = Append(sides.output, events=pl.len() if left else pl.lit(0))
    step = InOneCall(_Join(sides, how, rule).step)
    state = State(sides.state, events=waiting)
    return KeyedJob(name, inputs, sides.key, state, step, table, row_times=row_times, **settings)


@dataclass(frozen=True)
class _Join:
    sides: Sides
    how: How | Semi
    rule: Rule

    def step(self, state: pl.DataFrame, events: Mapping[str, pl.DataFrame], clock: Clock) -> Step:
        """Match the rows of state and of a batch; a row at or behind the watermark before the batch is late."""
        sides, came = self.sides, self.sides.rows_of_events(events)
        is_late = pl.col(EVENT_TIME) <= clock.previous_watermark
        both = ((state.drop(DEADLINE), False), (came.filter(~is_late), True))
        rows = pl.concat(part.with_columns(pl.lit(is_new).alias(IS_NEW)) for part, is_new in both)
        matches = self.rule(sides.side(rows, sides.left), sides.side(rows, sides.right), clock)
        waiting = pl.concat([_matched(matches.left, matches.left_rows), _matched(matches.right, matches.right_rows)])
        is_over = pl.col(DEADLINE) <= clock.watermark
        if self.how == "semi":
            output = sides.rows_of(sides.left, matches.left[np.unique(matches.left_rows)])
        else:
            pairs = sides.pairs(matches.left[matches.left_rows], matches.right[matches.right_rows])
            output = pl.concat([pairs, *sides.misses(waiting.filter(is_over & ~pl.col("matched")), self.how)])
        late = came.filter(is_late).drop("matched")
        return Step(state=waiting.filter(~is_over).drop(IS_NEW), output=output, late=late)


def _matched(side: pl.DataFrame, rows: Rows) -> pl.DataFrame:
    matched = side["matched"].to_numpy().copy()
    matched[rows] = True
    return side.with_columns(pl.Series("matched", matched))
