"""Let an interrupt cut off the wait for Spark, and not the call.

A call to Java that is cut off leaves its answer in the connection of its thread, where the next call would wait for it: for the
whole job. So a `SparkRunner` calls Spark in threads of their own, and only the main thread, which waits for them, is interrupted.
"""

import signal
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from threading import Thread, current_thread, main_thread
from types import FrameType
from typing import Any, TypeVar

Result = TypeVar("Result")

_SECONDS_TO_CANCEL = 30

_A_LOOK = 0.1
"""Seconds. With Polars loaded, an interrupt ends no wait: its handler of SIGINT lets the kernel go on with the wait."""

_TAG = "keyfold-main-thread"
"""Spark's tag of the jobs that a caller starts in the main thread."""


def in_thread(
    call: Callable[[], Result], cancel: Callable[[], object] = lambda: None, thread_type: Callable[..., Thread] = Thread
) -> Result:
    """Make a call in a thread, and return its result or raise its error.

    If the wait is interrupted, the call is cancelled, and given time to end before the interrupt goes on.

    Args:
        call: what to call.
        cancel: makes the call end soon; by default, it is waited for.
        thread_type: the class of the thread; pyspark's own takes over what Spark has noted of the caller's thread.

    Example:
        >>> in_thread(lambda: 1 + 1)
        2
    """
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    # A daemon: it must not delay the end of this process, if the caller's thread is one.
    thread_type(target=run, name="calls-spark", daemon=True).start()
    try:
        while not future.done():
            wait([future], _A_LOOK)
        return future.result()
    except BaseException:
        if not future.done():
            # If Java has ended, there is nothing to cancel.
            with suppress(Exception):
                cancel()
            give_up = time.monotonic() + _SECONDS_TO_CANCEL
            while not future.done() and time.monotonic() < give_up:
                wait([future], _A_LOOK)
        raise


def cancel_when_interrupted(session: Any) -> None:
    """Have SIGINT and SIGTERM cancel the Spark jobs that a caller, such as a step, has started in the main thread.

    They do so where their handlers raise; one that lets a run finish its batch raises nothing. Jobs of other threads go on. Does
    nothing outside of the main thread.
    """
    if current_thread() is not main_thread():
        return
    session.sparkContext.addJobTag(_TAG)
    for number in (signal.SIGINT, signal.SIGTERM):
        handler = signal.getsignal(number)
        # Others are ignored, the default, or of C code.
        if callable(handler) and not isinstance(handler, _Cancelling):
            signal.signal(number, _Cancelling(handler))


class _Cancelling:
    """A handler that cancels Spark's jobs if the one before it raises."""

    def __init__(self, handler: Callable[[int, FrameType | None], Any]) -> None:
        self._handler = handler

    def __call__(self, number: int, frame: FrameType | None) -> None:
        try:
            self._handler(number, frame)
        except BaseException:
            # If Spark has ended, so have its jobs.
            with suppress(Exception):
                _cut_off()
            raise


def _cut_off() -> None:
    """Close this thread's connection to Java, so that the next call opens a new one, and cancel the jobs from another thread."""
    from pyspark import SparkContext  # noqa: PLC0415 - a client of Spark Connect may lack py4j

    context: Any = SparkContext._active_spark_context
    if (connection := context._gateway._gateway_client.get_thread_connection()) is not None:
        connection.close()
    Thread(target=context.cancelJobsWithTag, args=(_TAG,), name="cancels-spark", daemon=True).start()
