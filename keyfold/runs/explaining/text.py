"""Write an explanation as text for people: a timeline in which runs of like events, and of batches without rows, are folded."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any

from keyfold.errors import counted
from keyfold.runs.explaining.explanation import ExplainedBatch, ExplainedEvent, Explanation, Row
from keyfold.times import duration_text

_MOST_EVENTS, _MOST_BATCHES, _MOST_ROWS = 6, 6, 3
"""Like events, quiet batches and rows of state that are not folded."""


def explanation_text(explanation: Explanation) -> str:
    """Return an explanation as lines of text."""
    return "\n".join(_lines(explanation))


def _lines(explanation: Explanation) -> Iterator[str]:
    key = ", ".join(f"{name}={_value(value)}" for name, value in explanation.key.items())
    yield f"{explanation.table} of {key}"
    yield explanation.answer
    first = explanation.row or 1
    yield from (f"  row {number}: {_values(row)}" for number, row in enumerate(explanation.rows[:_MOST_EVENTS], first))
    if more := len(explanation.rows) - _MOST_EVENTS if len(explanation.rows) > _MOST_EVENTS else 0:
        yield f"  and {counted(more, 'more row')}: keyfold show {explanation.table}"
    yield from _verdict(explanation)
    yield ""
    for number, (is_quiet, group) in enumerate(groupby(explanation.batches, _is_quiet)):
        yield from _batches([*group], is_quiet=is_quiet, is_first=not number)
    if explanation.waiting:
        yield "not read yet by a run"
        yield from _events(explanation.waiting)
    if explanation.left_out:
        yield f"left out by the input's `where`: {counted(explanation.left_out, 'row')}"
    for line in explanation.quarantined[:_MOST_EVENTS]:
        place = f"{line['file']}:{line['line']}" if line["line"] is not None else line["file"]
        yield f"in quarantine: {place}: {line['reason']}"
    for other in explanation.upstream:
        yield ""
        yield f"upstream: job {other.job}"
        yield from (f"  {line}" for line in _lines(other))


def _verdict(explanation: Explanation) -> Iterator[str]:
    """Say whether the replay gives what is stored, and if not, what differs and what may be why."""
    of = f"job {explanation.job}, {explanation.generation}, watermark {_time(explanation.watermark)}"
    if not (explanation.batches or explanation.rows or explanation.differences):
        yield of if explanation.job else "no run reads lines in quarantine"
        return
    if explanation.is_equal is None:
        yield f"not played again ({of}): the events are those that the batches read"
    elif explanation.is_equal:
        yield f"played again with the journal's clocks, this gives exactly what is stored ({of})"
    else:
        yield f"PLAYED AGAIN, THIS GIVES OTHER ROWS than are stored ({of})"
    for difference in explanation.differences:
        for kind, rows in (("only stored", difference.stored), ("only played", difference.replayed)):
            yield from (f"  {kind}, {difference.table}: {_values(row)}" for row in rows[:_MOST_ROWS])
    if explanation.is_equal is False:
        yield from (f"  may be why: {reason}" for reason in explanation.reasons)
        if not explanation.reasons:
            yield "  the journal names no reason: a file or table was changed by another program, or the step is not pure"
    yield from (f"note: {note}" for note in explanation.notes)
    if explanation.parameters:
        yield f"parameters: {_values(explanation.parameters)}"


def _is_quiet(batch: ExplainedBatch) -> bool:
    """Whether a batch wrote no row, closed nothing, and had events in time only."""
    return not (
        batch.rows
        or batch.timers
        or batch.new_code
        or batch.changed_state
        or any(event.is_late for event in batch.events)
    )


def _batches(batches: Sequence[ExplainedBatch], *, is_quiet: bool, is_first: bool) -> Iterator[str]:
    if not is_quiet or len(batches) <= _MOST_BATCHES:
        for batch in batches:
            yield from _batch(batch)
        return
    shown = 1 if is_first else 0
    for batch in batches[:shown]:
        yield from _batch(batch)
    folded = batches[shown:-1]
    events = sum(len(batch.events) for batch in folded)
    yield (
        f"batches {folded[0].batch} to {folded[-1].batch}, {len(folded):,} alike: {counted(events, 'event')} in time, "
        f"{_time(folded[0].events[0].time) if folded[0].events else ''} to {_time(folded[-1].watermark)}, no row"
    )
    yield from _batch(batches[-1])


def _batch(batch: ExplainedBatch) -> Iterator[str]:
    watermarks = " → ".join(_time(at) for at in (batch.previous_watermark, batch.watermark))
    by = f" by {batch.advanced_by}" if batch.advanced_by else ""
    number = f"batch {batch.batch}" if batch.batch >= 0 else "older batches"
    runner = f" ({batch.runner})" if batch.runner else ""
    yield f"{number}, run at {_second(batch.ran_at)}{runner}, watermark {watermarks}{by}"
    if batch.new_code:
        yield f"    code changed: {batch.new_code}"
    if batch.changed_state:
        yield f"    changed by hand: {batch.changed_state}"
    yield from _events(batch.events)
    yield from (f"    {_time(at)}  timer `{timer}` fired" for timer, at in batch.timers)
    for name, rows in batch.lookups.items():
        yield f"    looked up in {name}: {rows if isinstance(rows, str) else '; '.join(map(_values, rows)) or 'nothing'}"
    if batch.state_before != batch.state_after:
        yield from _state("before", batch.state_before)
        yield from _state("after", batch.state_after)
    for name, rows in batch.rows.items():
        yield from _rows(f"    → {name}: ", rows)


def _state(moment: str, rows: Sequence[Row]) -> Iterator[str]:
    if not rows:
        yield f"    state {moment}: none"
    yield from _rows(f"    state {moment}: ", rows)


def _rows(label: str, rows: Sequence[Row]) -> Iterator[str]:
    yield from (f"{label}{_values(row)}" for row in rows[:_MOST_ROWS])
    if len(rows) > _MOST_ROWS:
        yield f"{label}and {counted(len(rows) - _MOST_ROWS, 'more row')}"


def _events(events: Iterable[ExplainedEvent]) -> Iterator[str]:
    """Write events; of a run of like ones, the first, the last and their number."""
    for _, group in groupby(events, lambda event: (event.input, event.source, event.is_late, event.arrived_at)):
        alike = [*group]
        if len(alike) <= _MOST_EVENTS:
            yield from map(_event, alike)
            continue
        yield from map(_event, alike[:2])
        yield f"    … {len(alike) - 3:,} more like these, {_time(alike[2].time)} to {_time(alike[-2].time)}"
        yield _event(alike[-1])


def _event(event: ExplainedEvent) -> str:
    lateness = "in time"
    if event.is_late and event.final_at:
        lateness = f"LATE by {event.late_by}: the watermark had passed its result, final at {_time(event.final_at)}"
    elif event.is_late and event.late_by is not None and event.late_by >= timedelta(0):
        lateness = f"LATE: {event.late_by} behind the watermark"
    elif event.is_late:
        lateness = "LATE: ahead of the watermark, but the step had closed its result"
    arrival = f", arrived {_second(event.arrived_at)}" if event.arrived_at else ""
    source = f" from {event.source}" if event.source else ""
    return f"    {_time(event.time)}  {event.input}: {_values(event.values)}{arrival}{source}; {lateness}"


def _values(row: Row) -> str:
    return ", ".join(f"{name}={_value(value)}" for name, value in row.items() if value is not None) or "no values"


def _value(value: Any) -> str:
    if isinstance(value, datetime):
        return _time(value)
    if isinstance(value, timedelta):
        return duration_text(value)
    if isinstance(value, dict):
        return f"{{{_values(value)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _second(time: datetime) -> str:
    return _time(time.replace(microsecond=0))


def _time(time: datetime | None) -> str:
    if time is None:
        return "not set"
    utc = time.astimezone(UTC)
    text = f"{utc:%Y-%m-%d %H:%M:%S}"
    return f"{text}.{utc:%f}".rstrip("0") if utc.microsecond else text
