"""Compute the rows of a span of event time again beside the live ones, compare them, and replace those of the span by one batch.

The batch is one of the live generation's journal, as an edit of state is: its commit record is the decision, and names the span and the
files with the new rows. Whoever commits the tables takes the rows of the span out of their files (`file_changes.replace_rows`). Rows of
state of the span, such as those of open windows, are replaced by the same batch. One that is cut off before has changed nothing.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import numpy as np
import polars as pl

from keyfold.errors import IncompatibleState, InvalidData, KeyfoldError, counted
from keyfold.keyed.execution.batches import Batches, Replacement
from keyfold.keyed.execution.commit import rows_of_span
from keyfold.keyed.execution.writing_state import changed_state, replaced_state
from keyfold.keyed.generation.batch_records import KeyedDone, Span
from keyfold.keyed.generation.declaration import Declaration
from keyfold.keyed.generation.declaration_changes import compare
from keyfold.keyed.generation.generation_record import RECORD, read_record
from keyfold.keyed.generation.generations import Generation, branch_folder
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.row_times import within
from keyfold.keyed.job.tables import OutputTable
from keyfold.keyed.job_run import RunOptions, fill_span, watermark
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.data_files import STAGED, WrittenFile, write_data_file
from keyfold.lakehouse.file_changes import rows_with
from keyfold.lakehouse.reading import scan_in_columns
from keyfold.runners import Runners
from keyfold.state.changing.editing import plan_of_edit
from keyfold.state.changing.trying import diff_generations
from keyfold.state.differences import Counts, Difference, diff_states
from keyfold.state.reading.reader import read_state
from keyfold.storage.place import Place

ASIDE = "span-computed-again"
"""The branch in which rows are computed. It is removed in the end, and replaced by the next call."""

STATE = "state"
"""Stands for the state among the names of tables."""

SHOWN = 5
"""Number of keys that are shown of a table."""

_ROWS_A_FILE = 1_000_000


def check_has_row_times(lakehouse: Lakehouse, job: KeyedJob) -> None:
    """Check that a span of a job's rows can be computed of a span of events.

    Raises:
        IncompatibleState: it cannot; says why, and what to do instead.
    """
    tried = (lakehouse.command("try", job.name, "BRANCH"), lakehouse.command("promote", job.name, "BRANCH"))
    remedy = f"compute all rows again: `{tried[0]}`, and then `{tried[1]}`"
    if job.row_times is None:
        raise IncompatibleState(
            f"job {job.name}: its rows depend on all earlier events of their keys{_of_operator(job)}, so that those of a span cannot "
            f"be computed from the events around it; {remedy}"
        )
    for table in job.own_tables:
        if table.counts_written or job.row_times.of_table(table) is None:
            times = " or ".join(", ".join(dict.fromkeys(time.meta.root_names())) for time in job.row_times.of_rows)
            place = "the key of its table" if table.key else "its table"
            raise IncompatibleState(
                f"job {job.name}: {place} {table.name} has no time of a row ({times}); add it, or {remedy}"
            )


def _of_operator(job: KeyedJob) -> str:
    if job.operator is None:
        return ", as far as Keyfold knows (a step of one's own declares otherwise with `row_times`)"
    if job.operator.name == "sessions":
        return " (a session may have begun at any time before)"
    return f" ({job.operator.name})"


@dataclass(frozen=True)
class RecomputedSpan:
    """The rows of a span, computed again beside the live ones.

    Attributes:
        lakehouse, job: whose rows they are.
        live: the live generation.
        last: its last commit record.
        filled: the branch with the rows.
        since, until: the span, of times of rows; None for no bound.
        has_open_rows: whether rows of state may belong to it.
    """

    lakehouse: Lakehouse
    job: KeyedJob
    live: Generation
    last: KeyedDone
    filled: Generation
    since: datetime | None
    until: datetime | None
    has_open_rows: bool

    @cached_property
    def differences(self) -> Mapping[str, Difference]:
        """How each table, and the state, differs in the span, by its name."""
        which = {table.name: self._which(table) for table in self.job.tables if table.role != "changes"}
        of_tables = diff_generations(self.job, self.live, self.filled, which)
        # What changes is written to a table of changes, and not computed again.
        tables = {name: difference for name, difference in of_tables.items() if name in which}
        if (which := self._which_state) is None:
            return tables
        before, after = (read_state(self.lakehouse, self.job, generation=name) for name in (self.live.name, ASIDE))
        return tables | {STATE: diff_states(before, after, which)}

    @cached_property
    def _compared(self) -> Mapping[str, tuple[Counts, pl.DataFrame]]:
        return {name: difference.summary_and_first(SHOWN) for name, difference in self.differences.items()}

    @property
    def counts(self) -> Mapping[str, Counts]:
        """How many rows of each differ."""
        return {name: counts for name, (counts, _) in self._compared.items()}

    @property
    def first(self) -> Mapping[str, pl.DataFrame]:
        """The first rows of each that differ, with private values."""
        return {name: rows for name, (_, rows) in self._compared.items()}

    @cached_property
    def declaration(self) -> Declaration | None:
        """What the job declares, if the live generation was created with another declaration."""
        declared = self.live.record.declaration
        return None if read_record(self.live.folder / RECORD).declaration == declared else declared

    @property
    def changed(self) -> list[OutputTable]:
        """The tables that differ in the span."""
        return [
            table for table in self.job.tables if table.name in self.counts and not self.counts[table.name].is_equal
        ]

    def files_gone(self, table: OutputTable) -> list[str]:
        """Return the files of the live table with rows of the span."""
        return list(self._rows_with(self.live, table)[1])

    def check(self) -> None:
        """Check that the rows can take the place of those that are there.

        Raises:
            KeyfoldError: they stand for other events, or a table of changes would have to say that a row is gone.
        """
        remedy = f"compute all rows again: `{self.lakehouse.command('run', self.job.name, '--full-refresh')}`"
        if self.declaration is not None and (self.until is not None or self._has_other_state()):
            changes = "; ".join(map(str, compare(read_record(self.live.folder / RECORD), self.job).settings))
            raise IncompatibleState(
                f"job {self.job.name} is declared otherwise than its live generation ({changes}): all rows that are open must be computed "
                f"again with it. Leave the end of the span open, and begin it before the first open row; or {remedy}"
            )
        for table in self.changed:
            if table.changes and self.counts[table.name].removed:
                raise InvalidData(
                    f"job {self.job.name}: {counted(self.counts[table.name].removed, 'row')} of {table.name} would go, which a row of "
                    f"changes.{table.name} cannot say; {remedy}"
                )
        before, after = self._events(self.live), self._events(self.filled)
        if before != after:
            raise InvalidData(
                f"job {self.job.name}: the rows of the span stand for {before:,} events, and would for {after:,} if they are computed again: "
                f"its events were in rows of other times, were taken out of state, or came from elsewhere; {remedy}"
            )

    def replace(self, runners: Runners, what: str, code: str) -> KeyedDone:
        """Replace the rows of the span, and the open ones, by one batch.

        Args:
            what: says who does it and why, for the journal and the tables' history.
            code: what differs in the job since its last batch, for the journal; empty for nothing.

        Raises:
            KeyfoldError: the batch failed, and nothing is changed.
            OSError: the disk is full or fails.
        """
        job, live = self.job, self.live
        files = {table.name: list(self._written(table)) for table in self.changed}
        gone = {table.name: self._count(live, table) for table in self.changed}
        span = Span(since=self.since, until=self.until, tables=gone, note=what, declaration=self.declaration)
        # In place of an edit that was cut off, which has changed nothing.
        live.journal.withdraw()
        plan = plan_of_edit(live, self.last.batch, f"{what}; {code}" if code else what)
        live.journal.write_plans([plan])
        which = self._which_state
        tasks = (
            changed_state(job, live, np.empty(0, np.uint64), lambda rows: rows)
            if which is None
            else replaced_state(job, live, self.filled, which)
        )
        rows = ", ".join(
            f"{sum(file.rows for file in files[name]):,} in place of {number:,} {name}" for name, number in gone.items()
        )
        batches = Batches(
            runners, self.lakehouse, job, live, tasks=tasks, edited=rows, replacement=Replacement(span, files)
        )
        batches.run_planned(of_earlier_run=True)
        record = live.journal.done(plan.batch)
        assert record is not None  # noqa: S101 - the batch has just been committed
        return record

    def _which(self, table: OutputTable) -> pl.Expr:
        return rows_of_span(self.job, table, Span(since=self.since, until=self.until))

    @property
    def _which_state(self) -> pl.Expr | None:
        times = self.job.row_times
        if not self.has_open_rows or times is None or times.of_state is None:
            return None
        return within(times.of_state, self.since, self.until)

    def _has_other_state(self) -> bool:
        """Whether rows of the live state are not of the span."""
        if (which := self._which_state) is None:
            return True
        state = read_state(self.lakehouse, self.job, generation=self.live.name)
        return any(rows.filter(~which).height for rows in state.frames())

    def _rows(self, generation: Generation, table: OutputTable) -> pl.LazyFrame:
        return self._rows_with(generation, table)[0]

    def _rows_with(self, generation: Generation, table: OutputTable) -> tuple[pl.LazyFrame, dict[str, int]]:
        """As `file_changes.rows_with`, once: the job's lock is held, and no file of the span changes."""
        place = generation.table(table.name)
        if place not in self._scanned:
            self._scanned[place] = rows_with(place, self._which(table))
        return self._scanned[place]

    @cached_property
    def _scanned(self) -> dict[Place, tuple[pl.LazyFrame, dict[str, int]]]:
        return {}

    def _count(self, generation: Generation, table: OutputTable) -> int:
        return self._rows(generation, table).select(pl.len()).collect().item()

    def _written(self, table: OutputTable) -> Iterator[WrittenFile]:
        """Write the new rows of a table to files in its folder."""
        source, which, folder = self.filled.table(table.name), self._which(table), self.live.table(table.name)
        staged = STAGED if table.mode == "upsert" else ""
        for path in self._rows_with(self.filled, table)[1]:
            rows = scan_in_columns([source / path], table.schema).filter(which).collect()
            for part in rows.iter_slices(_ROWS_A_FILE):
                yield write_data_file(part, folder, table.schema, staged)

    def _events(self, generation: Generation) -> int:
        """Return the number of events in the rows of the span, and in its rows of state."""
        tables = [table for table in self.job.tables if table.role != "changes"]
        counts = [self._rows(generation, table).select(table.events.alias("events")) for table in tables]
        events = sum(int(count.item() or 0) for count in pl.collect_all(counts))
        if (which := self._which_state) is not None:
            name = ASIDE if generation is self.filled else generation.name
            state = read_state(self.lakehouse, self.job, generation=name)
            events += sum(int(rows.filter(which).select(self.job.state.events).item() or 0) for rows in state.frames())
        return events


