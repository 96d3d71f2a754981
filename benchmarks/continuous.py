"""What runs until it is stopped: commands of Keyfold as they are shipped, and a process that sends messages to Kafka at a steady rate.

Event and message have the time at which it was due. If the machine delays the producer, it sends due events late, and this
delay counts like any other.
"""

import math
import multiprocessing
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from confluent_kafka import Producer

MakeEvent = Callable[[int, str], bytes]
"""Takes an event's number and its time in ISO 8601, and returns a message's value."""

_KEYFOLD = Path(sys.executable).parent / "keyfold"
_PATIENCE = 180.0
_CHUNK_SECONDS = 0.02


class SteadyProducer:
    """Sends events at a rate until it is stopped; a context manager.

    Args:
        bootstrap: address of the broker.
        topic: the topic, whose partitions get events in turn.
        make: makes an event; a module's function, since another process calls it.
        rate: events per second.
    """

    def __init__(self, bootstrap: str, topic: str, make: MakeEvent, rate: float) -> None:
        context = multiprocessing.get_context("spawn")
        self._stop, self._sent = context.Event(), context.Value("q", 0)
        self._process = context.Process(
            target=_produce, args=(bootstrap, topic, make, rate, self._stop, self._sent), daemon=True
        )

    def __enter__(self) -> Self:
        self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """Of its process."""
        return self._process.pid or 0

    @property
    def sent(self) -> int:
        """How many events it has sent."""
        return int(self._sent.value)

    def stop(self) -> None:
        """Send the events that are due, and stop.

        Raises:
            RuntimeError: some events could not be sent.
        """
        self._stop.set()
        self._process.join(90)
        if self._process.exitcode != 0:
            raise RuntimeError(f"the producer ended with {self._process.exitcode}")


def _produce(bootstrap: str, topic: str, make: MakeEvent, rate: float, stop: Any, sent: Any) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "compression.type": "lz4", "log_level": 0})
    partitions = len(producer.list_topics(topic, timeout=10).topics[topic].partitions)
    began, number = time.time(), 0
    while not stop.is_set():
        time.sleep(max(0.0, began + number / rate + _CHUNK_SECONDS - time.time()))
        until = math.floor((time.time() - began) * rate)
        for at in range(number, until):
            due = began + at / rate
            value = make(at, datetime.fromtimestamp(due, UTC).isoformat())
            producer.produce(topic, value, partition=at % partitions, timestamp=int(due * 1000))
        number = until
        producer.poll(0)
        sent.value = number
    if producer.flush(60):
        raise RuntimeError("Kafka did not take all events")


class Processes:
    """Commands that run until they are stopped.

    Args:
        folder: the folder for their logs.
        environment: their environment variables.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder, self._environment = folder, dict(environment)
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def pids(self) -> dict[str, int]:
        """By name."""
        return {name: process.pid for name, process in self._running.items()}

    def start(self, name: str, *command: str) -> None:
        """Start `keyfold COMMAND`."""
        with open(self._folder / f"{name}.log", "wb") as log:
            self._running[name] = subprocess.Popen(
                [str(_KEYFOLD), *command], stdout=log, stderr=subprocess.STDOUT, env=self._environment
            )

    def wait(self, is_so: Callable[[], bool], patience: float = _PATIENCE) -> None:
        """Wait for a condition. If it takes longer than `patience` seconds, stop the benchmark."""
        end = time.monotonic() + patience
        while not is_so():
            for name, process in self._running.items():
                if process.poll() is not None:
                    raise SystemExit(f"{name} has ended: {(self._folder / f'{name}.log').read_text()[-2000:]}")
            if time.monotonic() > end:
                raise SystemExit("it did not come to that")
            time.sleep(0.1)

    def end(self) -> None:
        """Stop all processes, and check that they end."""
        for process in self._running.values():
            process.send_signal(signal.SIGTERM)
        for name, process in self._running.items():
            print(f"{name} ended with {process.wait(120)}")
