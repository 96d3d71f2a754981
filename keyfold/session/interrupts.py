"""End a caller's own calls of Spark when they are interrupted, as those of a step that takes `keyfold.runners.session`.

They wait in the main thread for Java's answer. py4j ends its connection after a KeyboardInterrupt, and Dagster raises another: PySpark would call
Java again on the same connection, and wait there for the first answer, so for the whole job. `SparkRunner` needs none of this (`calling`).
"""

import signal
from collections.abc import Callable
from contextlib import suppress
from threading import Thread, current_thread, main_thread
from types import FrameType
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

_TAG = "keyfold-main-thread"
"""Spark's tag of the jobs of the main thread, and of the threads in which a `SparkRunner` calls Spark for it."""


def cancel_when_interrupted(session: SparkSession) -> None:
    """Have SIGINT and SIGTERM cancel this thread's Spark jobs where their handlers raise; jobs of other threads go on.

    A handler that lets a run finish its batch raises nothing. Does nothing outside of Python's main thread, which alone is interrupted.
    """
    if current_thread() is not main_thread():
        return
    session.sparkContext.addJobTag(_TAG)
    for number in (signal.SIGINT, signal.SIGTERM):
        before = signal.getsignal(number)
        # Others are ignored, the default, or of C code.
        if callable(before) and not isinstance(before, _Cancelling):
            signal.signal(number, _Cancelling(before))


class _Cancelling:
    """A handler that cancels Spark's jobs if the one before it raises."""

    def __init__(self, before: Callable[[int, FrameType | None], Any]) -> None:
        self._before = before

    def __call__(self, number: int, frame: FrameType | None) -> None:
        try:
            self._before(number, frame)
        except BaseException:
            # If Spark has ended, so have its jobs.
            with suppress(Exception):
                _cut_off()
            raise


def _cut_off() -> None:
    """Close this thread's connection to Java, so that the next call opens a new one, and cancel the jobs from a thread with its own."""
    context = SparkContext._active_spark_context
    if context is None:
        return
    client: Any = context._gateway._gateway_client  # pyright: ignore[reportOptionalMemberAccess]
    if (connection := client.get_thread_connection()) is not None:
        connection.close()
    Thread(target=_cancel, args=(context,), name="cancels-spark", daemon=True).start()


def _cancel(context: SparkContext) -> None:
    with suppress(Exception):
        context.cancelJobsWithTag(_TAG)
