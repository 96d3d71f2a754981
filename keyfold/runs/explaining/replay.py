"""Play the events of a key again, through the calls of the engine and the harness, with the clocks that the journal has."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np
import polars as pl

from keyfold.errors import KeyfoldError
from keyfold.keyed.calling.harness import TestHarness
from keyfold.keyed.calling.recorded_calls import Fired, recording
from keyfold.keyed.execution.commit import rows_of_span
from keyfold.keyed.execution.failing_event import AskedError, NoResponses
from keyfold.keyed.generation.batch_records import Span
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.lookups import planned_lookups
from keyfold.keyed.job.step import DEADLINE, PROCESSING_DEADLINE, Clock
from keyfold.keyed.job.tables import OutputTable
from keyfold.keyed.rows.codec import empty
from keyfold.privacy import describe_error
from keyfold.runs.explaining.key_events import KeyEvents
from keyfold.storage.place import Place
from keyfold.times import BEGINNING, micros

StateAfter = Callable[[str, int], pl.DataFrame | None]
"""Reads the rows of the key in the state after a batch, of a generation; None if that is not retained."""


@dataclass(frozen=True)
class PlayedBatch:
    """A batch that called the step for the key, or changed its state otherwise.

    Attributes:
        clocks: the row of the batch among the clocks.
        clock: the clock that the step had.
        first, end: the positions of its events, from the first and without the end.
        fired: the timers that were due.
        before, after: the rows of state of the key.
        tables: the rows that it wrote, by table, with the late table.
    """

    clocks: Mapping[str, object]
    clock: Clock
    first: int
    end: int
    fired: tuple[Fired, ...]
    before: pl.DataFrame
    after: pl.DataFrame
    tables: Mapping[str, pl.DataFrame]


@dataclass(frozen=True)
class Replay:
    """The batches of a key, played again.

    Attributes:
        batches: those that called the step for it, or changed its state.
        state: its rows of state at the end.
        written: its rows in each table at the end, with the late table.
        notes: what could not be played as it was.
        is_whole: whether the step was called; otherwise there are the events alone.
    """

    batches: tuple[PlayedBatch, ...]
    state: pl.DataFrame
    written: Mapping[str, pl.DataFrame]
    notes: tuple[str, ...] = ()
    is_whole: bool = True


def replay_of(
    job: KeyedJob, events: KeyEvents, clocks: pl.DataFrame, generation: Place, state_after: StateAfter
) -> Replay:
    """Play the events of a key, each in its batch, and the batches in which its timers are due.

    Args:
        job: the job, with the parameters of its live generation.
        events: the events; those that no run has read are not played.
        clocks: the clocks of the batches.
        generation: the folder of the live generation, which has the rows of lookups.
        state_after: reads the state after a batch that was changed by hand, from where the replay goes on.
    """
    try:
        return _played(job, events, clocks, generation, state_after)
    except AskedError:
        said = "the step asks a service, whose responses are not kept: it was not called again"
    except Exception as error:  # a step may raise anything
        said = f"the step could not be called again: {describe_error(error, job.private)}"
    silent = TestHarness(job)
    batches = list[PlayedBatch]()
    for at in np.unique(events.batches[events.batches < clocks.height]):
        row = clocks.row(int(at), named=True)
        first, end = (int(np.searchsorted(events.batches, at, side=side)) for side in ("left", "right"))
        batches.append(PlayedBatch(row, _clock(job, row, {}), first, end, (), silent.state, silent.state, {}))
    return Replay(tuple(batches), silent.state, silent.written, (said,), is_whole=False)


def _played(
    job: KeyedJob, events: KeyEvents, clocks: pl.DataFrame, generation: Place, state_after: StateAfter
) -> Replay:
    recorded, fired = recording(job)
    harness = TestHarness(recorded)
    lookups = _Lookups(job, generation)
    batches, notes = list[PlayedBatch](), list[str]()
    for at in _due(harness, events.batches, clocks):
        row = clocks.row(at, named=True)
        first, end = (int(np.searchsorted(events.batches, at, side=side)) for side in ("left", "right"))
        before, tables = harness.state, dict[str, pl.DataFrame]()
        clock = _clock(job, row, lookups.of(row))
        fired.clear()
        if row["changed_state"]:
            stored = state_after(row["generation"], row["batch"])
            if stored is None:
                notes.append(
                    f"batch {row['batch']} of {row['generation']} changed state ({row['changed_state']}), which is not retained"
                )
            else:
                harness.state = stored.cast(before.schema) if stored.columns == before.columns else stored
            if row.get("is_replacement"):
                tables = _computed_again(job, events.events[:first], clock, row)
                for table in _with_times(job) if tables else ():
                    others = harness.written[table.name].filter(~rows_of_span(job, table, _span(row)))
                    harness.written[table.name] = pl.concat([others, tables[table.name]])
            if harness.state.equals(before) and not any(rows.height for rows in tables.values()):
                continue
        else:
            tables = dict(harness.batch_at(clock, events.events[first:end]).tables)
        batches.append(PlayedBatch(row, clock, first, end, tuple(dict.fromkeys(fired)), before, harness.state, tables))
    return Replay(tuple(batches), harness.state, harness.written, (*notes, *lookups.notes))


def _computed_again(
    job: KeyedJob, events: pl.DataFrame, clock: Clock, row: Mapping[str, object]
) -> dict[str, pl.DataFrame]:
    """Return the rows of a span that `keyfold reprocess` has computed again: of all events that were read by then, none of them late."""
    harness = TestHarness(job)
    harness.batch_at(replace(clock, previous_watermark=BEGINNING), events)
    return {
        table.name: harness.written[table.name].filter(rows_of_span(job, table, _span(row)))
        for table in _with_times(job)
    }


def _with_times(job: KeyedJob) -> list[OutputTable]:
    """Return the tables whose rows belong to times."""
    times = job.row_times
    return [
        table
        for table in job.tables
        if table.role != "changes" and times is not None and times.of_table(table) is not None
    ]


def _span(row: Mapping[str, object]) -> Span:
    return Span.model_validate({"since": row.get("replaced_since"), "until": row.get("replaced_until")})


def _due(harness: TestHarness, batches: np.ndarray, clocks: pl.DataFrame) -> Iterator[int]:
    """Yield the positions of the clocks at which the step is called for the key, or its state was changed by hand."""
    has_events = np.unique(batches[batches < clocks.height])
    changed = np.flatnonzero((clocks["changed_state"].fill_null("") != "").to_numpy())
    watermarks, processing = (clocks[name].to_physical().to_numpy() for name in ("watermark", "processing_time"))
    at = 0
    while at < clocks.height:
        candidates = [at_once[0] for at_once in (has_events[has_events >= at], changed[changed >= at]) if at_once.size]
        for timer, reached in ((DEADLINE, watermarks), (PROCESSING_DEADLINE, processing)):
            if timer in harness.state.columns and isinstance(due := harness.state[timer].min(), datetime):
                candidates.append(at + int(np.searchsorted(reached[at:], micros(due), side="left")))
        at = int(min(candidates, default=clocks.height))
        if at < clocks.height:
            yield at
        at += 1


def _clock(job: KeyedJob, row: Mapping[str, object], lookups: Mapping[str, pl.DataFrame]) -> Clock:
    watermark = row["watermark"]
    assert isinstance(watermark, datetime)  # noqa: S101 - the type of the column
    watermarks = {name: row.get(f"watermark {name}") or watermark for name in job.inputs}
    return Clock(row["previous_watermark"], watermark, row["processing_time"], NoResponses(), watermarks, lookups)  # type: ignore[arg-type]


class _Lookups:
    """The rows of lookups in each batch; of a stored file that is gone since, those of now."""

    def __init__(self, job: KeyedJob, generation: Place) -> None:
        self._job, self._generation = job, generation
        self.notes: dict[str, None] = {}

    def of(self, row: Mapping[str, object]) -> dict[str, pl.DataFrame]:
        """Return the rows of the lookups that a batch had, by name."""
        rows: dict[str, pl.DataFrame] = {}
        for name, lookup in self._job.lookups.items():
            stored = row.get(f"lookup {name}")
            folder = self._generation / "lookups"
            newest = sorted(folder.glob(f"{name}-*.parquet"))
            if not isinstance(stored, str) or not (folder / stored).exists():
                self.notes[
                    f"lookup {name} has other rows since batch {row['batch']}, which was played with those of now"
                ] = None
                stored = newest[-1].name if newest else None
            try:
                rows |= planned_lookups(self._generation, {name: stored}) if stored else {name: empty(lookup.columns)}
            except KeyfoldError as error:
                self.notes[str(error)] = None
                rows[name] = empty(lookup.columns)
        return rows


def with_all_batches(clocks: pl.DataFrame) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """Return clocks with one more batch in place of the first ones, if those are not kept; and what to say of it."""
    if clocks.is_empty() or clocks["batch"][0] == 0:
        return clocks, ()
    number = pl.lit(-1, pl.Int64)
    none = pl.lit(BEGINNING, pl.Datetime("us", "UTC"))
    whole = clocks[:1].select(
        "generation", "processing_time", batch=number, run=number, batches=pl.lit(1, pl.Int64), previous_watermark=none,
        watermark="previous_watermark",
    )  # fmt: skip
    said = f"the clocks of batches 0 to {clocks['batch'][0] - 1} are not kept: their events were played at once, none of them late"
    return pl.concat([whole, clocks], how="diagonal"), (said,)
