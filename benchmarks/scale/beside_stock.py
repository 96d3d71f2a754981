"""`python -m benchmarks.scale.beside_stock [--keys 10000000] [--events 1000]`: the cells' job with stock `transformWithState`.

In Python, with a value state per key, RocksDB with changelog checkpoints, and Parquet files as sink. It begins with full
state by Spark's `initialState`, which takes minutes. Each batch is a file. As in the cells, the first two batches do not
count, and processor seconds are those of all processes.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues

from benchmarks.scale.balances import bookings, first_state
from benchmarks.usage import processor_seconds
from keyfold import build_session
from keyfold.runners import Runners
from keyfold.session import SparkSettings

_COLD, _KEYS_A_FILE = 2, 1_000_000
_ROW = "account string, slot int, at timestamp, amount bigint"


class Balances(StatefulProcessor):
    """Adds amounts to the balance of an account, and emits the balance."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._balance = handle.getValueState("balance", "slot int, at timestamp, amount bigint")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: TimerValues) -> Iterator[Row]:
        slot, at, amount = self._balance.get() or (0, None, 0)
        for row in rows:
            slot, at, amount = row.slot, row["at"], amount + row.amount
        self._balance.update((slot, at, amount))
        yield Row(account=key[0], slot=slot, at=at, amount=amount)

    def handleInitialState(self, key: Any, initialState: Any, timerValues: TimerValues) -> None:
        self._balance.update((initialState.slot, initialState["at"], initialState.amount))

    def close(self) -> None:
        pass


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale.beside_stock", description=__doc__)
    parser.add_argument("--keys", type=int, default=10_000_000)
    parser.add_argument("--events", type=int, default=1_000, help="a batch")
    parser.add_argument("--batches", type=int, default=6, help="warm ones")
    given = parser.parse_args()
    conf = SparkSettings.from_environment().conf | {
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.driver.memory": "6g",
    }
    session = build_session(SparkSettings(conf=conf))
    spark = Runners("spark", session)
    with tempfile.TemporaryDirectory(prefix="keyfold-scale-") as folder:
        _measure(spark, Path(folder), given.keys, given.events, given.batches)
    session.stop()


def _measure(spark: Runners, folder: Path, keys: int, events: int, batches: int) -> None:
    for name in ("seed", "events"):
        (folder / name).mkdir()
    for first in range(0, keys, _KEYS_A_FILE):
        first_state(first, min(first + _KEYS_A_FILE, keys)).write_parquet(folder / "seed" / f"{first:012d}.parquet")
    for batch in range(batches + _COLD):
        path = folder / "events" / f"{batch:06d}.parquet"
        bookings(batch, events, keys).write_parquet(path)
        # Spark orders files by their modification times.
        os.utime(path, (batch, batch))
    walls, used, sizes, known = [time.monotonic()], [processor_seconds(os.getpid())], [0], set[str]()

    def on_batch(rows: DataFrame, number: int) -> None:
        rows.write.format("parquet").mode("append").save(str(folder / "out"))
        walls.append(time.monotonic())
        used.append(processor_seconds(os.getpid()))
        sizes.append(_new_bytes(folder / "checkpoint", known))

    seed = spark.session.read.schema(_ROW).parquet(str(folder / "seed")).groupBy("account")
    stream = spark.session.readStream.schema(_ROW).option("maxFilesPerTrigger", 1).parquet(str(folder / "events"))
    kept = stream.groupBy("account").transformWithState(Balances(), _ROW, "Append", "None", initialState=seed)
    writer = kept.writeStream.foreachBatch(on_batch).option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    assert len(walls) == batches + _COLD + 1  # noqa: S101 - a batch a file
    # A batch's state files are written before the next batch's sink runs, so each size is that of this batch or the previous one.
    print(
        f"{keys:,} keys, {events:,} events by Spark's own: {_median(walls):.2f} s, {_median(used):.2f} processor s a batch, "
        f"checkpoint {statistics.median(sizes[_COLD + 1 :]) / 1e6:.2f} MB; the first batch, with the state, {walls[1] - walls[0]:.0f} s"
    )


def _median(values: list[float]) -> float:
    return statistics.median(after - before for before, after in pairwise(values[_COLD:]))


def _new_bytes(folder: Path, known: set[str]) -> int:
    """The bytes of files that were added since the last call."""
    found = {path: os.stat(path).st_size for below, _, names in os.walk(folder) for path in (f"{below}/{name}" for name in names)}  # fmt: skip
    new = sum(size for path, size in found.items() if path not in known)
    known |= found.keys()
    return new


if __name__ == "__main__":
    main()
