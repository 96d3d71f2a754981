"""A lease: the right to write to a folder of an object store, which its holder renews and a dead one loses by itself.

An object says who holds it, and is written by compare-and-swap, so that of two who want it one gets it. How old it is
tells the store's own clock on both sides (that of the last renewal, and that of an object written now): no machine's clock
counts. A holder that was frozen for longer than the lease lasts finds it taken when it looks, and may have written until
then: so what must not be written twice is written create-only besides (journal records), and never by the lease alone.

Source: Gray and Cheriton, Leases: an efficient fault-tolerant mechanism for distributed file cache consistency, 1989.
"""

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

from spark_jobs.errors import KeyfoldError
from spark_jobs.objects.object_path import ObjectPath

LASTS = timedelta(seconds=30)

_NAME = ".lease"


class Lease:
    """A folder's lease, while it is held."""

    def __init__(self, folder: ObjectPath, what: str, lasts: timedelta = LASTS) -> None:
        self._object, self._what, self._lasts = folder / _NAME, what, lasts
        self._holder = uuid.uuid4().hex
        self._tag = ""
        self._sure_until = 0.0
        self._lost = threading.Event()
        self._released = threading.Event()

    def check(self) -> None:
        """See that it is still held; call it before each write that only the holder may make.

        Raises:
            KeyfoldError: somebody else has it, or may have it by now.
        """
        if self._lost.is_set() or time.monotonic() > self._sure_until:
            raise KeyfoldError(
                f"{self._what}: this run has lost its lease ({self._object}) after it stood still, or could not reach the "
                f"store, for longer than {self._lasts.total_seconds():.0f} s; another run may go on in its place. Nothing "
                "is lost: run it again"
            )

    def take(self) -> None:
        """Take it where nobody has it, or who had it has not renewed it in time.

        Raises:
            KeyfoldError: somebody has it.
        """
        began = time.monotonic()
        try:
            self._tag = self._object.create(self._content())
        except FileExistsError:
            self._take_over()
        self._sure_until = began + self._lasts.total_seconds()
        threading.Thread(target=self._renew_until_released, name=f"lease-{self._what}", daemon=True).start()

    def release(self) -> None:
        """Give it up, for the next to have it at once."""
        self._released.set()
        if self._lost.is_set():
            return
        # Not deleted: between a look whether it is ours and the deletion it may become another's.
        with suppress(FileExistsError):
            self._object.write_if_unchanged(json.dumps({"holder": None}).encode(), self._tag)

    def _take_over(self) -> None:
        try:
            content, tag = self._object.read_with_tag()
            written = self._object.stat()
        except FileNotFoundError:
            content, tag, written = b"{}", "", None
        held: dict[str, Any] = json.loads(content)
        if held.get("holder") is not None and written is not None:
            age = (_now_of_store(self._object.parent) - written.st_mtime_ns) / 1e9
            if written.e_tag != tag or age <= held["lasts"]:
                raise KeyfoldError(
                    f"{self._what} is already running on {self._object.parent} (on {held['host']}, process {held['process']}, "
                    f"heard of {max(age, 0):.0f} s ago); wait for that run or stop it. A run that was killed loses its lease "
                    f"{held['lasts']:.0f} s after it was last heard of"
                )
        try:
            self._tag = (
                self._object.write_if_unchanged(self._content(), tag) if tag else self._object.create(self._content())
            )
        except FileExistsError:
            raise KeyfoldError(f"{self._what} has just been started on {self._object.parent} by another run") from None

    def _renew_until_released(self) -> None:
        lasts = self._lasts.total_seconds()
        while not self._released.wait(lasts / 4):
            began = time.monotonic()
            try:
                self._tag = self._renewed()
            except FileExistsError:
                self._lost.set()
                return
            except Exception:  # the store cannot be reached: tried again until the lease is over
                if time.monotonic() > self._sure_until:
                    self._lost.set()
                    return
                continue
            self._sure_until = began + lasts

    def _renewed(self) -> str:
        try:
            return self._object.write_if_unchanged(self._content(), self._tag)
        except FileExistsError:
            # A renewal whose answer was lost has changed the tag: it is ours if it says so.
            content, tag = self._object.read_with_tag()
            if json.loads(content).get("holder") != self._holder:
                raise
            return tag

    def _content(self) -> bytes:
        return json.dumps(
            {
                "holder": self._holder,
                "host": socket.gethostname(),
                "process": os.getpid(),
                "lasts": self._lasts.total_seconds(),
                # Else two renewals were one content, and to the store one tag.
                "renewal": uuid.uuid4().hex,
            }
        ).encode()


@contextmanager
def leased(folder: ObjectPath, what: str, lasts: timedelta = LASTS) -> Iterator[Lease]:
    """Hold a folder's lease.

    Raises:
        KeyfoldError: somebody else has it.
    """
    lease = Lease(folder, what, lasts)
    lease.take()
    try:
        yield lease
    finally:
        lease.release()


def _now_of_store(folder: ObjectPath) -> int:
    """What time it is by the store's clock."""
    probe = folder / f".clock-{uuid.uuid4().hex}"
    probe.write_bytes(b"")
    try:
        return probe.stat().st_mtime_ns
    finally:
        probe.unlink(missing_ok=True)
