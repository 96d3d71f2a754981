"""The clock source: a folder of tiny tick files that keeps time moving when a stream is silent.

Spark runs no micro-batch without new input, so no timer fires on a silent stream. Each run of a job therefore adds one
tick. A tick without an event time makes a batch and wakes every key group, so that processing time is seen; a tick
with one also moves the watermark.
"""

import json
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType, TimestampType

from spark_jobs.keyed.operator import CLOCK_GROUP
from spark_jobs.keyed.progress import Arrival

_TICK = StructType([StructField("event_time", TimestampType())])


def add_tick(ticks: Path, event_time: datetime | None = None) -> None:
    """Add a tick; `event_time` is the event time that has been reached, if the tick is to move it."""
    ticks.mkdir(parents=True, exist_ok=True)
    content = {} if event_time is None else {"event_time": event_time.astimezone(UTC).isoformat()}
    name = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{uuid.uuid4().hex}.json"
    written = ticks / f".{name}"
    written.write_text(json.dumps(content) + "\n", encoding="utf-8")
    written.rename(ticks / name)


def forget_ticks(ticks: Path) -> None:
    """Delete the ticks of finished runs; call it only when no micro-batch is left to replay."""
    for tick in ticks.glob("*.json"):
        tick.unlink()


def read_ticks(spark: SparkSession, ticks: Path, key_groups: int) -> DataFrame:
    """Stream the ticks as rows of `operator.BLOBS`: one for every key group, and one that carries the event time."""
    ticks.mkdir(parents=True, exist_ok=True)
    group = F.explode(F.sequence(F.lit(CLOCK_GROUP), F.lit(key_groups - 1))).alias("key_group")
    return (
        spark.readStream.schema(_TICK)
        .option("maxFileAge", "36500d")
        .json(str(ticks))
        .select(group, "event_time")
        .select(
            "key_group",
            F.when(F.col("key_group") == CLOCK_GROUP, F.col("event_time")).alias("event_time"),
            F.lit(None).cast("binary").alias("payload"),
        )
    )


def silent_event_time(arrival: Arrival | None, now: datetime, idle_after: timedelta | None) -> datetime | None:
    """The event time that a silent stream has reached: its newest event's, plus the time since that event came.

    None while the stream is not silent, or where the job leaves event time to its events.
    """
    if idle_after is None or arrival is None or now - arrival.arrived_at < idle_after:
        return None
    return arrival.newest_event + (now - arrival.arrived_at)
