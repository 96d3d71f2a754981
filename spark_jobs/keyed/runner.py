"""The runner: one bounded (or continuous) run of a keyed job over what is new in its event table."""

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from deltalake import DeltaTable
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from spark_jobs.errors import KeyfoldError
from spark_jobs.keyed import progress
from spark_jobs.keyed.clock import add_tick, forget_ticks, read_ticks, silent_event_time
from spark_jobs.keyed.contract import KeyedJob
from spark_jobs.keyed.generations import (
    Generation,
    check_generation,
    go_live,
    live_generation,
    new_branch,
    new_generation,
)
from spark_jobs.keyed.operator import BLOBS, EMITTED, KeyGroupProcessor, StepError, split_by_key_group
from spark_jobs.keyed.sink import Counts, sink, total_counts
from spark_jobs.lakehouse import Lakehouse, exclusive, is_table

Mode = Literal["incremental", "full_refresh", "replay"]

_POLL_SECONDS = 1


@dataclass(frozen=True)
class Replay:
    """What a replay runs over, and where to.

    Attributes:
        branch: names the branch; its tables are `<table>@<branch>`.
        since: the earliest event time, None from the beginning.
        until: the first event time that is left out, None to the end.
    """

    branch: str
    since: datetime | None = None
    until: datetime | None = None

    def __post_init__(self) -> None:
        if self.since and self.until and self.since >= self.until:
            raise KeyfoldError(f"replay {self.branch}: since {self.since} is not before until {self.until}")


@dataclass(frozen=True)
class RunOptions:
    """How a run goes about its work; none of these changes a result.

    Attributes:
        max_bytes_per_batch: of event files in a micro-batch, in Spark's notation.
        on_batch: called after each micro-batch with its number and counts.
    """

    max_bytes_per_batch: str = "128m"
    on_batch: Callable[[int, Counts], None] | None = None


@dataclass(frozen=True)
class RunSummary:
    """What one run of a job did.

    Attributes:
        job, generation, mode: what ran.
        counts: of this run.
        totals: of the generation so far; its `open_events` are those open now.
        watermark: event time reached, None before any event.
        batch_seconds: duration of each micro-batch.
        seconds: duration of the whole run.
    """

    job: str
    generation: str
    mode: Mode
    counts: Counts
    totals: Counts
    watermark: datetime | None
    batch_seconds: tuple[float, ...]
    seconds: float


def run_job(
    spark: SparkSession,
    lakehouse: Lakehouse,
    job: KeyedJob,
    *,
    mode: Mode = "incremental",
    replay: Replay | None = None,
    advance_to: datetime | None = None,
    options: RunOptions | None = None,
) -> RunSummary:
    """Process all that is new, tick the clock once, and end.

    Args:
        mode: `incremental` goes on in the live generation; `full_refresh` starts over in a new one, which goes live
            when all is done; `replay` runs over a range of event time into a branch and leaves the live tables alone.
        replay: the range and the branch, for mode `replay`.
        advance_to: event time that is taken as reached once the new events are in: what is due by then closes.

    Raises:
        KeyfoldError: nothing was ingested yet, another run holds the job, a setting does not fit the generation, or
            the step raised. A failed run leaves a checkpoint from which the next one resumes.
    """
    started = time.monotonic()
    if (mode == "replay") != (replay is not None):
        raise KeyfoldError(f"job {job.name}: a replay needs a branch (and may have since and until), other modes none")
    with exclusive(lakehouse.job(job.name), f"job {job.name}"):
        run = _Run(spark, lakehouse, job, mode, options or RunOptions(), replay)
        advance = None if advance_to is None else advance_to.astimezone(UTC) + job.watermark_delay
        if run.has_new_events() or advance is None:
            silent = None if run.has_new_events() else run.silent_event_time()
            run.process(silent)
        if advance is not None:
            # On its own, after the events: in one micro-batch with them it would make those behind them late.
            run.process(advance)
        run.finish()
        return run.summary(started)


def run_continuously(
    spark: SparkSession,
    lakehouse: Lakehouse,
    job: KeyedJob,
    *,
    interval: timedelta = timedelta(seconds=5),
    stop: threading.Event | None = None,
    options: RunOptions | None = None,
) -> RunSummary:
    """Process events as they come, with a micro-batch and a clock tick every interval, until stopped or interrupted."""
    started = time.monotonic()
    stop = stop or threading.Event()
    with exclusive(lakehouse.job(job.name), f"job {job.name}"):
        run = _Run(spark, lakehouse, job, "incremental", options or RunOptions())
        query = run.start(None, interval)
        try:
            while not stop.wait(interval.total_seconds()) and query.isActive:
                run.note(query)
                add_tick(run.generation.ticks, run.silent_event_time())
            run.await_end(query, stop_first=True)
        except KeyboardInterrupt:
            run.await_end(query, stop_first=True)
        finally:
            query.stop()
        return run.summary(started)


