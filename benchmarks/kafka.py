"""Compare ingest from a topic with ingest of the same events as files: `python -m benchmarks.kafka`.

Both run in turn in one warm process, each in a new lakehouse. The same lines are in 16 NDJSON files and in a topic with one
partition per core, on a broker that shares this machine's cores. `--small` measures single small runs in the same lakehouse:
from a produced message to its committed row.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

import numpy as np
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from benchmarks.ingest import _timed, _write_points
from benchmarks.memory import processor_seconds
from keyfold import Lakehouse, build_session, ingest
from keyfold.ingestion import KafkaTopic
from keyfold.ingestion.sources.kafka.settings import KafkaSettings
from keyfold.session import SparkSettings
from spark_jobs.streams import RIDE_POINTS
from tests.kafka_broker import Broker, running_broker, why_not


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kafka", description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000, help="messages, and lines of files")
    parser.add_argument("--repeat", type=int, default=4, help="warm runs of each")
    parser.add_argument("--small", type=int, default=50, help="single runs of 100 messages")
    arguments = parser.parse_args()
    if why_not():
        raise SystemExit(why_not())
    spark = build_session(SparkSettings.from_environment())
    with tempfile.TemporaryDirectory(prefix="keyfold-bench-") as folder:
        kafka = Path(folder) / "kafka"
        kafka.mkdir()
        with running_broker(kafka) as broker:
            beside_files(spark, broker, Path(folder), arguments.rows, arguments.repeat)
            small_runs(spark, broker, Path(folder), arguments.small)
    spark.stop()


def beside_files(spark: SparkSession, broker: Broker, folder: Path, rows: int, repeat: int) -> None:
    """Print the times of whole warm runs of both, and the ratio."""
    landing = _write_points(folder / "files", rows, 1)
    topic = KafkaTopic(broker.topic(os.cpu_count() or 1), settings=KafkaSettings(broker.bootstrap))
    _produce(broker.producer(**{"linger.ms": 50, "compression.type": "lz4"}), topic.name, landing)
    seconds: dict[str, list[float]] = {"files": [], "topic": []}
    used: dict[str, list[float]] = {"files": [], "topic": []}
    for turn in range(repeat + 1):
        for name, source in (("files", landing), ("topic", topic)):
            before = processor_seconds(os.getpid())
            took = _timed(
                lambda home, source=source: ingest(spark, Lakehouse(home), RIDE_POINTS, source).accepted, folder, rows
            )
            if turn:
                seconds[name].append(took)
                used[name].append(processor_seconds(os.getpid()) - before)
    table = Table(title=f"{rows:,} ride points into Delta, {os.cpu_count()} cores, the broker on the same ones")
    for column in ("source", "s", "rows/s, best", "processor s (the broker's too)"):
        table.add_column(column, justify="left" if column == "source" else "right")
    for name, runs in seconds.items():
        table.add_row(
            name,
            " ".join(f"{one:.2f}" for one in runs),
            f"{rows / min(runs):,.0f}",
            " ".join(f"{one:.1f}" for one in used[name]),
        )
    console = Console(width=150)
    console.print(table)
    best, median = ({name: float(of(runs)) for name, runs in seconds.items()} for of in (min, np.median))
    console.print(
        f"a topic is read {best['files'] / best['topic']:.2f} x as fast as files, best runs; "
        f"{median['files'] / median['topic']:.2f} x, median runs"
    )


def small_runs(spark: SparkSession, broker: Broker, folder: Path, count: int) -> None:
    """Print the time of runs that each read 100 messages, in the same lakehouse."""
    topic = KafkaTopic(broker.topic(2), settings=KafkaSettings(broker.bootstrap))
    lakehouse, took = Lakehouse(folder / "small"), []
    producer = broker.producer()
    for number in range(count + 1):
        landing = _write_points(folder / f"few-{number}", 100, 100 + number)
        began = time.monotonic()
        _produce(producer, topic.name, landing)
        assert ingest(spark, lakehouse, RIDE_POINTS, topic).accepted == 100  # noqa: S101
        if number:
            took.append(time.monotonic() - began)
    figures = ", ".join(f"{name} {np.percentile(took, part):.3f}" for name, part in (("median", 50), ("99th", 99)))
    Console(width=150).print(f"100 messages produced, read, committed; s: {figures} of {count} runs")


def _produce(producer: Producer, topic: str, landing: Path) -> None:
    partitions = len(producer.list_topics(topic, timeout=10).topics[topic].partitions)
    for place, file in enumerate(sorted(landing.iterdir())):
        for line in file.read_bytes().splitlines():
            while True:
                try:
                    producer.produce(topic, line, partition=place % partitions)
                    break
                except BufferError:
                    producer.poll(0.1)
    assert producer.flush(60) == 0  # noqa: S101


if __name__ == "__main__":
    main()
