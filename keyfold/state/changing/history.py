"""Fill new aggregates of rows of state from a replay: what `state move --from-history` gives to windows, sessions and totals that are open.

A row has them if the replay has the same one: equal in all other columns, such as the number of events. One that differs, since it
was edited or seeded, or lacks late events, stays as a move without history leaves it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import polars as pl

from keyfold.errors import KeyfoldError
from keyfold.keyed.execution.generation_sources import Beginning, StateAfter, StateParts
from keyfold.keyed.generation.continuing import complete_batch
from keyfold.keyed.generation.generation_record import Origin
from keyfold.keyed.generation.generations import Generation, branch_folder
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.step import DEADLINE, PROCESSING_DEADLINE
from keyfold.keyed.job_run import RunOptions, fill_span
from keyfold.keyed.rows.codec import empty
from keyfold.lakehouse import Lakehouse
from keyfold.runners import Runners
from keyfold.state.changing.aggregate_changes import AggregateChanges, aggregate_changes

BRANCH = "from-history"
"""The branch with the replay, while a move lasts."""


@dataclass(frozen=True)
class StateWithHistory:
    """The state of another generation after its last batch, with new aggregates of a replay. Its rows are of the changed job.

    Attributes:
        after: the state.
        replay: the state of the replay, which has as many partitions.
        fill: fills rows of the one, of those of the other.
    """

    after: StateAfter
    replay: StateAfter
    fill: Callable[[pl.DataFrame, pl.DataFrame], pl.DataFrame]
    span = (None, None)
    share = None

    @property
    def name(self) -> str:
        """Describes it, for messages."""
        return self.after.name

    @property
    def origin(self) -> Origin:
        """That of the state."""
        return self.after.origin

    def begin(self, job: KeyedJob, generation: Generation) -> Beginning:
        """Take the tables over."""
        filled_rows = _FilledRows(self.after.parts, self.replay.parts, empty(job.state.schema), self.fill)
        return replace(self.after.begin(job, generation), read=filled_rows)


@dataclass(frozen=True)
class _FilledRows:
    """Reads the rows of a state, a partition at a time, and fills them of the rows of a replay."""

    state: StateParts
    replay: StateParts
    none: pl.DataFrame
    fill: Callable[[pl.DataFrame, pl.DataFrame], pl.DataFrame]

    def __call__(self, share: int, shares: int) -> Iterator[pl.DataFrame]:
        for label in self.state.labels(share, shares):
            history = pl.concat([self.none, *self.replay.of_partition(label)])
            for rows in self.state.of_partition(label):
                yield self.fill(rows, history)


def check_is_new(job: KeyedJob, live: Generation) -> AggregateChanges:
    """Return the aggregates that are new.

    Raises:
        KeyfoldError: there are none.
    """
    changes = aggregate_changes(job, live.record)
    if changes is None or not changes.new:
        raise KeyfoldError(f"job {job.name}: no aggregate is new, so history has nothing to give; move it without")
    return changes


@contextmanager
def with_history(
    runners: Runners,
    lakehouse: Lakehouse,
    job: KeyedJob,
    state: StateAfter,
    convert: Callable[[pl.DataFrame], pl.DataFrame],
) -> Iterator[StateWithHistory]:
    """Replay all events that a generation has read, and yield its state with the new aggregates. The caller holds the job's lock.

    Args:
        state: the state of the generation.
        convert: makes rows of the job's state of its rows, where new aggregates have no events.

    Raises:
        KeyfoldError: no aggregate is new, or the job's step raised; nothing is changed.
    """
    changes = check_is_new(job, state.generation)
    folder = branch_folder(lakehouse, job.name, BRANCH)
    try:
        replay = fill_span(lakehouse, job, state.generation, BRANCH, (None, None), RunOptions(), runners=runners)
        history = StateAfter(replay, complete_batch(replay), "")
        yield StateWithHistory(state, history, lambda rows, history: filled(changes, convert(rows), history))
    finally:
        folder.remove_tree(missing_ok=True)


def filled(changes: AggregateChanges, rows: pl.DataFrame, history: pl.DataFrame) -> pl.DataFrame:
    """Return rows of state with the new aggregates that the same rows of a replay have.

    Args:
        changes: the aggregates that are new.
        rows: rows of state of whole keys, in which these have no events.
        history: rows of the replay's state of these keys.
    """
    stored = changes.stored
    if not changes.new_columns:
        return rows
    # What orders simultaneous events has the columns of new ones too.
    new = list(dict.fromkeys([*changes.new_columns, *stored.order]))
    others = [name for name in rows.columns if name not in (*new, *stored.row_key, *_NOT_OF_EVENTS, stored.incomplete)]
    of_replay = history.filter(stored.rows).select(
        *stored.row_key,
        pl.struct(new).alias("#new"),
        *(pl.col(name).alias(f"#{name}") for name in others),
        pl.lit(value=True).alias("#there"),
    )
    # Rows that are told apart are one each; of others, none is the same.
    of_replay = of_replay.unique(stored.row_key, keep="none")
    both = rows.join(of_replay, on=list(stored.row_key), how="left", nulls_equal=True, maintain_order="left")
    is_same = pl.all_horizontal(
        "#there", stored.rows, *(pl.col(name).eq_missing(pl.col(f"#{name}")) for name in others)
    )
    both = both.with_columns(is_same.fill_null(value=False).alias("#same"))
    values = [pl.when("#same").then(pl.col("#new").struct.field(name)).otherwise(name).alias(name) for name in new]
    if stored.incomplete and both.height:
        lacking = pl.col(stored.incomplete).list.set_difference(list(changes.new))
        lacking = pl.when("#same").then(lacking).otherwise(stored.incomplete)
        values.append(pl.when(lacking.list.len() > 0).then(lacking).alias(stored.incomplete))
    return both.with_columns(values).select(rows.columns)


_NOT_OF_EVENTS = (DEADLINE, PROCESSING_DEADLINE)