class _Run:
    """One run of a job on one generation."""

    def __init__(
        self,
        spark: SparkSession,
        lakehouse: Lakehouse,
        job: KeyedJob,
        mode: Mode,
        options: RunOptions,
        replay: Replay | None = None,
    ) -> None:
        self._events = lakehouse.events(job.stream)
        if not is_table(self._events):
            raise KeyfoldError(
                f"job {job.name} reads events.{job.stream}, which is not in {lakehouse.home} yet; "
                f"run `keyfold ingest {job.stream} --from DIR` first"
            )
        self._lakehouse, self._job, self._options, self._replay = lakehouse, job, options, replay
        self._mode: Mode = mode
        generation = live_generation(lakehouse, job.name) if mode == "incremental" else None
        self._goes_live_last = mode == "full_refresh"
        if replay is not None:
            generation = new_branch(spark, lakehouse, job, replay.branch)
        elif generation is None:
            generation = new_generation(spark, lakehouse, job)
            if not self._goes_live_last:
                go_live(lakehouse, generation)
        else:
            check_generation(generation, job)
        self.generation: Generation = generation
        # Its own session: the number of partitions is the generation's, whatever the caller's session has now.
        self._spark = spark.newSession()
        self._spark.conf.set("spark.sql.shuffle.partitions", generation.record["shuffle_partitions"])
        self._before = total_counts(generation)
        self._batch_seconds: list[float] = []
        if not progress.has_unfinished_batch(generation):
            forget_ticks(generation.ticks)

    def has_new_events(self) -> bool:
        version, _ = progress.next_version(self.generation)
        return DeltaTable(str(self._events)).version() >= version

    def silent_event_time(self) -> datetime | None:
        arrival = progress.read_arrival(self.generation)
        return silent_event_time(arrival, datetime.now(UTC), self._job.idle_after)

    def process(self, tick: datetime | None) -> None:
        """Run what is new, and a tick, to its end."""
        query = self.start(tick, None)
        try:
            self.await_end(query)
            self.note(query)
        finally:
            query.stop()

    def start(self, tick: datetime | None, interval: timedelta | None) -> StreamingQuery:
        job, generation = self._job, self.generation
        add_tick(generation.ticks, tick)
        source = self._spark.readStream.format("delta").option("maxBytesPerTrigger", self._options.max_bytes_per_batch)
        key_group = F.pmod(F.xxhash64(*job.key), F.lit(job.key_groups)).cast("int").alias("key_group")
        rows = source.load(str(self._events))
        if self._replay is not None:
            rows = _between(rows, job.event_time, self._replay)
        columns = [F.expr(job.derived[name]).alias(name) if name in job.derived else name for name in job.events.names]
        events = rows.select(*columns).select(key_group, *job.events.names)
        blobs = events.mapInArrow(split_by_key_group(job), BLOBS).unionByName(
            read_ticks(self._spark, generation.ticks, job.key_groups)
        )
        delay = f"{round(job.watermark_delay.total_seconds() * 1000)} milliseconds"
        emitted = (
            blobs.withWatermark("event_time", delay)
            .groupBy("key_group")
            .transformWithState(KeyGroupProcessor(job), EMITTED, "Append", "EventTime")
        )
        writer = emitted.writeStream.queryName(job.name).option("checkpointLocation", str(generation.checkpoint))
        writer = writer.foreachBatch(sink(job, generation, self._options.on_batch))
        if interval is None:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{interval.total_seconds()} seconds").start()

    def await_end(self, query: StreamingQuery, *, stop_first: bool = False) -> None:
        """Wait for a query's end in short steps, so that an interrupt is heard; give its failure in plain words."""
        if stop_first:
            query.stop()
        try:
            while not query.awaitTermination(_POLL_SECONDS):
                pass
        except StreamingQueryException as error:
            raise _readable(self._job, error) from error

    def note(self, query: StreamingQuery) -> None:
        self._batch_seconds += progress.note_progress(self.generation, query)

    def finish(self) -> None:
        if self._goes_live_last:
            go_live(self._lakehouse, self.generation)

    def summary(self, started: float) -> RunSummary:
        totals = total_counts(self.generation)
        return RunSummary(
            job=self._job.name,
            generation=self.generation.name,
            mode=self._mode,
            counts=totals - self._before,
            totals=totals,
            watermark=progress.watermark(self.generation),
            batch_seconds=tuple(self._batch_seconds),
            seconds=time.monotonic() - started,
        )


def _between(rows: DataFrame, event_time: str, replay: Replay) -> DataFrame:
    if replay.since is not None:
        rows = rows.where(F.col(event_time) >= F.lit(replay.since))
    if replay.until is not None:
        rows = rows.where(F.col(event_time) < F.lit(replay.until))
    return rows


def _readable(job: KeyedJob, error: StreamingQueryException) -> KeyfoldError:
    """Spark wraps a worker's traceback in its own; dig out the line that says which step failed on what."""
    text = str(error)
    found = re.search(re.escape(StepError.MARK) + r".*", text)
    if found:
        return KeyfoldError(
            f"{found.group()} (nothing of this micro-batch was written; mend the step or the data and run again)"
        )
    if "DELTA_SOURCE_TABLE_IGNORE_CHANGES" in text or "DELTA_SOURCE_IGNORE_DELETE" in text:
        return KeyfoldError(
            f"job {job.name}: rows of events.{job.stream} were changed or deleted by other than ingest, after it had "
            "begun to read them, and what they had led to cannot be taken back one by one; see that the event table is "
            "right, then start a new generation with --full-refresh"
        )
    return KeyfoldError(f"job {job.name} failed: {text}")
