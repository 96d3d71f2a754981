"""Cancel Spark jobs on an interrupt, instead of only the driver's wait for them.

Python's main thread waits for Java's answer. An interrupt ends that wait but not the job. PySpark then calls Java again on
the same connection, and waits there for the answer to the first call, so that the run would last as long as the job. So a
second thread, with its own connection, learns of the signal through Python's wakeup file descriptor and cancels the jobs. An
interrupted connection is closed and not used again.
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

from keyfold.session.finishing import is_finishing

_SIGNALS = {signal.SIGINT, signal.SIGTERM}


@contextmanager
def work_ends_on_interrupt(session: SparkSession) -> Iterator[None]:
    """Cancel the Spark jobs of this thread and its child threads on SIGINT and SIGTERM, besides their other handlers,
    unless a run finishes its batch (`session.finishing`).

    Does nothing outside of Python's main thread, whose calls alone are interrupted by signals.

    Args:
        session: the session of the jobs. Jobs of other runs on the same Spark continue.
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
        # Sessions that nobody holds end in any order: another's descriptor stays, and one of a session that is over is none.
        now = signal.set_wakeup_fd(-1)
        with suppress(OSError, ValueError):
            signal.set_wakeup_fd(before if now == write else now)
        os.close(write)
        watcher.join(timeout=5)
        with suppress(Py4JError, OSError):
            session.sparkContext.removeJobTag(tag)


@contextmanager
def signals_kept_waiting() -> Iterator[None]:
    """Delay SIGINT and SIGTERM until the end of the context. Does nothing outside of Python's main thread.

    An interrupt while Java starts would leave a Java process that never ends: PySpark removes the file through which the two
    connect, so Java never notices that its parent is gone.
    """
    if current_thread() is not main_thread():
        yield
        return
    came: list[int] = []
    # `getsignal` returns None for a handler set by C code, which cannot be restored: leave those signals alone.
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
    """Close py4j's connection on any interrupt. py4j does so only for KeyboardInterrupt, and Dagster raises another."""
    send = ClientServerConnection.send_command

    def send_or_close(self: ClientServerConnection, command: str) -> str:
        try:
            return send(self, command)
        # Any: an interrupt may be of a class that is not known here, such as Dagster's.
        except BaseException as error:
            if not isinstance(error, Exception):
                # The next call opens a new connection. On this one it would receive this call's answer.
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
            if came[0] in _SIGNALS and not is_finishing():
                # If Spark has ended, so have its jobs.
                with suppress(Py4JError, OSError):
                    session.sparkContext.cancelJobsWithTag(tag)