@contextmanager
def computed_again(
    lakehouse: Lakehouse,
    job: KeyedJob,
    live: Generation,
    last: KeyedDone,
    span: tuple[datetime | None, datetime | None],
    options: RunOptions,
    runners: Runners,
) -> Iterator[RecomputedSpan]:
    """Yield the rows of a span, computed from the events that the live generation has read. The caller holds the job's lock.

    Args:
        live, last: the live generation, and its last commit record, which its tables have.
        span: bounds of the times of rows; None for no bound.

    Raises:
        KeyfoldError: an event table was changed since, or the job's step raised; nothing is changed.
    """
    times, reached = job.row_times, watermark(live)
    assert times is not None  # noqa: S101 - `check_has_row_times` comes first
    if live.origin is not None and (live.origin.how == "seed" or live.origin.events_skipped):
        raise KeyfoldError(
            f"job {job.name} began with state from {live.origin.what}, whose events are not all in its inputs: no span of its rows can be "
            "computed again"
        )
    has_open_rows = reached is None or not times.is_final(span[1], reached)
    first, end = times.events_of(*span)
    folder = branch_folder(lakehouse, job.name, ASIDE)
    try:
        # Up to the end, what waits in state is the same as in the live generation.
        of_events = first, None if has_open_rows else end
        filled = fill_span(lakehouse, job, live, ASIDE, of_events, options, runners=runners)
        yield RecomputedSpan(lakehouse, job, live, last, filled, *span, has_open_rows)
    finally:
        folder.remove_tree(missing_ok=True)
