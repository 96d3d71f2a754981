"""Finds second copies of events, within a batch and against the event table.

Spark's own dropDuplicatesWithinWatermark is no help: it drops late rows without a word.

A copy is a row with the id of an earlier one and an event time no more than the window away from a copy that is kept.
Earlier are the rows of the event table; within a batch, the row of the smaller file and line.
"""

from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.microseconds import micros
from spark_jobs.streams import Stream


def event_id(stream: Stream) -> Column:
    """A stream's event id as one column."""
    return F.struct(*(F.col(name) for name in stream.event_id))


def find_duplicates(
    spark: SparkSession, stream: Stream, accepted: DataFrame, events: Path, span: tuple[int, int], *, repeats: bool
) -> DataFrame | None:
    """The places (file, line) of the rows that are second copies, or None where there can be none.

    Args:
        spark: the session.
        stream: its id and its window decide.
        accepted: the batch's valid rows, with file and line; read several times.
        events: the event table, as it was before this batch.
        span: the least and the greatest event time of the batch, in microseconds since 1970.
        repeats: whether an id may come twice in the batch.
    """
    window = micros(stream.duplicate_window)
    time = F.unix_micros(F.col(stream.event_time)).alias("at")
    between = F.col(stream.event_time).between(
        F.timestamp_micros(F.lit(span[0] - window)), F.timestamp_micros(F.lit(span[1] + window))
    )
    rows = accepted.select(event_id(stream).alias("id"), time, "file", "line")
    history = spark.read.format("delta").load(str(events)).where(between)
    nowhere = F.expr("CAST(NULL AS STRING)").alias("file"), F.expr("CAST(NULL AS BIGINT)").alias("line")
    history = history.select(event_id(stream).alias("id"), time, *nowhere)
    seen = history.join(rows.select("id"), "id", "left_semi")
    if seen.isEmpty():
        if not repeats:
            return None
        seen = rows.limit(0)
    suspects = seen.select("id").unionByName(rows.groupBy("id").count().where("count > 1").select("id"))
    suspected = rows.join(suspects, "id", "left_semi")
    kept = suspected.unionByName(seen).groupBy("id").agg(_kept(window).alias("kept"))
    kept = kept.select(F.inline("kept")).where("file IS NOT NULL").select("file", "line")
    return suspected.select("file", "line").join(kept, ["file", "line"], "left_anti")


def _kept(window: int) -> Column:
    """The copies of one id that stand: in order, each that lies further than the window from all that stand already."""
    # NULL sorts first, and so do the rows that are in the event table
    ordered = F.sort_array(F.collect_list(F.struct("file", "line", "at")))
    nothing = F.slice(ordered, 1, 0)
    return F.aggregate(
        ordered,
        nothing,
        lambda kept, copy: F.when(
            copy["file"].isNotNull() & F.exists(kept, lambda other: F.abs(other["at"] - copy["at"]) <= window), kept
        ).otherwise(F.concat(kept, F.array(copy))),
    )
