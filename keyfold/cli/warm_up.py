"""Warm up a Spark session: ingest a few events and run a small job before real runs attach."""

import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pyarrow as pa
from pyspark.sql import SparkSession

from keyfold.ingestion import ingest
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.step import DEADLINE, Clock, Step
from keyfold.keyed.runner import run_job
from keyfold.lakehouse import Lakehouse
from keyfold.stream import TIMESTAMP, Stream
from keyfold.times import ISO_FORMAT

_ROUNDS, _KEYS, _EVENTS = 2, 20, 1_000

_EVENT = pa.schema(
    [
        pa.field("key", pa.int64(), nullable=False),
        pa.field("time", TIMESTAMP, nullable=False),
        pa.field("value", pa.float64()),
    ]
)


def warm_up(spark: SparkSession) -> None:
    """Ingest a few events and run a keyed job on them in a temporary folder."""
    stream = Stream(name="warm_up", schema=_EVENT, event_time="time")
    job = KeyedJob(
        name="warm_up",
        stream=stream,
        key=("key",),
        event_time="time",
        watermark_delay=timedelta(minutes=1),
        events=_EVENT,
        state=_EVENT.append(pa.field(DEADLINE, TIMESTAMP)),
        output=_EVENT,
        step=_newest_of_each_key,
    )
    with tempfile.TemporaryDirectory(prefix="keyfold-warm-", ignore_cleanup_errors=True) as folder:
        lakehouse, landing = Lakehouse(folder), Path(folder) / "landing" / stream.name
        landing.mkdir(parents=True)
        start = datetime.now(UTC) - timedelta(hours=12)
        for number in range(_ROUNDS):
            # Each round begins two hours after the last, so the deadlines of the last one's keys are due in it.
            seconds = pl.int_range(_EVENTS)
            events = pl.select(
                key=seconds % _KEYS,
                time=(pl.lit(start + number * timedelta(hours=2)) + pl.duration(seconds=seconds)).dt.strftime(
                    ISO_FORMAT
                ),
                value=seconds / 7,
            )
            events.write_ndjson(landing / f"{number}.ndjson")
            ingest(spark, lakehouse, stream)
            run_job(spark, lakehouse, job)


def _newest_of_each_key(state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
    """Keep the newest event of each key, and write it an hour of event time later."""
    known = pl.concat([state.drop(DEADLINE), events]).sort("time").unique("key", keep="last", maintain_order=True)
    known = known.with_columns((pl.col("time") + pl.duration(hours=1)).alias(DEADLINE))
    is_over = pl.col(DEADLINE) <= clock.watermark
    return Step(state=known.filter(~is_over), output=known.filter(is_over).drop(DEADLINE))
