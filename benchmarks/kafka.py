"""Compare ingest from a topic with ingest of the same events as files: `python -m benchmarks.kafka`.

Both run in turn in one warm process, each in a new lakehouse. The same lines are in 16 NDJSON files and in a topic with one
partition per core, on a broker that shares this machine's cores. `--small` measures single small runs in the same lakehouse:
from a produced message to its committed row.
"""

import argparse
import os
import time
from functools import partial
from pathlib import Path

import numpy as np
from confluent_kafka import Producer

from benchmarks.ingest import ingest_files
from benchmarks.runs import by_turns, listed, print_table, ride_files, spark_and_folder
from keyfold import Lakehouse, ingest
from keyfold.ingestion import KafkaTopic
from keyfold.ingestion.sources.kafka.settings import KafkaSettings
from keyfold.runners import Runners
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
    with spark_and_folder() as (spark, folder):
        kafka = folder / "kafka"
        kafka.mkdir()
        with running_broker(kafka) as broker:
            beside_files(spark, broker, folder, arguments.rows, arguments.repeat)
            small_runs(spark, broker, folder, arguments.small)


def beside_files(spark: Runners, broker: Broker, folder: Path, rows: int, repeat: int) -> None:
    """Print the times of whole warm runs of both, and the ratio."""
    landing = ride_files(folder / "files", rows)
    topic = KafkaTopic(broker.topic(os.cpu_count() or 1), settings=KafkaSettings(broker.bootstrap))
    _produce(broker.producer(**{"linger.ms": 50, "compression.type": "lz4"}), topic.name, landing)
    sources = {"files": landing, "topic": topic}
    found = by_turns(
        {name: partial(ingest_files, spark, source, rows) for name, source in sources.items()}, folder, repeat
    )
    print_table(
        f"{rows:,} ride points into Delta, {os.cpu_count()} cores, the broker on the same ones",
        ("source", "s", "rows/s, best", "processor s (the broker's too)"),
        (
            (name, listed(one.seconds), f"{rows / one.best:,.0f}", listed(one.processor, 1))
            for name, one in found.items()
        ),
    )
    files, of_topic = found["files"], found["topic"]
    print(
        f"a topic is read {files.best / of_topic.best:.2f} x as fast as files, best runs; "
        f"{np.median(files.seconds) / np.median(of_topic.seconds):.2f} x, median runs"
    )


def small_runs(spark: Runners, broker: Broker, folder: Path, count: int) -> None:
    """Print the time of runs that each read 100 messages, in the same lakehouse."""
    topic = KafkaTopic(broker.topic(2), settings=KafkaSettings(broker.bootstrap))
    lakehouse, took = Lakehouse(folder / "small"), []
    producer = broker.producer()
    for number in range(count + 1):
        landing = ride_files(folder / f"few-{number}", 100, 100 + number)
        began = time.monotonic()
        _produce(producer, topic.name, landing)
        assert ingest(lakehouse, RIDE_POINTS, topic, runners=spark).accepted == 100  # noqa: S101
        if number:
            took.append(time.monotonic() - began)
    figures = ", ".join(f"{name} {np.percentile(took, part):.3f}" for name, part in (("median", 50), ("99th", 99)))
    print(f"100 messages produced, read, committed; s: {figures} of {count} runs")


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
