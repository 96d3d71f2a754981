"""Buffer events, and enrich them by calls to an external service with many events per call.

State has the waiting events, by shard. Full batches of a shard are sent at once, and its rest when one of its events has waited for
`max_wait` of event time or `stale_after` of processing time (`buffer`). So the events and the clock alone decide which events form a batch.

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
from functools import partial
from itertools import chain

import polars as pl
import pyarrow as pa
from pydantic import Field

from keyfold import (
    TIMESTAMP,
    Append,
    Clock,
    Delay,
    Duration,
    Input,
    JobParameters,
    KeyedJob,
    PartOf,
    ResponseCache,
    column,
    json_lines,
    parameter,
    passed_on,
    required,
    with_parameters,
)
from keyfold.operators import BATCH, buffer
from spark_jobs.jobs.batched_enrichment.protocol import MAX_EVENTS, Batch, Call, Outcome
from spark_jobs.jobs.batched_enrichment.services import SERVICES_VARIABLE, find_service
from spark_jobs.streams import RIDE_POINTS, STREAMS, find_stream

NAME = "batched_enrichment"
DEAD_LETTERS = "batched_enrichment_dead_letters"
SHARD = "shard"

_FAILED = (
    column("attempts", pa.int32(), "Number of calls that contained the event"),
    column("status", pa.int32(), "HTTP status of the last answer; NULL without an answer"),
    column("answer", pa.string(), "The last answer, or why there was none; at most 1,000 characters"),
    column("failed_at", TIMESTAMP, "Processing time at which the event was given up (UTC)"),
)


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
    delay: Delay = Field(
        timedelta(minutes=1), description="How far the watermark stays behind the newest event; adds to max_wait"
    )
    timeout: Duration = parameter(timedelta(seconds=10), description="Time limit of a call", change="free")
    max_attempts: int = parameter(
        5, ge=1, le=20, description="Largest number of calls for an event before it is given up", change="free"
    )
    max_in_flight: int = parameter(8, ge=1, le=256, description="Concurrent calls of each Spark task", change="free")
    key_groups: int = Field(
        16, ge=1, le=32_768, description="Number of key groups that the shards are distributed over"
    )


Connect = Callable[[], AbstractAsyncContextManager[Call]]
"""Opens a client, in the worker and only if there is something to send."""


def build(parameters: BatchedEnrichmentParameters, connect: Connect | None = None) -> KeyedJob:
    """Events with the answers of an external service, which is called with many events at a time.

    Args:
        connect: opens a client in place of the HTTP client.

    Raises:
        KeyfoldError: the stream is unknown or has a column with a reserved name, or the service is not configured.
    """
    stream = find_stream(NAME, parameters.stream)
    service = find_service(parameters.service)
    ids, time = stream.event_id or tuple(stream.schema.names), parameters.time_of(stream)
    columns = stream.schema_by(time)
    shard = required(SHARD, pa.int64(), "Part of the stream that it is buffered with", lineage=ids)
    enrichment = column(
        "enrichment", pa.string(), "The service's answer for the event, as JSON", lineage=stream.schema.names
    )
    batch_key = column("idempotency_key", pa.string(), "Key of the event's batch: SHA-256 in hexadecimal", lineage=ids)
    enriched = pa.schema([*passed_on(columns), enrichment, batch_key])
    dead = pa.schema([*passed_on(columns), batch_key, *_FAILED])

    def send(events: pl.DataFrame, clock: Clock) -> dict[str, pl.DataFrame]:
        # All calls are decided before the first one is made.
        texts = events.with_columns(
            json_lines(events.select(names)).alias(name)
            for name, names in {"#event": stream.schema.names, "#id": ids}.items()
        )
        batches = [
            Batch(f"{NAME}/{stream.name}/{part[SHARD][0]}", part["#id"], part["#event"])
            for part in texts.partition_by(BATCH, maintain_order=True)
        ]
        # Imported here, since Dagster's definitions load this module, and importing httpx takes 0.1 s.
        from spark_jobs.jobs.batched_enrichment.client import EnrichmentClient  # noqa: PLC0415

        opened = connect or partial(EnrichmentClient, service, parameters)
        found = asyncio.run(call_all(batches, opened, parameters.max_in_flight, clock.responses)) if batches else []
        keys = [batch.idempotency_key for batch in batches for _ in range(len(batch))]
        outcomes = pl.DataFrame(
            [(*outcome, key) for outcome, key in zip(chain.from_iterable(found), keys, strict=True)],
            schema={
                "enrichment": pl.String, "attempts": pl.Int32, "status": pl.Int32, "answer": pl.String, "idempotency_key": pl.String
            },
            orient="row",
        )  # fmt: skip
        now = pl.lit(clock.processing_time, pl.Datetime("us", "UTC")).alias("failed_at")
        answered = pl.concat([events, outcomes], how="horizontal").with_columns(now)
        is_dead = pl.col("enrichment").is_null()
        return {
            NAME: answered.filter(~is_dead).select(enriched.names),
            DEAD_LETTERS: answered.filter(is_dead).select(dead.names),
        }

    return buffer(
        NAME,
        Input(
            stream.derive(**{SHARD: PartOf(ids, parameters.shards)}),
            at=time,
            delay=parameters.delay,
            columns=pa.schema([shard, *columns]),
        ),
        parameters.max_size,
        send,
        [
            Append(enriched),
            Append(
                dead,
                name=DEAD_LETTERS,
                events=pl.len(),
                description="Events that the service refused or that could not be sent, with the last answer.",
            ),
        ],
        key=SHARD,
        wait=parameters.max_wait,
        processing_wait=parameters.stale_after,
        parameters=parameters,
    )


async def call_all(
    batches: Sequence[Batch], connect: Connect, max_in_flight: int, cache: ResponseCache
) -> list[Sequence[Outcome]]:
    """Call once per distinct batch, at most `max_in_flight` at a time; return the outcomes in the order of the batches.

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


BATCHED_ENRICHMENT = with_parameters(build)
