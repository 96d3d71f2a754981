"""An interrupt ends the work on the workers, not only the wait for it.

Python's main thread waits for Java's answer. An interrupt cuts that wait, and the job goes on; and pyspark calls Java once
more on its way out, on the same connection, where it waits for the answer to the first call: the run would end when the
job has ended by itself. So another thread, which has a connection of its own, is told of the signal by Python's C code and
cancels the jobs, and a connection whose wait was cut is not used again.
"""

import os
import signal
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread, current_thread, main_thread

from py4j.clientserver import ClientServerConnection
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

_SIGNALS = {signal.SIGINT, signal.SIGTERM}


@contextmanager
def work_ends_on_interrupt(session: SparkSession) -> Iterator[None]:
    """Have SIGINT and SIGTERM cancel the Spark jobs of this thread, and of those that it starts; what else they do stays.

    In another thread than Python's main one it does nothing: none of its calls is cut short by a signal.

    Args:
        session: whose jobs. Those of other runs on the same Spark go on.
    """
    if current_thread() is not main_thread():
        yield
        return
    tag = f"keyfold-{uuid.uuid4().hex}"
    session.sparkContext.addJobTag(tag)
    read, write = os.pipe()
    os.set_blocking(write, False)
    watcher = Thread(target=_watch, args=(session, tag, read), name="interrupts", daemon=True)
    watcher.start()
    before = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    try:
        with _cut_connections_closed():
            yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(write)
        watcher.join(timeout=5)
        with suppress(Py4JError, OSError):
            session.sparkContext.removeJobTag(tag)


@contextmanager
def signals_kept_waiting() -> Iterator[None]:
    """Have SIGINT and SIGTERM take effect only at the end, in Python's main thread; in another it does nothing.

    Whoever is interrupted while Java starts leaves a Java that nobody ends: pyspark removes the file by which the two are to
    find each other, and Java does not get as far as to notice that its parent is gone.
    """
    if current_thread() is not main_thread():
        yield
        return
    came: list[int] = []
    # A handler that was set by C code, of which Python says None, cannot be put back.
    before = {number: handler for number in _SIGNALS if (handler := signal.getsignal(number)) is not None}
    for number in before:
        signal.signal(number, lambda number, _: came.append(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in came:
            signal.raise_signal(number)


@contextmanager
def _cut_connections_closed() -> Iterator[None]:
    """Have py4j do for every interrupt what it does for a KeyboardInterrupt; Dagster raises one of its own."""
    send = ClientServerConnection.send_command

    def send_or_close(self: ClientServerConnection, command: str) -> str:
        try:
            return send(self, command)
        except Exception:
            raise
        except BaseException:
            # The next call makes another: on this one it would be given this call's answer.
            self.close()
            raise

    ClientServerConnection.send_command = send_or_close
    try:
        yield
    finally:
        ClientServerConnection.send_command = send


def _watch(session: SparkSession, tag: str, read: int) -> None:
    with open(read, "rb", buffering=0) as signals:
        while came := signals.read(1):
            if came[0] in _SIGNALS:
                # Where Spark has ended already, so have its jobs.
                with suppress(Py4JError, OSError):
                    session.sparkContext.cancelJobsWithTag(tag)
