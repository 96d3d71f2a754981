"""Leases: the exclusive right to write to a folder of a bucket. The holder renews it; it expires if the holder dies.

The lease is an object that names its holder and is written by compare-and-swap, so only one process can take it. Its age is
measured by the store's clock alone (time of the last renewal against time of an object written now).

A holder that was paused for longer than the lease lasts finds it lost when it checks, before each write (`check_held`). As it
may also be paused between check and write, files that must not be overwritten are written conditionally as well (create-only
or compare-and-swap).

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
from keyfold.storage.bucket_object import BucketObject, ObjectStat

LASTS = timedelta(seconds=30)

_NAME = ".lease"
_LOOK_EVERY_SECONDS = 0.2
_PRECISION_SECONDS = 1.0
"""Precision of a store's times. Both times of a comparison are rounded down."""

_HELD: "set[Lease]" = set()


class LeaseTakenError(Locked):
    """Another run holds the lease."""


class LeaseLostError(Locked):
    """A lease that this process had taken is lost."""


class Lease:
    """A folder's lease. A thread renews it from `take` to `release`."""

    def __init__(self, folder: BucketObject, what: str, lasts: timedelta) -> None:
        self._folder, self._object, self._what = folder, folder / _NAME, what
        self._lasts = lasts.total_seconds()
        self._holder = uuid.uuid4().hex
        self._tag = ""
        self._sure_until = 0.0
        self._lost = threading.Event()
        self._released = threading.Event()
        self._renewing: threading.Thread | None = None

    def check(self) -> None:
        """Check that the lease is still held. Call it before each write that only the holder may make.

        Raises:
            LeaseLostError: another run holds the lease, or may have taken it by now.
        """
        if self._lost.is_set() or _seconds() > self._sure_until:
            raise LeaseLostError(
                f"{self._what}: this run has lost its lease ({self._object}), since it was paused, or could not reach the "
                f"store, for longer than {self._lasts:g} s; another run may have taken over. What it had committed stays, "
                "and nothing is lost: run it again"
            )

    def take(self) -> None:
        """Take the lease if it is free or expired, and start renewing it.

        Raises:
            LeaseTakenError: another run holds it; the message says which.
        """
        # Counted from before the request: the store dates the renewal later, so this process never trusts it for too long.
        began = _seconds()
        try:
            self._tag = self._object.create(self._content())
        except FileExistsError:
            self._take_over()
        self._sure_until = began + self._lasts
        self._renewing = threading.Thread(target=self._renew, name=f"lease of {self._what}", daemon=True)
        self._renewing.start()

    def release(self) -> None:
        """Stop renewing and free the lease, so that the next run can take it at once."""
        self._released.set()
        if self._renewing is not None:
            self._renewing.join()
        if self._lost.is_set():
            return
        # Overwritten by compare-and-swap and not deleted: a deletion could hit the lease of a run that has just taken it.
        # Failures are ignored: the run's work is done, and the lease expires anyway.
        with suppress(OSError):
            self._object.write_if_unchanged(json.dumps({"holder": None}).encode(), self._tag)

    def _take_over(self) -> None:
        held, tag, written = _read(self._object)
        if held.get("holder") == self._holder:
            self._tag = tag  # our create succeeded, but its answer was lost
            return
        if written is not None and held.get("holder") is not None:
            age = _age(self._folder, written)
            # Another tag than that of the content means that it was renewed in between.
            if written.e_tag != tag or age <= held["lasts"] + _PRECISION_SECONDS:
                raise LeaseTakenError(
                    f"{self._what} is already running on {self._folder} (on {held['host']}, process {held['process']}, "
                    f"lease renewed {max(age, 0):.0f} s ago); wait for that run or stop it. The lease of a killed run expires "
                    f"{held['lasts']:g} s after its last renewal"
                )
        try:
            self._tag = self._written(tag)
        except FileExistsError:
            raise LeaseTakenError(
                f"{self._what} has just been started on {self._folder} by another run; wait for that run or stop it"
            ) from None

    def _renew(self) -> None:
        # Renew several times per lease, so that a lost request does not cost the lease.
        while not self._released.wait(self._lasts / 4):
            began = _seconds()
            try:
                self._tag = self._written(self._tag)
            except FileExistsError:
                self._lost.set()
                return
            except Exception:  # the store cannot be reached: retry until the lease expires
                if _seconds() > self._sure_until:
                    self._lost.set()
                    return
                continue
            self._sure_until = began + self._lasts

    def _written(self, tag: str) -> str:
        """Write the lease as ours if it still has this tag, and return its new tag."""
        try:
            content = self._content()
            return self._object.write_if_unchanged(content, tag) if tag else self._object.create(content)
        except FileExistsError:
            # An earlier write of ours whose answer was lost may have changed the tag: check whether the lease names us.
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
                # Makes each renewal's content unique. A store derives the tag from the content.
                "renewal": uuid.uuid4().hex,
            }
        ).encode()


@contextmanager
def leased(
    folder: BucketObject, what: str, *, patience: timedelta = timedelta(0), lasts: timedelta | None = None
) -> Iterator[Lease]:
    """Hold a folder's lease.

    Args:
        folder: the folder that only the holder may write to.
        what: a name for the run, for error messages.
        patience: how long to wait for another holder.
        lasts: time from a renewal until the lease expires; `LASTS` by default.

    Raises:
        LeaseTakenError: another run holds the lease.
        KeyfoldError: the store cannot be reached, or refuses the write.
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
            # The lease is a run's first write, so a missing store or missing rights are found here.
            raise Unreachable(
                f"{folder} cannot be written: {error}. The environment variables {folder.provider.needed}, and "
                f"{folder.provider.endpoint} for a store of one's own, must name a running store and a user that may write there"
            ) from None
    _HELD.add(lease)
    try:
        yield lease
    except Exception:
        # A lost lease is the better explanation of any failure: another run may have replaced this one's files.
        lease.check()
        raise
    finally:
        _HELD.discard(lease)
        lease.release()


def check_held() -> None:
    """Check that this process still holds all its leases. Call it before each write that only a holder may make.

    All leases are checked, not only the one of the written folder: a pause that loses one loses all, or soon will.

    Raises:
        LeaseLostError: a lease is lost.
    """
    for lease in tuple(_HELD):
        lease.check()


def is_leased(folder: BucketObject) -> bool:
    """Whether a run holds a folder's lease now."""
    held, _, written = _read(folder / _NAME)
    if written is None or held.get("holder") is None:
        return False
    # By this machine's clock: a reader may not write the object that would give the store's time.
    return time.time() - written.st_mtime_ns / 1e9 <= held["lasts"] + _PRECISION_SECONDS


def _read(lease: BucketObject) -> tuple[dict[str, Any], str, ObjectStat | None]:
    try:
        content, tag = lease.read_with_tag()
        return json.loads(content), tag, lease.stat()
    except FileNotFoundError:
        return {}, "", None


def _age(folder: BucketObject, written: ObjectStat) -> float:
    """Return the age of an object in seconds, by the store's clock."""
    probe = folder / f".clock-{uuid.uuid4().hex}"
    probe.write_bytes(b"")
    try:
        return (probe.stat().st_mtime_ns - written.st_mtime_ns) / 1e9
    finally:
        probe.unlink(missing_ok=True)


def _seconds() -> float:
    """Read a monotonic clock, in seconds; where available, one that includes the time the machine was suspended."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
