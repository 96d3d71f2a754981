"""Read the status of a continuous run from its journal, and decide whether a sensor reports it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from keyfold import ingestion
from keyfold.errors import KeyfoldError
from keyfold.ingestion.landing import find_landing
from keyfold.ingestion.sources.kafka.offsets import unread
from keyfold.ingestion.sources.kafka.topic import KafkaTopic, topic_state
from keyfold.keyed.generation.configured import configured_job
from keyfold.keyed.generation.generations import live_generation
from keyfold.keyed.job.template import JobTemplate
from keyfold.keyed.plans.inputs import input_tables
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.locks import is_held
from keyfold.lakehouse.log_changes import changes_since
from keyfold.lakehouse.positions import Position
from keyfold.runs.health import STALLED
from keyfold.stream import Stream

SILENT = timedelta(minutes=10)
"""The interval at which the status is reported if no batch is written."""


@dataclass(frozen=True)
class Standing:
    """The status of a continuous run.

    Attributes:
        name: the job or the stream.
        is_running: whether a process holds its lock.
        generation: the generation of its tables.
        batch: the newest committed batch, None before the first.
        finished_at: when that batch was committed.
        pending_since: when the oldest uncommitted batch was planned; None if there is none.
        rows: rows written so far, by table.
        events: events read so far.
        watermark: the watermark of a job.
        unread: unread rows of the event table, or unread messages of the topic; None if not known.
    """

    name: str
    is_running: bool
    generation: str = ""
    batch: int | None = None
    finished_at: datetime | None = None
    pending_since: datetime | None = None
    rows: Mapping[str, int] = field(default_factory=dict)
    events: int = 0
    watermark: datetime | None = None
    unread: int | None = None


@dataclass(frozen=True)
class Look:
    """The report of a sensor's tick.

    Attributes:
        cursor: the sensor's next cursor.
        metadata: plain values of an observation, by name; empty if there is nothing to report.
        reason: why nothing is reported, for people.
    """

    cursor: str | None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""


def look(standing: Standing, cursor: str | None, now: datetime) -> Look:
    """Decide whether to report: a new batch, a process that started, stopped or stalled, or a long silence.

    Args:
        standing: the present status.
        cursor: the cursor of the last report, None before the first.
        now: the clock, UTC.
    """
    if standing.batch is None or standing.finished_at is None:
        return Look(cursor, reason=f"{standing.name} has not committed a batch yet")
    healthy, text = is_healthy(standing, now)
    state = [standing.generation, standing.batch, standing.is_running, healthy]
    before = json.loads(cursor) if cursor else {}
    ago = now - standing.finished_at
    if before.get("state") == state and now.timestamp() - before["at"] < SILENT.total_seconds():
        return Look(cursor, reason=f"no batch of {standing.name} since batch {standing.batch}, {_plain(ago)} ago")
    metadata: dict[str, Any] = {
        "batch": standing.batch,
        "events": standing.events,
        "is_running": standing.is_running,
        "silent_seconds": round(ago.total_seconds(), 1),
        "state": text,
    }
    if standing.unread is not None:
        metadata["lag_rows"] = standing.unread
    if standing.watermark is not None:
        metadata |= {
            "watermark": standing.watermark,
            "watermark_lag_seconds": round((now - standing.watermark).total_seconds(), 1),
        }
    return Look(json.dumps({"state": state, "at": now.timestamp()}), metadata)


def is_healthy(standing: Standing, now: datetime) -> tuple[bool, str]:
    """Return whether a process runs the job or stream and finishes its batches, with a description."""
    if not standing.is_running:
        return False, f"no process runs {standing.name}: see its log, and start it again; it continues where it stopped"
    pending = now - standing.pending_since if standing.pending_since else timedelta(0)
    if pending.total_seconds() > STALLED:
        return False, f"a batch of {standing.name} was planned {_plain(pending)} ago and is not committed"
    if standing.batch is None:
        return True, f"{standing.name} runs, and has not committed a batch yet"
    return True, f"{standing.name} runs; batch {standing.batch} is the newest"


def standing_of_job(lakehouse: Lakehouse, template: JobTemplate) -> Standing:
    """Read a job's status from the journal of its live generation."""
    is_running = is_held(lakehouse.job(template.name))
    generation = live_generation(lakehouse, template.name)
    done = generation.journal.last_done() if generation else None
    if generation is None or done is None:
        return Standing(template.name, is_running)
    pending = generation.journal.pending()
    return Standing(
        template.name,
        is_running,
        generation.name,
        done.batch,
        done.finished_at,
        pending[0].planned_at if pending else None,
        done.total_rows,
        done.total_events,
        done.watermark,
        _unread_rows(lakehouse, template, done.positions),
    )


def standing_of_ingest(lakehouse: Lakehouse, streams: Sequence[Stream]) -> Standing:
    """Read the status of the ingest of streams that share a landing; the first stream's journal has the batches of all."""
    stream = streams[0]
    is_running, journal = is_held(lakehouse.ingest(stream.name)), ingestion.ingest_journal(lakehouse, stream.name)
    done = journal.last_done()
    if done is None:
        return Standing(stream.name, is_running)
    pending = journal.pending()
    return Standing(
        stream.name,
        is_running,
        "",
        done.batch,
        done.finished_at,
        pending[0].planned_at if pending else None,
        {
            f"{kind}.{one.name}": count
            for one in streams
            for totals in [ingestion.ingest_totals(lakehouse, one)]
            for kind, count in (("events", totals.accepted), ("quarantine", totals.quarantined))
        },
        sum(ingestion.ingest_totals(lakehouse, one).rows_read for one in streams),
        unread=_unread_messages(lakehouse, stream),
    )


def _unread_rows(lakehouse: Lakehouse, template: JobTemplate, positions: Mapping[str, Position]) -> int | None:
    try:
        job = configured_job(lakehouse, template)
        tables = input_tables(lakehouse, job)
        # An input that was added to the job has no position before the next batch.
        if not positions.keys() >= tables.keys():
            return None
        each = {one.table: one for one in job.all_inputs.values()}
        changes = [changes_since(tables[name], positions[name], one.stored_time) for name, one in each.items()]
    except (KeyfoldError, OSError):
        return None  # the run itself reports the error
    return sum(file.rows for one in changes for file in one.files)


def _unread_messages(lakehouse: Lakehouse, stream: Stream) -> int | None:
    try:
        topic = find_landing(stream.name)
        if not isinstance(topic, KafkaTopic):
            return None
        return unread(topic_state(topic), ingestion.read_topics(lakehouse, stream.name).get(topic.source))
    except KeyfoldError:
        return None  # Kafka does not answer; ingest reports this


def _plain(length: timedelta) -> str:
    return str(timedelta(seconds=round(length.total_seconds())))
