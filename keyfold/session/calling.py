"""Call Spark in a thread of its own, so that an interrupt cuts off the caller's wait and not the call.

A call to Java that is cut off leaves its answer in the connection of its thread, where the next call would wait for it; a start that
is cut off leaves a Java process that nobody ends. Only the main thread is interrupted, and here it waits for a thread.
"""

import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from threading import Thread
from typing import TypeVar

Result = TypeVar("Result")

_SECONDS_TO_CANCEL = 30

_A_LOOK = 0.1
"""Seconds. With Polars loaded, an interrupt ends no wait: its handler of SIGINT lets the kernel go on with the wait."""


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
