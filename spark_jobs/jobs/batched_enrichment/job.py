"""Batched enrichment: buffers events and asks an external service about them, many in a call.

State holds the events that wait, shard by shard. Which events go together is decided by them and the clock alone:

- In order of event time (then id, then all the rest of the event), each `max_size` events from the front are a batch.
- The rest of a shard goes once one of it has waited `max_wait` in event time (`deadline`) or `stale_after` in
  processing time (`stale_at`); else it stays. A shard thus never keeps `max_size` events or more.

So a batch that is replayed after a crash makes the same calls again, each with the same idempotency key, and a service
that keeps to the protocol (`enrichment/protocol.py`) does its work once. Each answer is written down before it is used
(`Clock.answers`): what was answered before the crash is not asked again, and a service that now says something else
changes nothing.

Nothing is late: every event, however old, ends as a row of `batched_enrichment`, or where the service would not have it
of `batched_enrichment_dead_letters`. A service that is down makes dead letters and never fails the run.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from itertools import chain

import polars as pl
import pyarrow as pa
from pydantic import Field

from keyfold import (
    Clock,
    JobParameters,
    JobTemplate,
    KeyedJob,
    KeyfoldError,
    OutputTable,
    Step,
    Stream,
    column,
    required,
)
from keyfold.columns import passed_on
from keyfold.keyed.job import DEADLINE, STALE_AT, Delay, Duration
from keyfold.keyed.rows.answers import Answers
from keyfold.keyed.rows.codec import polars_schema
from keyfold.keyed.rows.hashing import PartOf
from keyfold.stream import TIMESTAMP
from keyfold.times import ISO_FORMAT, shifted
from spark_jobs.jobs.batched_enrichment.calls import call_all
from spark_jobs.jobs.batched_enrichment.client import ClientSettings, EnrichmentClient
from spark_jobs.jobs.batched_enrichment.protocol import MAX_EVENTS, Batch, Call, Outcome
from spark_jobs.jobs.batched_enrichment.services import SERVICES_VARIABLE, find_service
from spark_jobs.streams import RIDE_POINTS, STREAMS

NAME = "batched_enrichment"
DEAD_LETTERS = "batched_enrichment_dead_letters"
SHARD = "shard"

_ENRICHED, _KEY = "enrichment", "idempotency_key"
_FAILED = (
    column("attempts", pa.int32(), "Calls that it was in"),
    column("status", pa.int32(), "HTTP status of the last answer; NULL where none came"),
    column("answer", pa.string(), "The last answer, or why there was none; at most 1,000 characters"),
    column("failed_at", TIMESTAMP, "Processing time at which it was given up (UTC)"),
)
_WAITING = (pa.field(DEADLINE, TIMESTAMP), pa.field(STALE_AT, TIMESTAMP))


class BatchedEnrichmentParameters(JobParameters):
    """Parameters of `batched_enrichment`."""

    stream: str = Field(RIDE_POINTS.name, description=f"Whose events: {', '.join(STREAMS)}")
    service: str = Field(
        "",
        description=f"Name of the service that is asked, one of those in {SERVICES_VARIABLE}; empty takes the first of them",
    )
    max_size: int = Field(500, ge=1, le=MAX_EVENTS, description="Events in a call at most")
    max_wait: Duration = Field(timedelta(minutes=10), description="Event time that an event waits for a full batch")
    stale_after: Duration = Field(timedelta(minutes=5), description="Processing time that it waits for one")
    shards: int = Field(4, ge=1, le=1024, description="Into how many parts events are buffered, each by itself")
    watermark_delay: Delay = Field(
        timedelta(minutes=1), description="How far event time stays behind the newest event; adds to max_wait"
    )
    timeout: Duration = Field(timedelta(seconds=10), description="Within which a call must be answered")
    max_attempts: int = Field(5, ge=1, le=20, description="Calls at most that an event is in before it is given up")
    max_in_flight: int = Field(8, ge=1, le=256, description="Calls at a time, of each Spark task")
    first_pause: Duration = Field(
        timedelta(milliseconds=200), description="Longest pause after the first try; doubles with each"
    )
    max_pause: Duration = Field(timedelta(seconds=30), description="Longest of all pauses, Retry-After included")
    key_groups: int = Field(16, ge=1, le=32_768, description="Into how many parts the shards are split")


_HOW_TO_CALL = frozenset({"service", "timeout", "max_attempts", "max_in_flight", "first_pause", "max_pause"})
"""Parameters that change no batch."""

_FROM_HERE_ON = frozenset({"max_size", "max_wait", "stale_after"})
"""Parameters that count from here on: an event that waits goes when it was told to when it came, or with a full batch by
the new size. In which shard it waits is another matter.
"""


Connect = Callable[[], AbstractContextManager[Call]]
"""Makes ready to call, in the worker and only when there is something to ask."""


def build(parameters: BatchedEnrichmentParameters, connect: Connect | None = None) -> KeyedJob:
    """Make the job of its parameters.

    Args:
        connect: what calls, in place of the HTTP client.

    Raises:
        KeyfoldError: there is no such stream, it has a column that the job's own would hide, or no
            such service is named in the deployment's settings.
    """
    stream = _stream(parameters.stream)
    settings = ClientSettings(
        service=find_service(parameters.service),
        timeout=parameters.timeout.total_seconds(),
        max_attempts=parameters.max_attempts,
        max_in_flight=parameters.max_in_flight,
        first_pause=parameters.first_pause.total_seconds(),
        max_pause=parameters.max_pause.total_seconds(),
    )
    id_columns = stream.event_id or tuple(stream.schema.names)
    time = parameters.time_of(stream)
    events = pa.schema([_shard(id_columns), *stream.schema_by(time)])

    def step(state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
        return enrich(state, events, clock, parameters, connect or (lambda: EnrichmentClient(settings)))

    return KeyedJob(
        name=NAME,
        stream=stream,
        key=(SHARD,),
        derived={SHARD: PartOf(id_columns, parameters.shards)},
        event_time=time,
        events=events,
        state=pa.schema([*events, *_WAITING]),
        output=enriched_schema(stream, time),
        step=step,
        step_decides_late=True,
        side_outputs=(
            OutputTable(
                DEAD_LETTERS,
                dead_letter_schema(stream, time),
                events=pl.len(),
                description="Events that the service would not have, or that could not be asked about, with its last answer.",
            ),
        ),
        late_description="Always empty: every event is asked about, however late it comes.",
        **parameters.settings(),
        free_parameters=_HOW_TO_CALL,
        movable_parameters=_FROM_HERE_ON,
    )


BATCHED_ENRICHMENT = JobTemplate(
    NAME,
    "Every event with what an external service says of it, asked about in batches.",
    BatchedEnrichmentParameters,
    build,
)


def enriched_schema(stream: Stream, time: str) -> pa.Schema:
    """Columns of the main table: the event's, the service's answer as JSON, the key of the batch it was in."""
    enrichment = column(
        _ENRICHED, pa.string(), "What the service says of the event, as JSON", made_of=stream.schema.names
    )
    return pa.schema([*passed_on(stream.schema_by(time)), enrichment, _batch_key(stream)])


def dead_letter_schema(stream: Stream, time: str) -> pa.Schema:
    """Columns of the dead letters: the event's, and how and when it failed."""
    return pa.schema([*passed_on(stream.schema_by(time)), _batch_key(stream), *_FAILED])


