"""Explain the rows of a key: which events, clocks, timers and state made them, computed by a replay and compared with what is stored."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from difflib import get_close_matches
from typing import Any, NamedTuple

import polars as pl

from keyfold.errors import InvalidData, NotFound, counted
from keyfold.keyed.generation.configured import configured_job
from keyfold.keyed.generation.generations import live_generation
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.tables import name_of_changes
from keyfold.keyed.job_run import watermark
from keyfold.lakehouse import Lakehouse
from keyfold.privacy import masked
from keyfold.project import jobs_if_any
from keyfold.runs.explaining.as_test import test_of
from keyfold.runs.explaining.comparison import Subject, combined_late, difference, differences, reasons_for
from keyfold.runs.explaining.explanation import Difference, ExplainedBatch, Explanation
from keyfold.runs.explaining.key_events import KeyEvents, Span, events_of_key
from keyfold.runs.explaining.missing_row import lines_of_key, quarantined_lines, why_no_row
from keyfold.runs.explaining.replay import PlayedBatch, Replay, replay_of, with_all_batches
from keyfold.runs.explaining.timeline import Timeline
from keyfold.state.rows.keys import wanted_keys

_QUARANTINE = "quarantine."
_MOST_UPSTREAM = 10
"""Keys of other jobs that are explained with a key."""


def explain(
    lakehouse: Lakehouse,
    table: str,
    key: object,
    *,
    row: int | None = None,
    upstream: bool = False,
    jobs: Iterable[KeyedJob] | None = None,
) -> Explanation:
    """Explain why a table has the rows of a key that it has, or none.

    The events of the key are read, and played through the job's step with the clocks of the batches that read them. What comes out is
    compared with the rows that are stored. Nothing is written, and the job may run meanwhile.

    Args:
        lakehouse: the lakehouse.
        table: a table that the step writes, or the job's late table, `late.JOB`; or `quarantine.STREAM`, for lines that have the key of
            a job that reads the stream, or else the stream's `event_id`.
        key: the key: its value, or a mapping from columns to values, also as text (`keys.Key`).
        row: the number of one row, from 1, in the order in which an explanation without it lists them. If the events between the times
            in the row give that row, no others are read.
        upstream: whether rows of other jobs that are events of the key are explained as well.
        jobs: the jobs of the lakehouse; by default those of the project.

    Raises:
        NotFound: no job has such a table, the job has not run, or there is no such row.
        InvalidData: the key does not fit the job, or the table has not all columns of the key.

    Example:
        >>> import keyfold
        >>> lakehouse = keyfold.Lakehouse("~/lakehouse")
        >>> why = keyfold.explain(lakehouse, "ride_summaries", "ride-17")  # doctest: +SKIP
        >>> why.answer, why.is_equal, len(why.events)  # doctest: +SKIP
        ('1 row, written in batch 0', True, 4)
    """
    by_name = jobs_if_any() if jobs is None else {job.name: job for job in jobs}
    if table.startswith(_QUARANTINE):
        return _of_quarantine(lakehouse, table, key, by_name)
    subject = _subject(lakehouse, table, key, by_name)
    explained = _explained(subject, row)
    others = _upstream(subject, explained.events, by_name) if upstream else ()
    return replace(explained.explanation, upstream=others)


def explain_as_test(
    lakehouse: Lakehouse, table: str, key: object, *, row: int | None = None, jobs: Iterable[KeyedJob] | None = None
) -> tuple[Explanation, str]:
    """Explain the rows of a key, and write a test that plays its events and asserts these rows.

    Arguments and errors are as of `explain`.

    Returns:
        The explanation, and the text of a test file (`as_test`).

    Raises:
        InvalidData: the replay does not give what is stored, or a test cannot have what it needs.
    """
    subject = _subject(lakehouse, table, key, jobs_if_any() if jobs is None else {job.name: job for job in jobs})
    explained = _explained(subject, row)
    if not explained.explanation.is_equal:
        raise InvalidData(
            f"no test is written of {table}, since the replay does not give what is stored:\n{explained.explanation}"
        )
    return explained.explanation, test_of(subject.job, table, explained.events, explained.batches)


class _Explained(NamedTuple):
    """An explanation, and what it was made of."""

    explanation: Explanation
    events: KeyEvents
    batches: Sequence[PlayedBatch]


def _explained(subject: Subject, row: int | None) -> _Explained:
    rows = subject.stored(subject.table)
    clocks, notes = with_all_batches(subject.generation.clocks())
    if row is None:
        explained = _of_all(subject, rows, clocks)
    elif 1 <= row <= rows.height:
        explained = _of_row(subject, rows, clocks, row)
    else:
        raise NotFound(f"{subject.table.name} has {counted(rows.height, 'row')} of this key, and no row {row}")
    return explained._replace(explanation=replace(explained.explanation, notes=(*notes, *explained.explanation.notes)))


def _upstream(subject: Subject, events: KeyEvents, jobs: Mapping[str, KeyedJob]) -> tuple[Explanation, ...]:
    """Explain the rows of other jobs that are events of the key, by their keys there."""
    wanted: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {}
    for name, row in zip(events.inputs, events.stored, strict=True):
        input_ = subject.job.inputs[name]
        producer = jobs.get(input_.producer or "")
        if producer is not None and set(producer.key) <= row.keys():
            # The changes of a table are explained by its rows.
            table, key = (
                input_.table.removeprefix(name_of_changes("")),
                {column: row[column] for column in producer.key},
            )
            wanted.setdefault((table, str(key)), (table, key))
    return tuple(
        explain(subject.lakehouse, table, key, upstream=True, jobs=jobs.values())
        for table, key in [*wanted.values()][:_MOST_UPSTREAM]
    )


def _subject(lakehouse: Lakehouse, table: str, key: object, jobs: Mapping[str, KeyedJob]) -> Subject:
    tables = {own.name: (job, own) for job in jobs.values() for own in job.tables if own.role != "changes"}
    if table not in tables:
        near = get_close_matches(table, tables, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise NotFound(f"no job writes a table {table!r} whose rows can be explained{hint}")
    declared, own = tables[table]
    generation = live_generation(lakehouse, declared.name)
    if generation is None:
        raise NotFound(
            f"job {declared.name} has not run in {lakehouse.home} yet: `{lakehouse.command('run', declared.name)}`"
        )
    job = configured_job(lakehouse, declared)
    if lacking := [name for name in job.key if name not in own.schema.names]:
        raise InvalidData(
            f"table {table} has no column {', '.join(lacking)}, of the key of job {job.name}, so that its rows are of no key; explain "
            f"another table of the job: {', '.join(other.name for other in job.tables if set(job.key) <= set(other.schema.names))}"
        )
    wanted = wanted_keys([key], job.key, job.state.schema)
    values = wanted.frames[0].row(0, named=True) if wanted else {}
    if lacking := [name for name in job.key if values.get(name) is None]:
        raise InvalidData(f"the key lacks {', '.join(lacking)}: give a value for each of {', '.join(job.key)}")
    return Subject(lakehouse, job, generation, own, {name: values[name] for name in job.key})


def _of_quarantine(lakehouse: Lakehouse, table: str, key: object, jobs: Mapping[str, KeyedJob]) -> Explanation:
    """Explain the lines in quarantine that have a key."""
    name = table.removeprefix(_QUARANTINE)
    readers = ((stream, job) for job in jobs.values() for stream in job.streams if stream.name == name)
    if (reader := next(readers, None)) is None:
        raise NotFound(f"no job reads a stream {name!r}, whose quarantine could be explained")
    stream, job = reader
    columns = job.key if set(job.key) <= set(stream.schema.names) else stream.event_id
    wanted = wanted_keys([key], tuple(columns), stream.schema) if columns else None
    if wanted is None:
        raise InvalidData(
            f"lines of {name} have no key: neither the job's key nor an event_id is a column; see `keyfold show {table}`"
        )
    values = wanted.frames[0].row(0, named=True)
    lines = quarantined_lines(lakehouse, stream, values)
    hidden = masked(pl.DataFrame([values]), stream.private).row(0, named=True)
    said = "; ".join(dict.fromkeys(str(line["reason"]) for line in lines))
    answer = f"{counted(len(lines), 'line')} in quarantine{', because ' if said else ''}{said}"
    return Explanation(table, "", hidden, "", {}, None, None, answer, (), (), quarantined=lines)


def _played(subject: Subject, clocks: pl.DataFrame, span: Span) -> tuple[KeyEvents, Replay]:
    events = events_of_key(subject.lakehouse, subject.job, subject.key, clocks, span)
    return events, replay_of(subject.job, events, clocks, subject.generation.folder, subject.state_after)


def _of_all(subject: Subject, rows: pl.DataFrame, clocks: pl.DataFrame) -> _Explained:
    """Explain all rows of the key, by all of its events."""
    events, replay = _played(subject, clocks, (None, None))
    differing = differences(subject, replay) if replay.is_whole else ()
    timeline = Timeline(subject, events)
    batches = tuple(map(timeline.batch, replay.batches))
    waiting = timeline.waiting(int((events.batches < clocks.height).sum()))
    explanation = _explanation(subject, rows, batches, clocks, replay, is_equal=not differing)
    if not rows.height:
        lines, now = lines_of_key(subject), watermark(subject.generation)
        answer = next(why_no_row(subject, replay.state, batches, waiting, events.left_out, lines, now))
        explanation = replace(explanation, answer=answer, quarantined=lines)
    notes = explanation.notes
    if events.by_time:
        notes += (
            f"the batch of {counted(events.by_time, 'event')} follows from its time: maintenance has written its file again",
        )
    explanation = replace(explanation, waiting=waiting, left_out=events.left_out, differences=differing, notes=notes)
    return _Explained(explanation, events, replay.batches)


def _of_row(subject: Subject, rows: pl.DataFrame, clocks: pl.DataFrame, number: int) -> _Explained:
    """Explain one row: by the events between the times in it, if they give it; else by all events of the key."""
    row = rows[number - 1 : number]
    times = [value for value in row.row(0) if isinstance(value, datetime)]
    notes: tuple[str, ...] = ()
    span: Span = (min(times), max(times)) if len(times) > 1 else (None, None)
    events, replay = _played(subject, clocks, span)
    if span[0] is not None and (not replay.is_whole or _lacks(subject, row, replay.written)):
        events, replay = _played(subject, clocks, (None, None))
    elif span[0] is not None:
        notes = (f"only events from {span[0]} to {span[1]} were read, the times in the row: they give it",)
    lacking = _lacks(subject, row, replay.written)
    is_made = replay.is_whole and not lacking
    timeline = Timeline(subject, events)
    played = _leading_to(subject, row, replay) if is_made else replay.batches
    explanation = _explanation(subject, rows, tuple(map(timeline.batch, played)), clocks, replay, is_equal=is_made)
    explanation = replace(
        explanation,
        row=number,
        rows=subject.shown(row, subject.table.schema),
        answer=f"row {number} of {rows.height}: {_written_in(explanation)}",
        differences=lacking if replay.is_whole else (),
        notes=(*explanation.notes, *notes),
    )
    return _Explained(explanation, events, played)


def _lacks(subject: Subject, row: pl.DataFrame, written: Mapping[str, pl.DataFrame]) -> tuple[Difference, ...]:
    """Return the row as a difference if it is not among the written rows of the table."""
    table = subject.table
    again = written.get(table.name, row.clear())
    differing = difference(subject, table.name, table.schema, row, combined_late(subject.job, table, again))
    return (differing,) if differing is not None and differing.stored else ()


def _leading_to(subject: Subject, row: pl.DataFrame, replay: Replay) -> list[PlayedBatch]:
    """Return the batches from the last one that found no state of the key, up to the one that wrote the row."""
    writing = [at for at, batch in enumerate(replay.batches) if not _lacks(subject, row, batch.tables)]
    last = max(writing, default=len(replay.batches) - 1)
    first = next((at for at in range(last, -1, -1) if not replay.batches[at].before.height), 0)
    return list(replay.batches[first : last + 1])


def _explanation(
    subject: Subject,
    rows: pl.DataFrame,
    batches: tuple[ExplainedBatch, ...],
    clocks: pl.DataFrame,
    replay: Replay,
    *,
    is_equal: bool,
) -> Explanation:
    job, generation = subject.job, subject.generation
    key = masked(pl.DataFrame([subject.key]), job.private_of(job.columns)).row(0, named=True)
    explanation = Explanation(
        table=subject.table.name,
        job=job.name,
        key=key,
        generation=generation.name,
        parameters=dict(job.parameters),
        watermark=watermark(generation),
        row=None,
        answer="",
        rows=subject.shown(rows, subject.table.schema),
        batches=batches,
        is_equal=is_equal if replay.is_whole else None,
        reasons=() if is_equal and replay.is_whole else (*replay.notes, *reasons_for(subject, clocks)),
        notes=replay.notes,
    )
    return replace(explanation, answer=f"{counted(rows.height, 'row')}: {_written_in(explanation)}")


def _written_in(explanation: Explanation) -> str:
    """Say which batches wrote rows of the table, of how many events."""
    late = explanation.table.startswith("late.")
    numbers = [
        batch.batch
        for batch in explanation.batches
        if (any(event.is_late for event in batch.events) if late else explanation.table in batch.rows)
    ]
    events = [event for event in explanation.events if event.is_late or not late]
    if not numbers:
        return "the replay has written none"
    ends = f"batch {numbers[0]}" if len(numbers) == 1 else f"{len(numbers):,} batches, {numbers[0]} to {numbers[-1]}"
    late_ones = sum(event.is_late for event in explanation.events)
    of_them = f", {late_ones:,} of them late" if late_ones and not late else ""
    return f"written in {ends}, of {counted(len(events), 'event')}{of_them}"
