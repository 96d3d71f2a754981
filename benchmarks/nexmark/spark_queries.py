"""The queries that stock Spark's streaming SQL can express: windows, sessions, stream-stream joins, updated totals.

It cannot express a maximum over all keys with ties (5, 7), an aggregate of an updated aggregate (4, 6), distinct counts (15, 16)
or a top N (9, 19). Sessions and windows that are open at the end are not written, since no later event advances event time.
"""

# ruff: noqa: S608 - of this page alone

import shutil
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from benchmarks.nexmark.events import KINDS
from benchmarks.nexmark.flink_queries import QUERIES as FLINK_QUERIES
from benchmarks.nexmark.streams import STREAMS
from keyfold.runners import Runners

_TEN = "window(dateTime, '10 seconds') AS w"
SPARK_QUERIES: dict[int, str] = {
    3: FLINK_QUERIES[3],
    8: f"""SELECT p.id, p.name, p.w FROM (SELECT id, name, {_TEN} FROM person GROUP BY ALL) p
        JOIN (SELECT seller, {_TEN} FROM auction GROUP BY ALL) a ON p.id = a.seller AND p.w = a.w""",
    11: """SELECT bidder, count(*) AS bids, session_window(dateTime, '10 seconds') AS session FROM bid
        GROUP BY bidder, session_window(dateTime, '10 seconds')""",
    17: """SELECT auction, date(dateTime) AS day, min(price) AS least, max(price) AS greatest, count_if(price < 10000) AS low,
        count_if(price >= 10000 AND price < 1000000) AS middle, count_if(price >= 1000000) AS high, sum(price) AS total,
        count(*) AS bids, avg(price) AS average FROM bid GROUP BY auction, date(dateTime)""",
    18: """SELECT bidder, auction, max_by(struct(price, channel, url, dateTime, extra), dateTime) AS last FROM bid
        GROUP BY bidder, auction""",
    20: FLINK_QUERIES[20],
    23: FLINK_QUERIES[23],
}
_UPDATED = frozenset({17, 18})
_KINDS = {"int64": "bigint", "string": "string", "timestamp[us, tz=UTC]": "timestamp"}


def run_on_spark(spark: Runners, files: str, folder: str, number: int, files_a_batch: int) -> dict[str, Any]:
    """Run a query over all files into a table of Parquet files, without earlier state; totals are written as changes."""
    shutil.rmtree(folder, ignore_errors=True)
    session = spark.session.newSession()
    # Two partitions, as Keyfold has on two cores. RocksDB, since the state of joins does not fit into the heap.
    session.conf.set("spark.sql.shuffle.partitions", "2")
    provider = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    session.conf.set("spark.sql.streaming.stateStore.providerClass", provider)
    for kind in KINDS:
        schema = ", ".join(f"{field.name} {_KINDS[str(field.type)]}" for field in STREAMS[kind].schema)
        rows = session.readStream.schema(schema).option("maxFilesPerTrigger", files_a_batch).json(f"{files}/{kind}")
        # Unbounded joins keep all rows: they ignore the watermark.
        rows.withWatermark("dateTime", "2 seconds").createOrReplaceTempView(kind)
    mode = "update" if number in _UPDATED else "append"
    writer = session.sql(SPARK_QUERIES[number]).writeStream.outputMode(mode).trigger(availableNow=True)
    writer = writer.option("checkpointLocation", f"{folder}/checkpoint")
    if number in _UPDATED:

        def changes(frame: DataFrame, _: int) -> None:
            frame.write.format("parquet").mode("append").save(f"{folder}/table")

        query = writer.foreachBatch(changes).start()
    else:
        query = writer.format("parquet").start(f"{folder}/table")
    query.awaitTermination()
    state = sum(file.stat().st_size for file in Path(folder, "checkpoint", "state").rglob("*.*") if file.is_file())
    return {"state_bytes": state, "batches": [len(query.recentProgress)]}
