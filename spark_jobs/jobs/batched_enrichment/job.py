"""Buffer events, and enrich them by calls to an external service with many events per call.

State has the waiting events, by shard. Only the events and the clock decide which events form a batch:

- In order of event time (then id, then the other columns), each `max_size` events form a batch.
- The rest of a shard is sent when one of its events has waited for `max_wait` of event time (`deadline`) or `stale_after` of
  processing time (`processing_deadline`). So a shard never keeps `max_size` events or more.

A micro-batch that is repeated after a crash therefore makes the same calls with the same idempotency keys, and a service that
follows the protocol (`protocol.py`) does its work once. Each answer is stored before it is used (`Clock.responses`): calls that
were answered before the crash are not repeated, so a different answer cannot change the result.

No event is late: every event gives a row of `batched_enrichment`, or of `batched_enrichment_dead_letters` if the service
refuses it. A service that is down causes dead letters, and never fails the run.
"""

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from itertools import chain

import polars as pl
import pyarrow as pa
from pydantic import Field

from keyfold import (
    STEP_DECIDES,
    Append,
    Clock,
    Input,
    JobParameters,
    KeyedJob,
    KeyfoldError,
    Step,
    Stream,
    column,
    parameter,
    required,
    with_parameters,
)
from keyfold.columns import passed_on
from keyfold.keyed.job import DEADLINE, PROCESSING_DEADLINE, Delay, Duration
from keyfold.keyed.rows.codec import polars_schema
from keyfold.keyed.rows.hashing import PartOf
from keyfold.keyed.rows.response_cache import ResponseCache
from keyfold.stream import TIMESTAMP
from keyfold.times import ISO_FORMAT, shifted
from spark_jobs.jobs.batched_enrichment.client import ClientSettings, EnrichmentClient
from spark_jobs.jobs.batched_enrichment.protocol import MAX_EVENTS, Batch, Call, Outcome
from spark_jobs.jobs.batched_enrichment.services import SERVICES_VARIABLE, find_service
from spark_jobs.streams import RIDE_POINTS, STREAMS

NAME = "batched_enrichment"
DEAD_LETTERS = "batched_enrichment_dead_letters"
SHARD = "shard"

_ENRICHED, _KEY = "enrichment", "idempotency_key"
_FAILED = (
    column("attempts", pa.int32(), "Number of calls that contained the event"),
    column("status", pa.int32(), "HTTP status of the last answer; NULL without an answer"),
    column("answer", pa.string(), "The last answer, or why there was none; at most 1,000 characters"),
    column("failed_at", TIMESTAMP, "Processing time at which the event was given up (UTC)"),
)
_WAITING = (pa.field(DEADLINE, TIMESTAMP), pa.field(PROCESSING_DEADLINE, TIMESTAMP))


class BatchedEnrichmentParameters(JobParameters):
    """Parameters of `batched_enrichment`."""

    stream: str = Field(RIDE_POINTS.name, description=f"Stream of the events: {', '.join(STREAMS)}")
    # Those of the calls do not affect batches, and are free.
    service: str = parameter(
        "",
        description=f"Name of the service, one of those in {SERVICES_VARIABLE}; if empty, the first of them",
        change="free",
    )
    # A waiting event keeps the deadlines that it got when it arrived, or is sent with a full batch of the new size. `shards`
    # needs a refresh, since waiting events would be in other shards.
    max_size: int = parameter(
        500, ge=1, le=MAX_EVENTS, description="Largest number of events in a call", change="migrate"
    )
    max_wait: Duration = parameter(
        timedelta(minutes=10), description="Event time that an event waits for a full batch", change="migrate"
    )
    stale_after: Duration = parameter(
        timedelta(minutes=5), description="Processing time that an event waits for a full batch", change="migrate"
    )
    shards: int = Field(4, ge=1, le=1024, description="Number of shards in which events are buffered separately")
    watermark_delay: Delay = Field(
        timedelta(minutes=1), description="How far the watermark stays behind the newest event; adds to max_wait"
    )
    timeout: Duration = parameter(timedelta(seconds=10), description="Time limit of a call", change="free")
    max_attempts: int = parameter(
        5, ge=1, le=20, description="Largest number of calls for an event before it is given up", change="free"
    )
    max_in_flight: int = parameter(8, ge=1, le=256, description="Concurrent calls of each Spark task", change="free")
    first_pause: Duration = parameter(
        timedelta(milliseconds=200),
        description="Longest pause after the first try; doubles with each try",
        change="free",
    )
    max_pause: Duration = parameter(
        timedelta(seconds=30), description="Longest pause, Retry-After included", change="free"
    )
    key_groups: int = Field(
        16, ge=1, le=32_768, description="Number of key groups that the shards are distributed over"
    )


