"""A lease: the right to write to a folder of a bucket, which its holder renews and a dead one loses by itself.

An object says who holds it, and is written by compare-and-swap, so that of two who want it one gets it. How old it is
tells the store's own clock on both sides (that of the last renewal, and that of an object written now): no machine's clock
counts. A holder that was frozen for longer than the lease lasts finds it taken when it looks, which it does before each
write (`check_held`). It may have been frozen between the look and the write: so what must not be written twice is written
create-only, or by compare-and-swap, besides, and never by the lease alone.

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

from keyfold.errors import Locked, Unreachable
from keyfold.storage.remote_path import ObjectStat, RemotePath

LASTS = timedelta(seconds=30)

_NAME = ".lease"
_LOOK_EVERY_SECONDS = 0.2
_PRECISION_SECONDS = 1.0
"""Of the times that a store tells; both of those that are compared are rounded down."""

_HELD: "set[Lease]" = set()


class LeaseTakenError(Locked):
    """Somebody else holds the lease."""


class LeaseLostError(Locked):
    """A lease that was held by this process is so no longer."""


class Lease:
    """A folder's lease, while it is held."""

    def __init__(self, folder: RemotePath, what: str, lasts: timedelta) -> None:
        self._folder, self._object, self._what = folder, folder / _NAME, what
        self._lasts = lasts.total_seconds()
        self._holder = uuid.uuid4().hex
        self._tag = ""
        self._sure_until = 0.0
        self._lost = threading.Event()
        self._released = threading.Event()
        self._renewing: threading.Thread | None = None

    def check(self) -> None:
        """See that it is still held; call it before each write that only the holder may make.

        Raises:
            LeaseLostError: somebody else has it, or may have it by now.
        """
        if self._lost.is_set() or _seconds() > self._sure_until:
            raise LeaseLostError(
                f"{self._what}: this run has lost its lease ({self._object}), for it stood still, or could not reach the "
                f"store, for longer than {self._lasts:g} s; another run may go on in its place. What it had done stays, "
                "and nothing is lost: run it again"
            )

    def take(self) -> None:
        """Take it where nobody has it, or who had it has not renewed it in time.

        Raises:
            LeaseTakenError: somebody has it; says who.
        """
        began = _seconds()
        try:
            self._tag = self._object.create(self._content())
        except FileExistsError:
            self._take_over()
        self._sure_until = began + self._lasts
        self._renewing = threading.Thread(target=self._renew, name=f"lease of {self._what}", daemon=True)
        self._renewing.start()

    def release(self) -> None:
        """Give it up, for the next to have it at once."""
        self._released.set()
        if self._renewing is not None:
            self._renewing.join()
        if self._lost.is_set():
            return
        # Not deleted: between a look whether it is ours and the deletion it may become another's. A store that cannot be
        # reached now says nothing about what was done; the lease ends by itself.
        with suppress(OSError):
            self._object.write_if_unchanged(json.dumps({"holder": None}).encode(), self._tag)

    def _take_over(self) -> None:
        held, tag, written = _read(self._object)
        if held.get("holder") == self._holder:
            self._tag = tag  # it was created, and the answer was lost
            return
        if written is not None and held.get("holder") is not None:
            age = _age(self._folder, written)
            if written.e_tag != tag or age <= held["lasts"] + _PRECISION_SECONDS:
                raise LeaseTakenError(
                    f"{self._what} is already running on {self._folder} (on {held['host']}, process {held['process']}, "
                    f"heard of {max(age, 0):.0f} s ago); wait for that run or stop it. A run that was killed loses its lease "
                    f"{held['lasts']:g} s after it was last heard of"
                )
        try:
            self._tag = self._written(tag)
        except FileExistsError:
            raise LeaseTakenError(
                f"{self._what} has just been started on {self._folder} by another run; wait for that run or stop it"
            ) from None

    def _renew(self) -> None:
        while not self._released.wait(self._lasts / 4):
            began = _seconds()
            try:
                self._tag = self._written(self._tag)
            except FileExistsError:
                self._lost.set()
                return
            except Exception:  # the store cannot be reached: tried again until the lease is over
                if _seconds() > self._sure_until:
                    self._lost.set()
                    return
                continue
            self._sure_until = began + self._lasts

    def _written(self, tag: str) -> str:
        """Write it as ours in the place of what has this tag; gives the new one."""
        try:
            content = self._content()
            return self._object.write_if_unchanged(content, tag) if tag else self._object.create(content)
        except FileExistsError:
            # A write whose answer was lost has changed the tag: it is ours if it says so.
            held, there, _ = _read(self._object)
            if held.get("holder") != self._holder:
                raise
            return there

    def _content(self) -> bytes:
        return json.dumps(
            {
                "holder": self._holder,
                "host": socket.gethostname(),
                "process": os.getpid(),
                "lasts": self._lasts,
                # Else two renewals were one content, and to the store one tag.
                "renewal": uuid.uuid4().hex,
            }
        ).encode()


@contextmanager
def leased(
    folder: RemotePath, what: str, *, patience: timedelta = timedelta(0), lasts: timedelta | None = None
) -> Iterator[Lease]:
    """Hold a folder's lease.

    Args:
        folder: that only the holder may write to.
        what: is done there, for people.
        patience: how long to wait for another's to end.
        lasts: how long it stays after it was last renewed; `LASTS` by default.

    Raises:
        LeaseTakenError: somebody else has it.
        KeyfoldError: the store cannot be reached, or refuses.
    """
    late = _seconds() + patience.total_seconds()
    while True:
        lease = Lease(folder, what, lasts or LASTS)
        try:
            lease.take()
            break
        except LeaseTakenError:
            if _seconds() > late:
                raise
            time.sleep(_LOOK_EVERY_SECONDS)
        except OSError as error:
            # The first thing that a run writes: a store that is not there, or refuses this user, is noticed here.
            raise Unreachable(f"{folder} cannot be written: {error}. {folder.what_reaches_it}") from None
    _HELD.add(lease)
    try:
        yield lease
    except Exception:
        # Whatever failed: without the lease, what this run had made may have been replaced under its hands.
        lease.check()
        raise
    finally:
        _HELD.discard(lease)
        lease.release()


def check_held() -> None:
    """See that this process still holds every lease that it took; call it before each write that only a holder may make.

    Of every lease, whatever is written: who stood still for long enough to lose one has lost them all, or soon will.

    Raises:
        LeaseLostError: one is lost.
    """
    for lease in tuple(_HELD):
        lease.check()


def is_leased(folder: RemotePath) -> bool:
    """Whether some run holds a folder's lease now."""
    held, _, written = _read(folder / _NAME)
    if written is None or held.get("holder") is None:
        return False
    # To a second: a reader writes nothing, so it has this machine's clock alone.
    return time.time() - written.st_mtime_ns / 1e9 <= held["lasts"] + _PRECISION_SECONDS


def _read(lease: RemotePath) -> tuple[dict[str, Any], str, ObjectStat | None]:
    try:
        content, tag = lease.read_with_tag()
        return json.loads(content), tag, lease.stat()
    except FileNotFoundError:
        return {}, "", None


def _age(folder: RemotePath, written: ObjectStat) -> float:
    """Seconds since something was written, by the store's clock."""
    probe = folder / f".clock-{uuid.uuid4().hex}"
    probe.write_bytes(b"")
    try:
        return (probe.stat().st_mtime_ns - written.st_mtime_ns) / 1e9
    finally:
        probe.unlink(missing_ok=True)


def _seconds() -> float:
    """A clock that never goes back, and goes on while the machine sleeps where it can."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
