"""Erase values in jobs: each job that has them, or reads a job that has, gets a new generation; all go live in one step."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl
from deltalake import DeltaTable

from keyfold.errors import KeyfoldError
from keyfold.keyed.calling.step_call import count
from keyfold.keyed.generation.batch_records import KeyedDone
from keyfold.keyed.generation.generations import Generation
from keyfold.keyed.generation.going_live import go_live
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.plans.inputs import changes_for, input_tables
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.positions import Position, position_at
from keyfold.lakehouse.reading import scan_files
from keyfold.lakehouse.row_erasure import ErasedRows, count_rows_of, erase_rows
from keyfold.state.changing.editing import origin_after
from keyfold.state.changing.state_rewriting import map_frames, rewrite
from keyfold.state.erasure.tracing import Trace
from keyfold.storage.place import Place


def erase_in_jobs(
    spark: Any,
    lakehouse: Lakehouse,
    live: Sequence[tuple[KeyedJob, Generation, KeyedDone]],
    trace: Trace,
    *,
    dry_run: bool,
) -> tuple[dict[str, int], dict[str, str]]:
    """Erase rows in states and tables of jobs. The caller must hold the locks of all of them.

    Args:
        live: the jobs, each after all jobs that it reads, with the live generation and its last commit record.
        trace: the columns with the values.
        dry_run: only count.

    Returns:
        The number of rows that were found, by place, and the live generation of each job.

    Raises:
        KeyfoldError: a job has not read all rows of a job's table yet.
    """
    rows: dict[str, int] = {}
    made: dict[str, Generation] = {}
    for job, generation, done in live:
        affected = _Rows(lakehouse, job, generation, done, trace)
        rows |= affected.count(spark)
        if dry_run:
            continue
        affected.check_is_even()
        if affected.is_to_change(made):
            made[job.name] = affected.without(spark, made)
    if made:
        go_live(lakehouse, *made.values())
    return rows, {job.name: made.get(job.name, generation).name for job, generation, _ in live}


class _Rows:
    """The rows of a job that have the values."""

    def __init__(self, lakehouse: Lakehouse, job: KeyedJob, live: Generation, done: KeyedDone, trace: Trace) -> None:
        self._lakehouse, self._job, self._live, self._done, self._trace = lakehouse, job, live, done, trace
        self._rows: dict[str, int] = {}
        self._events = self._read = 0

    def count(self, spark: Any) -> dict[str, int]:
        """Count the rows, by place."""
        job, live = self._job, self._live
        in_state = ErasedRows(0, 0)
        if (which := self._trace.where(job.name, job.state)) is not None:
            in_state = _in_state(spark, job, live, self._done, which)
        self._rows, self._events = {f"state of {job.name}": in_state.rows}, in_state.events
        for table in job.tables:
            if (which := self._trace.where(job.name, table.schema)) is not None:
                in_table = count_rows_of(live.table(table.name), which, table.events)
                self._rows[table.name] = in_table.rows
                self._events += in_table.events
        self._read = sum(self._read_of(name, table) for name, table in self._inputs())
        return self._rows

    def check_is_even(self) -> None:
        """Check that the job has read all rows of other jobs' tables: it continues at the end of their new tables.

        Raises:
            KeyfoldError: it has not.
        """
        for name, table in self._inputs():
            if name.startswith("events.") or not self._unread(name, table):
                continue
            run = self._lakehouse.command("run", self._job.name)
            raise KeyfoldError(f"job {self._job.name} has yet to read rows of {name}; run it once first: `{run}`")

    def is_to_change(self, made: Mapping[str, Generation]) -> bool:
        """Whether the job needs a new generation: it has such rows, or a job that it reads gets one."""
        # Events that are read and in no row are in sums. Their number in the conservation check changes all the same.
        return bool(
            any(self._rows.values()) or self._events != self._read or set(made).intersection(self._job.producers)
        )

    def without(self, spark: Any, made: Mapping[str, Generation]) -> Generation:
        """Make a generation without the rows, which is not live yet."""
        job, trace = self._job, self._trace
        of_state = trace.where(job.name, job.state)

        def without(frame: pl.DataFrame) -> pl.DataFrame:
            return frame if of_state is None else frame.filter(~of_state.fill_null(False))

        def erase_in_tables(generation: Generation) -> None:
            for table in job.tables:
                if (which := trace.where(job.name, table.schema)) is not None:
                    erase_rows(generation.table(table.name), which, table.events)

        # Sums over erased events stay. For the conservation check, these events count as part of the initial state.
        origin = replace(origin_after(self._live, "erasure", self._read - self._events), how="erasure")
        # The job reads the new generations of jobs before it, which go live only together with its own.
        ahead = self._lakehouse.seeing({name: generation.name for name, generation in made.items()})
        # The job has read all rows of the old tables (`check_is_even`), so it continues at the end of the new ones.
        positions = {
            one.table: _end_of(made[producer].table(one.table))
            for one in job.all_inputs.values()
            if (producer := one.producer) is not None and producer in made
        }
        events = self._done.total_events - self._events
        return rewrite(
            spark,
            ahead,
            job,
            self._live,
            self._done,
            origin,
            without,
            erase_in_tables,
            events=events,
            positions=positions,
        ).generation

    def _inputs(self) -> list[tuple[str, Place]]:
        return [(name, at) for name, at in input_tables(self._lakehouse, self._job).items() if self._trace.is_of(name)]

    def _read_of(self, name: str, table: Place) -> int:
        """Return the number of events that the job has read from a table, and that are erased."""
        if (which := self._trace.where_in(name)) is None:
            return 0
        events = self._job.counted_in(name)
        unread = scan_files(table, self._unread(name, table)).filter(which).select(events).collect().item()
        return count_rows_of(table, which, events).events - int(unread or 0)

    def _unread(self, name: str, table: Place) -> list[Place]:
        read_as = next(one for one in self._job.all_inputs.values() if one.table == name)
        changes = changes_for(self._job.name, read_as, table, self._done.positions.get(name))
        return [table / file.path for file in changes.files]


def _in_state(spark: Any, job: KeyedJob, live: Generation, done: KeyedDone, which: pl.Expr) -> ErasedRows:
    def counts_in(frame: pl.DataFrame) -> dict[str, int]:
        theirs = frame.filter(which)
        return {"rows": theirs.height, "events": count(theirs, job.state_events)}

    counts = map_frames(spark, live, done.batch, counts_in)
    return ErasedRows(sum(one["rows"] for one in counts), sum(one["events"] for one in counts))


def _end_of(table: Place) -> Position:
    return position_at(table, DeltaTable(str(table)).version())
