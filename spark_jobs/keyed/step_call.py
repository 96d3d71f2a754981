"""The one caller of a job's step: late events parted, the clock given, the answer held to the job's declarations.

The operator on Spark and the harness in memory both call here, so that what passes in a test passes in a run.
"""

from typing import NamedTuple, NoReturn

import polars as pl

from spark_jobs.keyed.codec import conform, empty
from spark_jobs.keyed.contract import Clock, KeyedJob


class Called(NamedTuple):
    """What a step made of a batch, in the declared columns.

    Attributes:
        state: every row to keep.
        tables: rows by table, the late table's too; tables without rows are left out.
    """

    state: pl.DataFrame
    tables: dict[str, pl.DataFrame]


def call_step(job: KeyedJob, state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Called:
    """Call the step with all events but those that are late by the engine's own rule.

    Raises:
        ValueError: the step gave back other columns or tables than it declared; the message names them.
    """
    on_time, late = route_late(job, state, events, clock)
    step = job.step(state, on_time, clock)
    tables = {job.name: conform(step.output, job.output, "output")}
    unknown = set(step.side) - {table.name for table in job.side_outputs}
    if unknown:
        _refuse(f"the step writes {', '.join(sorted(unknown))}, which the job does not declare")
    for table in job.side_outputs:
        if table.name in step.side:
            tables[table.name] = conform(step.side[table.name], table.schema, f"output {table.name}")
    if step.late is not None:
        late = pl.concat([late, conform(step.late, job.events, "late events")])
    tables[job.late_table] = late
    state = conform(step.state, job.state, "state")
    # NULL equals nothing: such a row would stay for ever, and no event could close it.
    lost = [name for name in job.key if state[name].null_count()]
    if lost:
        _refuse(f"the step's state has no value in the key's column {', '.join(lost)}: no event would ever find it")
    return Called(state, {name: frame for name, frame in tables.items() if frame.height})


def route_late(
    job: KeyedJob, state: pl.DataFrame, events: pl.DataFrame, clock: Clock
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Part events from those at or behind the late watermark whose key has no state left."""
    if job.step_decides_late:
        return events, events.clear()
    behind = events[job.event_time] <= clock.late_watermark
    if not behind.any():
        return events, events.clear()
    # Row by row beside the events, in their order: the mask below goes by position.
    is_open = events.select(job.key).join(
        state.select(job.key).unique().with_columns(is_open=pl.lit(value=True)),
        on=job.key,
        how="left",
        maintain_order="left",
    )["is_open"]
    late = behind & is_open.is_null()
    return events.filter(~late), events.filter(late)


def no_state(job: KeyedJob) -> pl.DataFrame:
    """The state of a key group that has none."""
    return empty(job.state)


def _refuse(reason: str) -> NoReturn:
    raise ValueError(reason)
