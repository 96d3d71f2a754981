"""How far a generation has come: read from Spark's own checkpoint, so that a crash cannot make it lie."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql.streaming import StreamingQuery

from spark_jobs.errors import KeyfoldError
from spark_jobs.keyed.generations import Generation
from spark_jobs.lakehouse import read_json, write_json
from spark_jobs.microseconds import EPOCH

_ARRIVAL = "arrival.json"
_READABLE_OFFSETS = 1
"""Version of Spark's offset log and of Delta's source offsets that this module reads."""


@dataclass(frozen=True)
class Arrival:
    """The newest event time of the events so far, and when (processing time) they were read."""

    newest_event: datetime
    arrived_at: datetime


def watermark(generation: Generation) -> datetime | None:
    """The watermark that the next micro-batch starts with, None before any event."""
    commit = _newest(generation.checkpoint / "commits")
    if commit is None:
        return None
    milliseconds = json.loads(commit.read_text(encoding="utf-8").splitlines()[1]).get("nextBatchWatermarkMs", 0)
    return EPOCH + timedelta(milliseconds=milliseconds) if milliseconds else None


def has_unfinished_batch(generation: Generation) -> bool:
    """Whether a micro-batch was planned and not finished, so that the next run begins by replaying it."""
    planned, finished = (_newest(generation.checkpoint / log) for log in ("offsets", "commits"))
    return planned is not None and (finished is None or int(planned.name) > int(finished.name))


def next_version(generation: Generation) -> tuple[int, bool]:
    """The first version of the event table that is not yet wholly read, and whether a part of it is.

    Raises:
        KeyfoldError: the checkpoint was written in a form that this Keyfold does not know.
    """
    planned = _newest(generation.checkpoint / "offsets")
    if planned is None:
        return 0, False
    version, _, *sources = planned.read_text(encoding="utf-8").splitlines()
    offset: dict[str, Any] = json.loads(sources[0]) if sources and sources[0] != "-" else {}
    if version != f"v{_READABLE_OFFSETS}" or offset.get("sourceVersion") != _READABLE_OFFSETS:
        raise KeyfoldError(f"{planned} is not an offset log that this version of Keyfold reads; run the pinned Spark")
    return offset["reservoirVersion"], offset["index"] >= 0


def read_arrival(generation: Generation) -> Arrival | None:
    """When the last events came, None before any."""
    path = generation.folder / _ARRIVAL
    if not path.exists():
        return None
    return Arrival(**{name: datetime.fromisoformat(value) for name, value in read_json(path).items()})


def note_progress(generation: Generation, query: StreamingQuery) -> list[float]:
    """Give back the durations (s) of a query's micro-batches; where one read events, remember when they came."""
    recent = [batch for batch in query.recentProgress if "addBatch" in batch.durationMs]
    # The first source holds the events; the second is the clock, whose ticks are no arrivals.
    with_events = [batch for batch in recent if batch.sources[0].numInputRows and "max" in batch.eventTime]
    if with_events:
        before = read_arrival(generation)
        newest = max(datetime.fromisoformat(batch.eventTime["max"]) for batch in with_events)
        arrival = {
            "newest_event": (newest if before is None else max(newest, before.newest_event)).isoformat(),
            "arrived_at": datetime.now(UTC).isoformat(),
        }
        write_json(generation.folder / _ARRIVAL, arrival)
    return [batch.durationMs["triggerExecution"] / 1000 for batch in recent]


def _newest(log: Path) -> Path | None:
    return max(
        (path for path in log.glob("[0-9]*") if path.name.isdigit()), key=lambda path: int(path.name), default=None
    )
