"""Find the event on which a step or an expression fails, so that an error names it and it can be taken out."""

import json
from collections.abc import Callable
from typing import NamedTuple

import polars as pl

from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.event_frames import parted_by_input
from keyfold.keyed.job.inputs import Input
from keyfold.privacy import masked
from keyfold.stream import Stream


class NoResponses:
    """Stands for the responses of external services while an event is searched: no service is called for that.

    Raises:
        AskedError: a step asks for a response.
    """

    def get(self, key: str) -> str | None:
        """Refuse to look a response up."""
        raise AskedError

    def keep(self, key: str, response: str) -> None:
        """Refuse to store a response."""
        raise AskedError


class AskedError(Exception):
    """A step asked for a response of an external service, so that which event it fails on is not known."""


class FailingEvent(NamedTuple):
    """An event that fails by itself, in a frame of one row; and whether others fail too."""

    row: pl.DataFrame
    has_others: bool


def failing_event(fails: Callable[[pl.DataFrame], bool], events: pl.DataFrame) -> FailingEvent | None:
    """Return an event that fails by itself; None if only several together do.

    Args:
        fails: whether some of the events fail.
        events: events that fail together.

    Example:
        >>> failing_event(lambda rows: "x" in rows["n"], pl.DataFrame({"n": ["1", "x", "3"]})).row["n"].to_list()
        ['x']
    """
    has_others = False
    try:
        while events.height > 1:
            half = events.height // 2
            failing = [part for part in (events[:half], events[half:]) if fails(part)]
            if not failing:
                return None
            has_others |= len(failing) > 1
            events = failing[0]
        return FailingEvent(events, has_others) if events.height and fails(events) else None
    except AskedError:
        return None


def described_event(job: KeyedJob, event: FailingEvent) -> str:
    """Return what an error says of an event in the columns of all inputs (`described_row`)."""
    parts = parted_by_input(job.inputs, event.row)
    name = next(name for name, frame in parts.items() if frame.height)
    return described_row(job, job.inputs[name], event._replace(row=parts[name]))


def described_row(job: KeyedJob, input_: Input, event: FailingEvent) -> str:
    """Return what an error says of an event of an input: what tells it apart, and how it is taken out of its stream."""
    frame, stream = event.row, input_.stream if isinstance(input_.stream, Stream) else None
    ids = [column for column in (stream.event_id if stream else ()) if column in frame.columns]
    shown = [column for column in dict.fromkeys([*ids, *job.key, input_.event_time]) if column in frame.columns]
    private = job.private | set(stream.private if stream else ())
    values = masked(frame.select(shown), private).row(0, named=True)
    text = (
        f"it fails on the event of {input_.table} with {', '.join(f'{key}={value}' for key, value in values.items())}"
    )
    text += ", and on others" if event.has_others else ""
    if stream is not None and not stream.event_id:
        return (
            f"{text}; correct the job, or take the event out by the landing file and line that it came from: keyfold quarantine "
            f"{stream.name} FILE:LINE --why …"
        )
    if stream is None or not ids or len(ids) < len(stream.event_id) or private.intersection(ids):
        return text
    key = json.dumps({column: values[column] for column in ids}, default=str)
    return f"{text}; correct the job, or take the event out: keyfold quarantine {stream.name} '{key}' --why …"