Connect = Callable[[], AbstractAsyncContextManager[Call]]
"""Opens a client, in the worker and only if there is something to send."""


def build(parameters: BatchedEnrichmentParameters, connect: Connect | None = None) -> KeyedJob:
    """Every event with the answer of an external service, which is called in batches.

    Args:
        connect: opens a client in place of the HTTP client.

    Raises:
        KeyfoldError: the stream is unknown or has a column with a reserved name, or the service is not configured.
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
        NAME,
        Input(
            stream,
            at=time,
            delay=parameters.watermark_delay,
            # Every event is sent, however late it arrives.
            final_at=STEP_DECIDES,
            columns=events,
            derive={SHARD: PartOf(id_columns, parameters.shards)},
        ),
        key=SHARD,
        parameters=parameters,
        closes_in_order=True,
        state=pa.schema([*events, *_WAITING]),
        step=step,
        tables=[
            Append(enriched_schema(stream, time)),
            Append(
                dead_letter_schema(stream, time),
                name=DEAD_LETTERS,
                events=pl.len(),
                description="Events that the service refused or that could not be sent, with the last answer.",
            ),
        ],
    )


def enriched_schema(stream: Stream, time: str) -> pa.Schema:
    """Return the columns of the main table: the event's, the service's answer as JSON, and the key of its batch."""
    enrichment = column(
        _ENRICHED, pa.string(), "The service's answer for the event, as JSON", lineage=stream.schema.names
    )
    return pa.schema([*passed_on(stream.schema_by(time)), enrichment, _batch_key(stream)])


def dead_letter_schema(stream: Stream, time: str) -> pa.Schema:
    """Return the columns of the dead letters: the event's, and how and when it failed."""
    return pa.schema([*passed_on(stream.schema_by(time)), _batch_key(stream), *_FAILED])


def _shard(id_columns: Sequence[str]) -> pa.Field:
    return required(SHARD, pa.int64(), "Part of the stream that it is buffered with", lineage=id_columns)


def _batch_key(stream: Stream) -> pa.Field:
    meaning = "Key of the event's batch: SHA-256 in hexadecimal"
    return column(_KEY, pa.string(), meaning, lineage=stream.event_id or stream.schema.names)


def enrich(
    state: pl.DataFrame,
    events: pl.DataFrame,
    clock: Clock,
    parameters: BatchedEnrichmentParameters,
    connect: Connect,
) -> Step:
    """Run the step. It is pure except for the calls, all of which are decided before the first one is made."""
    stream = STREAMS[parameters.stream]
    time = parameters.time_of(stream)
    waiting = events.with_columns(
        (pl.col(time) + parameters.max_wait).alias(DEADLINE),
        pl.lit(shifted(clock.processing_time, parameters.stale_after), dtype=pl.Datetime("us", "UTC")).alias(
            PROCESSING_DEADLINE
        ),
    )
    goes, stays = _part(_in_order(pl.concat([state, waiting]), stream, time), clock, parameters.max_size)
    batches = _batches(goes, stream)
    answered = _ask(goes, batches, parameters.max_in_flight, connect, clock.responses)
    failed = pl.col("enrichment").is_null()
    dead = answered.filter(failed).with_columns(failed_at=pl.lit(clock.processing_time, dtype=pl.Datetime("us", "UTC")))
    return Step(
        state=stays.select(state.columns),
        output=answered.filter(~failed).select(enriched_schema(stream, time).names),
        side={DEAD_LETTERS: dead.select(dead_letter_schema(stream, time).names)},
    )


def _in_order(waiting: pl.DataFrame, stream: Stream, time: str) -> pl.DataFrame:
    """Order events by shard and this time, ties by all columns, and add `#event` and `#id` as JSON."""
    texts = [_json(stream.schema.names, stream).alias("#event")]
    texts.append(_json(stream.event_id, stream).alias("#id") if stream.event_id else texts[0].alias("#id"))
    return waiting.with_columns(texts).sort(SHARD, time, *stream.event_id, "#event")


def _json(columns: tuple[str, ...] | list[str], stream: Stream) -> pl.Expr:
    """Convert columns to JSON objects; times in ISO 8601 with microseconds, NaN and infinity as null."""
    types = polars_schema(stream.schema)
    values = [
        pl.col(name).dt.strftime(ISO_FORMAT) if types[name] == pl.Datetime("us", "UTC") else pl.col(name)
        for name in columns
    ]
    return pl.struct(values).struct.json_encode()


