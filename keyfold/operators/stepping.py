"""What steps share that take the events of keys in order of time: their job, which events are late, and columns of state."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl
import pyarrow as pa

from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.inputs import STEP_DECIDES, Input
from keyfold.keyed.job.state import State
from keyfold.keyed.job.step import DEADLINE, BoundStep, Clock, InOneCall, StepFunction
from keyfold.keyed.job.tables import OutputTable
from keyfold.keyed.rows.codec import empty


def step_job(
    name: str,
    source: Input,
    key: tuple[str, ...],
    state: State,
    step: StepFunction | BoundStep,
    tables: OutputTable | Sequence[OutputTable],
    settings: Mapping[str, Any],
) -> KeyedJob:
    """Make a job whose step finds late events itself, and keeps the order of events and deadlines; `settings` are of `KeyedJob`."""
    source = replace(source, final_at=STEP_DECIDES)
    return KeyedJob(name, source, key, state, InOneCall(step), tables, **settings)


def on_time(events: pl.DataFrame, event_time: str, clock: Clock) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the events ahead of the watermark before this run, and the late ones."""
    is_late = events[event_time] <= clock.previous_watermark
    return events.filter(~is_late), events.filter(is_late)


def tie_columns(events: pa.Schema, key: Sequence[str], event_time: str) -> list[str]:
    """Return the columns that order simultaneous events of a key: all others."""
    return [name for name in events.names if name not in (*key, event_time)]


def optional(events: pa.Schema, but: Sequence[str]) -> list[pa.Field]:
    """Return the columns of events but some, which rows of state that are no events lack."""
    return [field.with_nullable(True) for field in events if field.name not in but]


def waiting(
    events: pl.DataFrame, columns: pa.Schema, event_time: str, state: pa.Schema, **more: pl.Expr
) -> pl.DataFrame:
    """Return events as rows of state that are due when the watermark has passed them; NaN in a column that may be NULL is NULL."""
    floats = [field.name for field in columns if field.nullable and pa.types.is_floating(field.type)]
    rows = events.with_columns(pl.col(floats).fill_nan(None), pl.col(event_time).alias(DEADLINE), **more)
    return pl.concat([empty(state), rows], how="diagonal")
