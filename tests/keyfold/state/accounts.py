"""How many events the tables and the state of a job stand for."""

import polars as pl

from keyfold.keyed.job.step import PROCESSING_DEADLINE
from keyfold.keyed.rows.codec import polars_schema
from keyfold.testing import combined
from tests.keyfold.state.local_state import frames_of_state
from tests.lake import Lake


def state_of(lakehouse, job):
    """The state as it lies there, but for what processing time decides."""
    live = Lake(lakehouse).live(job.name)
    done = live.journal.last_done()
    assert done is not None
    frames = frames_of_state(live, done.batch)
    state = pl.concat(frames) if frames else pl.DataFrame(schema=dict(polars_schema(job.state.schema)))
    return state.drop(PROCESSING_DEADLINE, strict=False)


def table_of(lakehouse, job, table):
    rows = pl.read_delta(str(lakehouse.table(table.name)))
    # How many sales one late row stands for is as the combiner met them.
    return combined(job, rows, 1) if table.name == job.late_table else rows


def accounted_for(lakehouse, job):
    """How many events the rows of tables and of state stand for."""
    in_tables = sum(table_of(lakehouse, job, table).select(table.events).item() or 0 for table in job.tables)
    return in_tables + (state_of(lakehouse, job).select(job.state.events).item() or 0)


def counted(job, events):
    """How many of the events that a job has read its tables and state must stand for."""
    return events if job.only_input.conserved else 0


def copies_of(job, parts):
    """How many events a job takes deliveries for."""
    return sum(part.select(job.only_input.taken).item() for part in parts)
