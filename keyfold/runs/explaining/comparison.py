"""Compare the replay of a key with the rows and the state that are stored, and name what the journal has that may be why they differ."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import polars as pl
import pyarrow as pa

from keyfold.errors import KeyfoldError
from keyfold.keyed.generation.continuing import code_of_generation
from keyfold.keyed.generation.declaration_changes import code_differences, compare
from keyfold.keyed.generation.generations import Generation
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.tables import OutputTable
from keyfold.keyed.rows.codec import conform
from keyfold.lakehouse import Lakehouse, is_table
from keyfold.lakehouse.reading import scan_table
from keyfold.privacy import masked
from keyfold.runs.explaining.explanation import Difference, Row
from keyfold.runs.explaining.replay import Replay
from keyfold.state.reading.reader import read_state
from keyfold.state.rows.lines import json_lines

_STATE = "state"


@dataclass(frozen=True)
class Subject:
    """A key of a table of a job, which is explained.

    Attributes:
        job: the job, with the parameters of its live generation.
        generation: the live generation.
        table: the table.
        key: the value of each column of the key.
    """

    lakehouse: Lakehouse
    job: KeyedJob
    generation: Generation
    table: OutputTable
    key: Mapping[str, Any]

    def stored(self, table: OutputTable) -> pl.DataFrame:
        """Return the rows of the key in a table, by their times, in an order that does not depend on files.

        Late events of an input that combines events are combined whole: batches have combined parts of them.
        """
        rows = scan_table(self.generation.table(table.name))
        rows = rows.filter(pl.all_horizontal(pl.col(name) == value for name, value in self.key.items())).collect()
        rows = combined_late(self.job, table, rows.select(table.schema.names))
        times = [name for name, kind in rows.schema.items() if isinstance(kind, pl.Datetime)]
        lined = rows.with_columns(json_lines(rows.select(table.schema.names)).alias("#line"))
        return lined.sort(*times, "#line", nulls_last=True).select(table.schema.names)

    def state_after(self, generation: str, batch: int | None) -> pl.DataFrame | None:
        """Return the rows of the key in the state after a batch; None if that is not retained."""
        try:
            key = tuple(self.key.values())
            return read_state(self.lakehouse, self.job, generation=generation, batch=batch, keys=[key]).polars()
        except KeyfoldError:
            return None

    def shown(self, rows: pl.DataFrame, schema: pa.Schema) -> tuple[Row, ...]:
        """Return rows as they are shown: with private columns masked, by the declaration of the columns."""
        return tuple(masked(rows, self.job.private_of(schema)).to_dicts())


def differences(subject: Subject, replay: Replay) -> tuple[Difference, ...]:
    """Compare all tables of the step, the late table, and the state."""
    job = subject.job
    pairs = [
        (table.name, table.schema, subject.stored(table), combined_late(job, table, replay.written[table.name]))
        for table in job.tables
        if table.role != "changes" and set(job.key) <= set(table.schema.names)
    ]
    state = subject.state_after(subject.generation.name, None)
    if state is not None and state.columns == replay.state.columns:
        pairs.append((_STATE, job.state.schema, state, replay.state))
    compared = (difference(subject, *pair) for pair in pairs)
    return tuple(differing for differing in compared if differing is not None)


def difference(
    subject: Subject, name: str, schema: pa.Schema, stored: pl.DataFrame, replayed: pl.DataFrame
) -> Difference | None:
    """Compare rows, of which each may be there several times; None if they are equal."""
    replayed = replayed.select(stored.columns)
    there, again = (json_lines(rows).to_list() for rows in (stored, replayed))
    lacking, surplus = Counter(there) - Counter(again), Counter(again) - Counter(there)
    if not lacking and not surplus:
        return None
    return Difference(
        name,
        subject.shown(stored[_positions(there, lacking)], schema),
        subject.shown(replayed[_positions(again, surplus)], schema),
    )


def _positions(lines: list[str], wanted: Counter[str]) -> list[int]:
    left, positions = Counter(wanted), list[int]()
    for position, line in enumerate(lines):
        if left[line] > 0:
            left[line] -= 1
            positions.append(position)
    return positions


def combined_late(job: KeyedJob, table: OutputTable, rows: pl.DataFrame) -> pl.DataFrame:
    """Return late events as the late table has them: combined, if the input of the job combines events."""
    combine = job.only_input.combine if len(job.inputs) == 1 else None
    if table.role != "late" or combine is None or not rows.height:
        return rows
    return conform(combine(rows), job.columns, "combined events")


def reasons_for(subject: Subject, clocks: pl.DataFrame) -> tuple[str, ...]:
    """Return what may be why a replay differs: other code, an edit, another beginning, changes of events."""
    return tuple(dict.fromkeys(_reasons(subject, clocks)))


def _reasons(subject: Subject, clocks: pl.DataFrame) -> Iterator[str]:
    job, generation = subject.job, subject.generation
    comparison = compare(generation.record, job)
    yield from (f"the code declares another job: {change}" for change in comparison.settings if not change.is_free)
    for change in code_differences(code_of_generation(generation).code, comparison.code):
        yield f"the code has changed since the last run: {change}"
    for batch, code, changed in clocks.select("batch", "new_code", "changed_state").iter_rows():
        if code:
            yield f"the code changed before batch {batch}: {code}"
        if changed:
            yield f"batch {batch} changed state: {changed}"
    if generation.origin is not None:
        yield f"{generation.name} began with state: {generation.origin.how} of {generation.origin.what}"
    yield from _edits(subject.lakehouse, job, generation.record.created_at)


def _edits(lakehouse: Lakehouse, job: KeyedJob, since: datetime) -> Iterator[str]:
    """Yield what people changed by hand in the job or its streams since the generation was created."""
    if not is_table(table := lakehouse.monitoring("edits")):
        return
    subjects = [job.name, *(stream.name for stream in job.streams)]
    edits = scan_table(table).filter(pl.col("of").is_in(subjects), pl.col("at") >= since).sort("at").collect()
    for edit in edits.iter_rows(named=True):
        yield f"{edit['what']} by hand in {edit['of']} at {edit['at']:%Y-%m-%d %H:%M:%S}, by {edit['who']}: {edit['why']}"
