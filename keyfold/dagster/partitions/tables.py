"""Count the rows of a job's tables by time: all rows, those of a span, and those that batches have written."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce
from operator import or_
from typing import NamedTuple

import polars as pl

from keyfold.dagster.partitions.declared import Period
from keyfold.keyed.generation.generations import Generation
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.plans.input_tables import input_tables
from keyfold.keyed.written_files import files_written
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.log_changes import snapshot
from keyfold.lakehouse.reading import data_file_paths, scan_files, scan_in_columns
from keyfold.runs.reports_to_dagster import Written
from keyfold.times import from_micros

QUARTER = timedelta(minutes=15)


class Counted(NamedTuple):
    """Counts of a partition.

    Attributes:
        rows: its rows.
        events: the events that they stand for (`OutputTable.events`).
    """

    rows: int = 0
    events: int = 0


Times = Sequence[tuple[datetime, Counted]]
"""The counts of each quarter of an hour that has rows, by its start. A period has whole quarters, in whichever time zone."""


@dataclass(frozen=True)
class JobTables:
    """The main table of a job, and that of its late events, as of the newest batch.

    Attributes:
        lakehouse, job: where they are, and whose.
        column: the column of the main table by whose times rows are counted; late events are by their event time.
        written: what the job has written by that batch.
    """

    lakehouse: Lakehouse
    job: KeyedJob
    column: str
    written: Written

    def all(self, table: str) -> Times:
        """Return the times of all rows of a table."""
        return self._times(table, self._scanned(table))

    def within(self, table: str, periods: Sequence[Period]) -> Mapping[str, Counted]:
        """Return the counts of the rows in periods, by key."""
        if not periods:
            return {}
        column = pl.col(self._column(table))
        is_within = (column.is_between(start, end, closed="left") for start, end in _spans(periods))
        return in_periods(self._times(table, self._scanned(table).filter(reduce(or_, is_within))), periods)

    def of_batches(self, table: str, generation: str, since: int) -> Mapping[int, Times] | None:
        """Return the times of the rows that each batch of a generation after `since` wrote; None if that is not known any more."""
        files = files_written(self.lakehouse, self.job.name, table, generation, since, self.written.batch)
        if files is None:
            return None
        columns = self.written.tables[table].to_pyarrow_dataset().schema
        return {batch: self._times(table, scan_in_columns(paths, columns)) for batch, paths in files.items()}

    def replaced(self, generation: Generation, since: int) -> list[tuple[datetime | None, datetime | None]]:
        """Return the spans whose rows batches after `since` have replaced, each with the end of the events that they depend on."""
        records = (generation.journal.done(batch) for batch in range(since + 1, self.written.batch + 1))
        spans = [record.replaced for record in records if record is not None and record.replaced is not None]
        times = self.job.row_times
        return [] if times is None else [(span.since, times.events_of(None, span.until)[1]) for span in spans]

    def first_event(self) -> datetime | None:
        """Return the earliest time of an event; None without events."""
        inputs = input_tables(self.lakehouse, self.job)
        files = (
            file
            for input_ in self.job.inputs.values()
            for file in snapshot(inputs[input_.table], input_.stored_time).files
        )
        return min((from_micros(file.first) for file in files if file.first is not None), default=None)

    def _scanned(self, table: str) -> pl.LazyFrame:
        place = self.lakehouse.table(table)
        return scan_files(place, data_file_paths(place, self.written.tables[table].version()))

    def _column(self, table: str) -> str:
        return self.job.event_time if table == self.job.late_table else self.column

    def _times(self, table: str, rows: pl.LazyFrame) -> Times:
        (events,) = (of.events for of in self.job.tables if of.name == table)
        counts = (
            rows.group_by(pl.col(self._column(table)).dt.truncate("15m").alias("#start"))
            .agg(rows=pl.len().cast(pl.Int64), events=events.cast(pl.Int64))
            .filter(pl.col("#start").is_not_null())
            .sort("#start")
            .collect(engine="streaming")
        )
        return [(start, Counted(rows, events)) for start, rows, events in counts.rows()]


def in_periods(times: Times, periods: Sequence[Period]) -> Mapping[str, Counted]:
    """Return the counts of the periods that have rows, by key; times in none of them are left out.

    Args:
        times: counts by time.
        periods: the periods, oldest first.
    """
    starts, counts = [period.start for period in periods], dict[str, Counted]()
    for time, counted in times:
        at = bisect_right(starts, time) - 1
        if at >= 0 and time < periods[at].end:
            before = counts.get(periods[at].key, Counted())
            counts[periods[at].key] = Counted(before.rows + counted.rows, before.events + counted.events)
    return counts


def _spans(periods: Sequence[Period]) -> list[tuple[datetime, datetime]]:
    """Return the spans of periods, of which those that follow one another are one."""
    spans = list[tuple[datetime, datetime]]()
    for period in periods:
        begins = spans.pop()[0] if spans and spans[-1][1] == period.start else period.start
        spans.append((begins, period.end))
    return spans