def _shard(id_columns: Sequence[str]) -> pa.Field:
    return required(SHARD, pa.int64(), "Part of the stream that it is buffered with", made_of=id_columns)


def _batch_key(stream: Stream) -> pa.Field:
    meaning = "Key of the batch that the event was in: SHA-256 in hexadecimal"
    return column(_KEY, pa.string(), meaning, made_of=stream.event_id or stream.schema.names)


def enrich(
    state: pl.DataFrame,
    events: pl.DataFrame,
    clock: Clock,
    parameters: BatchedEnrichmentParameters,
    connect: Connect,
) -> Step:
    """The step: see the module's text. Pure but for the calls, and what is called is decided before the first one."""
    stream = STREAMS[parameters.stream]
    time = parameters.time_of(stream)
    waiting = events.with_columns(
        (pl.col(time) + parameters.max_wait).alias(DEADLINE),
        pl.lit(shifted(clock.processing_time, parameters.stale_after), dtype=pl.Datetime("us", "UTC")).alias(STALE_AT),
    )
    goes, stays = _part(_in_order(pl.concat([state, waiting]), stream, time), clock, parameters.max_size)
    batches = _batches(goes, stream)
    answered = _ask(goes, batches, parameters.max_in_flight, connect, clock.answers)
    failed = pl.col("enrichment").is_null()
    dead = answered.filter(failed).with_columns(failed_at=pl.lit(clock.processing_time, dtype=pl.Datetime("us", "UTC")))
    return Step(
        state=stays.select(state.columns),
        output=answered.filter(~failed).select(enriched_schema(stream, time).names),
        side={DEAD_LETTERS: dead.select(dead_letter_schema(stream, time).names)},
    )