def _part(ordered: pl.DataFrame, clock: Clock, max_size: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Split the events that are sent now, each with the number of its `#batch`, from those that stay."""
    place, size = pl.int_range(pl.len()).over(SHARD), pl.len().cast(pl.Int64).over(SHARD)
    is_full = place < size - size % max_size
    is_due = (pl.col(DEADLINE) <= clock.watermark) | (pl.col(PROCESSING_DEADLINE) <= clock.processing_time)
    # If one event of a shard's rest is due, all of it is sent: a call costs the same for one event as for many.
    goes = is_full | (is_due & ~is_full).any().over(SHARD)
    marked = ordered.with_columns(goes.alias("#goes"), (place // max_size).alias("#place"))
    going = marked.filter("#goes").with_columns(pl.struct(SHARD, "#place").rle_id().alias("#batch"))
    return going, marked.filter(~pl.col("#goes"))


def _batches(goes: pl.DataFrame, stream: Stream) -> list[Batch]:
    parts = goes.partition_by("#batch", maintain_order=True)
    return [Batch(f"{NAME}/{stream.name}/{part[SHARD][0]}", part["#id"], part["#event"]) for part in parts]


def _ask(
    goes: pl.DataFrame, batches: list[Batch], max_in_flight: int, connect: Connect, cache: ResponseCache
) -> pl.DataFrame:
    """Send the events, and return them with their outcomes."""
    answered = asyncio.run(call_all(batches, connect, max_in_flight, cache)) if batches else []
    outcomes = list(chain.from_iterable(answered))
    keys = chain.from_iterable([batch.idempotency_key] * len(batch) for batch in batches)
    return goes.with_columns(
        pl.Series("enrichment", [outcome.enrichment for outcome in outcomes], pl.String),
        pl.Series("idempotency_key", list(keys), pl.String),
        pl.Series("attempts", [outcome.attempts for outcome in outcomes], pl.Int32),
        pl.Series("status", [outcome.status for outcome in outcomes], pl.Int32),
        pl.Series("answer", [outcome.answer for outcome in outcomes], pl.String),
    )


async def call_all(
    batches: Sequence[Batch], connect: Connect, max_in_flight: int, cache: ResponseCache
) -> list[Sequence[Outcome]]:
    """Call once per distinct batch, at most `max_in_flight` at a time; return the outcomes in the order of the batches.

    A failed call is an outcome, not an exception.

    Args:
        batches: the batches of events.
        connect: opens a client.
        max_in_flight: largest number of concurrent calls.
        cache: stores outcomes before they are used, and returns them if a batch is repeated.

    Raises:
        OSError: an outcome cannot be stored; then none may be used.
    """
    # Batches of events without an id may be equal. They share one call, so that they get the same answer.
    asked = {batch.idempotency_key: batch for batch in batches}
    # Besides the connections' own limit, since a call that waits for one would use up its time.
    places = asyncio.Semaphore(max_in_flight)

    async def outcomes_of(call: Call, key: str, batch: Batch) -> Sequence[Outcome]:
        async with places:
            if (kept := await asyncio.to_thread(cache.get, key)) is not None:
                return [Outcome(*fields) for fields in json.loads(kept)]
            try:
                outcomes = await call(batch)
            except Exception as error:
                outcomes = [Outcome(None, 1, answer=f"{type(error).__name__}: {error}")] * len(batch)
            await asyncio.to_thread(cache.keep, key, json.dumps([list(outcome) for outcome in outcomes]))
            return outcomes

    async with connect() as call:
        found = await asyncio.gather(*(outcomes_of(call, key, batch) for key, batch in asked.items()))
    by_key = dict(zip(asked, found, strict=True))
    return [by_key[batch.idempotency_key] for batch in batches]


def _stream(name: str) -> Stream:
    if name not in STREAMS:
        raise KeyfoldError(f"job {NAME}: no stream {name!r}; parameter stream takes one of {', '.join(STREAMS)}")
    stream = STREAMS[name]
    own = {SHARD, _ENRICHED, _KEY, *(field.name for field in (*_FAILED, *_WAITING))}
    if taken := own.intersection(stream.schema.names):
        raise KeyfoldError(f"job {NAME}: stream {name} has {', '.join(sorted(taken))}, which the job's tables need")
    return stream


BATCHED_ENRICHMENT = with_parameters(build)
