"""Where a warm Spark listens: a file that its user alone can read, beside a lock that it holds for as long as it lives.

The lock says whether the process is there, and the system lets go of it however that ends. A process id does not say so:
after a crash or a restart of the machine it is another program's.
"""

import fcntl
import json
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spark_jobs.errors import KeyfoldError
from spark_jobs.lakehouse.files import write_whole

_MAX_BYTES = 4_096
_ANOTHER_HAS_IT_SECONDS = 1.0


@dataclass(frozen=True)
class WarmAddress:
    """Where it listens on loopback.

    Attributes:
        port: of its gateway.
        secret: to get in.
    """

    port: int
    secret: str = field(repr=False)


def read(address: Path) -> WarmAddress:
    """What the address file says, of a warm Spark that lives.

    Raises:
        KeyfoldError: there is no such file, it is not one that this user's warm Spark wrote, or that has ended.
    """
    try:
        text = _own_text(address)
        if not _is_held(_lock_file(address)):
            raise KeyfoldError(f"the warm Spark that wrote {address} has ended")
    except FileNotFoundError:
        raise KeyfoldError(f"no warm Spark serves at {address}") from None
    except OSError as error:
        raise KeyfoldError(f"{address} cannot be read: {error.strerror or error}") from None
    return _parsed(address, text)


def write(address: Path, found: WarmAddress) -> None:
    """Write the file, whole, with mode 0600: what is written aside first is its user's alone."""
    write_whole(address, json.dumps({"port": found.port, "secret": found.secret}).encode())


@contextmanager
def held(address: Path) -> Iterator[None]:
    """Hold the address for as long as the context lasts; at its ends no file of an earlier holder is there.

    Raises:
        KeyfoldError: another process holds it, or nothing can be written there.
    """
    try:
        address.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(_lock_file(address), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise KeyfoldError(
            f"the warm Spark's address cannot be written to {address}: {error.strerror or error}; give another --address"
        ) from None
    try:
        _take(descriptor, address)
        _remove(address)
        try:
            yield
        finally:
            _remove(address)
    finally:
        os.close(descriptor)


def _remove(address: Path) -> None:
    try:
        address.unlink(missing_ok=True)
    except OSError as error:
        raise KeyfoldError(f"{address} cannot be removed: {error.strerror or error}; give another --address") from None


def _lock_file(address: Path) -> Path:
    return address.with_name(f".{address.name}.lock")


def _take(descriptor: int, address: Path) -> None:
    late = time.monotonic() + _ANOTHER_HAS_IT_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # A run that looks whether it is held has it for a moment.
            if time.monotonic() > late:
                raise KeyfoldError(f"{address} belongs to a warm Spark that runs already; stop it first") from None
            time.sleep(0.02)
        else:
            return


def _is_held(lock: Path) -> bool:
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _own_text(address: Path) -> bytes:
    """The content of a file that this user wrote for itself; whatever else stands there is not even waited for."""
    descriptor = os.open(address, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise KeyfoldError(f"{address} is no file")
        if status.st_uid != os.geteuid():
            raise KeyfoldError(f"{address} belongs to another user: whoever wrote it would get all that the run sends")
        if status.st_mode & 0o077:
            raise KeyfoldError(f"{address} is open to other users (mode {stat.S_IMODE(status.st_mode):04o})")
        return os.read(descriptor, _MAX_BYTES)
    finally:
        os.close(descriptor)


def _parsed(address: Path, text: bytes) -> WarmAddress:
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict):
        port, secret = found.get("port"), found.get("secret")
        if type(port) is int and 0 < port < 2**16 and isinstance(secret, str) and secret.isalnum():
            return WarmAddress(port, secret)
    raise KeyfoldError(f"{address} does not say where a warm Spark is")
