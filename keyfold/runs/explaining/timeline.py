"""Write the batches of a key's replay as a timeline: its events, timers, states and rows, with private values masked."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import polars as pl

from keyfold.errors import KeyfoldError
from keyfold.ingestion.inspection import ingest_journal
from keyfold.keyed.job.event_frames import final_times
from keyfold.keyed.job.inputs import Input
from keyfold.lakehouse import Lakehouse
from keyfold.privacy import MASK, masked
from keyfold.runs.explaining.comparison import Subject
from keyfold.runs.explaining.explanation import ExplainedBatch, ExplainedEvent, Row
from keyfold.runs.explaining.key_events import KeyEvents
from keyfold.runs.explaining.replay import PlayedBatch
from keyfold.state.rows.lines import json_lines
from keyfold.stream import Stream
from keyfold.times import BEGINNING

_FEW_FILES = 3
_FEW_ROWS = 5


class Timeline:
    """Writes the batches and events of a key."""

    def __init__(self, subject: Subject, events: KeyEvents) -> None:
        self._subject, self._events = subject, events
        self._sources = _Sources(subject.lakehouse)
        self._key = list(subject.job.key)

    def batch(self, played: PlayedBatch) -> ExplainedBatch:
        """Write a batch."""
        subject, clocks = self._subject, played.clocks
        tables = {
            table.name: subject.shown(played.tables[table.name], table.schema)
            for table in subject.job.own_tables
            if table.name in played.tables
        }
        return ExplainedBatch(
            generation=str(clocks["generation"]),
            batch=int(str(clocks["batch"])),
            ran_at=played.clock.processing_time,
            runner=str(clocks["runner"] or ""),
            previous_watermark=_or_none(played.clock.previous_watermark),
            watermark=_or_none(played.clock.watermark),
            advanced_by=str(clocks["advanced_by"] or ""),
            new_code=str(clocks["new_code"] or ""),
            changed_state=str(clocks["changed_state"] or ""),
            events=tuple(self._of(played.first, played.end, played)),
            timers=tuple(played.fired),
            lookups=self._looked_up(played.clock.lookups),
            state_before=self._state(played.before),
            state_after=self._state(played.after),
            rows={name: rows for name, rows in tables.items() if rows},
        )

    def waiting(self, since: int) -> tuple[ExplainedEvent, ...]:
        """Write the events that no run has read yet, from a position on."""
        return tuple(self._of(since, self._events.events.height, None))

    def _of(self, first: int, end: int, played: PlayedBatch | None) -> Iterator[ExplainedEvent]:
        job, events = self._subject.job, self._events
        frame = events.events[first:end]
        late = played.tables.get(job.late_table) if played else None
        late_lines = Counter(json_lines(late)) if late is not None else Counter()
        final = final_times(job.inputs, frame)
        for at, line in enumerate(json_lines(frame)):
            input_, arrival = job.inputs[events.inputs[first + at]], events.arrivals[first + at]
            late_by = None
            if is_late := late_lines[line] > 0:
                late_lines[line] -= 1
                assert played is not None  # noqa: S101 - its tables say that it is late
                late_by = played.clock.previous_watermark - (final[at] or events.times[first + at])
            yield ExplainedEvent(
                input=events.inputs[first + at],
                time=events.times[first + at],
                arrived_at=arrival,
                source=self._sources.of(input_, arrival),
                is_late=is_late,
                final_at=final[at],
                late_by=late_by,
                values=self._values(input_, events.stored[first + at]),
            )

    def _state(self, rows: pl.DataFrame) -> tuple[Row, ...]:
        return self._subject.shown(rows.drop(self._key), self._subject.job.state.schema)

    def _values(self, input_: Input, row: Row) -> Row:
        """Return the values of an event as its table has them, without the key and the time."""
        private = set(input_.stream.private)
        shown = (name for name in row if name not in (*self._key, input_.stored_time))
        return {name: MASK if name in private else row[name] for name in shown}

    def _looked_up(self, lookups: Mapping[str, pl.DataFrame]) -> dict[str, Any]:
        """Return the rows of lookups that have a value of the key, or else their number."""
        looked_up: dict[str, Any] = {}
        for name, rows in lookups.items():
            of_key = [column for column in self._key if column in rows.columns]
            matching = (
                rows.filter(pl.all_horizontal(pl.col(column) == self._subject.key[column] for column in of_key))
                if of_key
                else rows
            )
            is_few = bool(of_key) or rows.height <= _FEW_ROWS
            private = self._subject.job.lookups[name].private
            looked_up[name] = masked(matching, private).to_dicts() if is_few else f"{rows.height} rows"
        return looked_up


def _or_none(watermark: datetime) -> datetime | None:
    return watermark if watermark > BEGINNING else None


class _Sources:
    """The landing files that ingest's journals still know, by the arrival of their events."""

    def __init__(self, lakehouse: Lakehouse) -> None:
        self._lakehouse = lakehouse
        self._by_stream: dict[str, list[tuple[datetime, str]]] = {}

    def of(self, input_: Input, arrival: datetime | None) -> str:
        """Return where an event came from; empty if that is not known any more."""
        if arrival is None or not isinstance(input_.stream, Stream):
            return ""
        stream = input_.stream.name
        if stream not in self._by_stream:
            self._by_stream[stream] = self._known(stream)
        sources = self._by_stream[stream]
        # Of a topic, events arrive between two plans; those before the first plan that is kept are not known.
        at = bisect_left(sources, (arrival, ""))
        is_known = at < len(sources) and (at > 0 or sources[0][0] == arrival)
        return sources[at][1] if is_known else ""

    def _known(self, stream: str) -> list[tuple[datetime, str]]:
        try:
            journal = ingest_journal(self._lakehouse, stream)
            plans = [plan for batch in journal.kept() if (plan := journal.plan(batch)) is not None]
        except KeyfoldError:
            return []
        by_arrival: dict[datetime, list[str]] = {}
        for plan in plans:
            by_arrival.setdefault(plan.planned_at, []).extend(
                [plan.describe()] if plan.topic is not None else [file.path for file in plan.files]
            )
        return sorted((planned_at, _one_of(sources)) for planned_at, sources in by_arrival.items())


def _one_of(sources: list[str]) -> str:
    if len(sources) <= 1:
        return "".join(sources)
    more = f", and {len(sources) - _FEW_FILES} more" if len(sources) > _FEW_FILES else ""
    return f"one of {', '.join(sources[:_FEW_FILES])}{more}"
