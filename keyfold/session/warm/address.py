"""Where a warm Spark listens: a file that its user alone can read, beside a lock that it holds for as long as it lives.

The lock says whether the process is there (`keyfold.locks`).
"""

import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from keyfold.errors import KeyfoldError, Locked, Unreachable
from keyfold.lakehouse.files import write_whole
from keyfold.locks import is_locked, open_lock, take

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
        if not is_locked(_lock_file(address)):
            raise Unreachable(f"the warm Spark that wrote {address} has ended")
    except FileNotFoundError:
        raise Unreachable(f"no warm Spark serves at {address}") from None
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
        descriptor = open_lock(_lock_file(address))
    except OSError as error:
        raise KeyfoldError(
            f"the warm Spark's address cannot be written to {address}: {error.strerror or error}; give another --address"
        ) from None
    try:
        try:
            take(descriptor, seconds=_ANOTHER_HAS_IT_SECONDS)
        except BlockingIOError:
            raise Locked(f"{address} belongs to a warm Spark that runs already; stop it first") from None
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