def _in_order(waiting: pl.DataFrame, stream: Stream, time: str) -> pl.DataFrame:
    """Events shard by shard in order of this time, ties by all that they say, with `#event` and `#id`: JSON of each."""
    texts = [_json(stream.schema.names, stream).alias("#event")]
    texts.append(_json(stream.event_id, stream).alias("#id") if stream.event_id else texts[0].alias("#id"))
    return waiting.with_columns(texts).sort(SHARD, time, *stream.event_id, "#event")


def _json(columns: tuple[str, ...] | list[str], stream: Stream) -> pl.Expr:
    """The columns as JSON objects; times in ISO 8601 with microseconds, NaN and infinity as null."""
    types = polars_schema(stream.schema)
    values = [
        pl.col(name).dt.strftime(ISO_FORMAT) if types[name] == pl.Datetime("us", "UTC") else pl.col(name)
        for name in columns
    ]
    return pl.struct(values).struct.json_encode()


def _part(ordered: pl.DataFrame, clock: Clock, max_size: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Part the events that go now, each with the number of its `#batch`, from those that stay."""
    place, size = pl.int_range(pl.len()).over(SHARD), pl.len().cast(pl.Int64).over(SHARD)
    is_full = place < size - size % max_size
    is_due = (pl.col(DEADLINE) <= clock.watermark) | (pl.col(STALE_AT) <= clock.processing_time)
    # Once one of a shard's rest is due, all of the rest goes: a call costs the same for one as for many.
    goes = is_full | (is_due & ~is_full).any().over(SHARD)
    marked = ordered.with_columns(goes.alias("#goes"), (place // max_size).alias("#place"))
    going = marked.filter("#goes").with_columns(pl.struct(SHARD, "#place").rle_id().alias("#batch"))
    return going, marked.filter(~pl.col("#goes"))


def _batches(goes: pl.DataFrame, stream: Stream) -> list[Batch]:
    batches: list[Batch] = []
    start = 0
    for length in goes["#batch"].rle().struct.field("len"):
        part = goes.slice(start, length)
        batches.append(Batch(f"{NAME}/{stream.name}/{part[SHARD][0]}", part["#id"], part["#event"]))
        start += length
    return batches


def _ask(
    goes: pl.DataFrame, batches: list[Batch], max_in_flight: int, connect: Connect, answers: Answers
) -> pl.DataFrame:
    """The events that go, with what came of each."""
    outcomes: list[Outcome] = []
    if batches:
        with connect() as call:
            outcomes = list(chain.from_iterable(call_all(batches, call, max_in_flight, answers)))
    keys = chain.from_iterable([batch.idempotency_key] * len(batch) for batch in batches)
    return goes.with_columns(
        pl.Series("enrichment", [outcome.enrichment for outcome in outcomes], pl.String),
        pl.Series("idempotency_key", list(keys), pl.String),
        pl.Series("attempts", [outcome.attempts for outcome in outcomes], pl.Int32),
        pl.Series("status", [outcome.status for outcome in outcomes], pl.Int32),
        pl.Series("answer", [outcome.answer for outcome in outcomes], pl.String),
    )


def _stream(name: str) -> Stream:
    if name not in STREAMS:
        raise KeyfoldError(f"job {NAME}: no stream {name!r}; parameter stream takes one of {', '.join(STREAMS)}")
    stream = STREAMS[name]
    own = {SHARD, _ENRICHED, _KEY, *(field.name for field in (*_FAILED, *_WAITING))}
    if taken := own.intersection(stream.schema.names):
        raise KeyfoldError(f"job {NAME}: stream {name} has {', '.join(sorted(taken))}, which the job's tables need")
    return stream
