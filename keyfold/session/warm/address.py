"""The address file of a warm Spark: its port and secret, readable only for its user.

The process holds a lock beside the file as long as it lives, so a free lock means that it has ended (`keyfold.machine.locks`).
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
from keyfold.machine.locks import is_locked, open_lock, take

_MAX_BYTES = 4_096
_ANOTHER_HAS_IT_SECONDS = 1.0


@dataclass(frozen=True)
class WarmAddress:
    """The address of a warm Spark on loopback.

    Attributes:
        port: port of its gateway.
        secret: secret for the connection.
    """

    port: int
    secret: str = field(repr=False)


def read(address: Path) -> WarmAddress:
    """Read the address file of a running warm Spark.

    Raises:
        KeyfoldError: the file is missing, this user's warm Spark did not write it, or that has ended.
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
    """Write the address file atomically, with mode 0600."""
    write_whole(address, json.dumps({"port": found.port, "secret": found.secret}).encode())


@contextmanager
def held(address: Path) -> Iterator[None]:
    """Hold the lock of an address file. The file is removed at both ends of the context.

    Raises:
        KeyfoldError: another process holds the lock, or the folder is not writable.
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
            raise Locked(f"{address} belongs to a warm Spark that is running; stop it first") from None
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
    """Read a private file of this user. A link, a pipe or a file of another user is refused without waiting."""
    descriptor = os.open(address, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        # Checked on the open file, which cannot be exchanged for another one any more.
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise KeyfoldError(f"{address} is not a regular file")
        if status.st_uid != os.geteuid():
            raise KeyfoldError(f"{address} belongs to another user, who could read all that the run sends")
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
    raise KeyfoldError(f"{address} does not hold the address of a warm Spark")
