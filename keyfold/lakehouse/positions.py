"""Positions in a table: a version, and a digest of its log entry, which tells it from the same version of another history.

A table that was restored from a backup and written again has the versions that it had before, with other rows. A log
entry names its files, which have random names: two histories have no entry in common but those from before they part.
"""

import json
import re
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

from pydantic import BaseModel, ConfigDict

from keyfold.errors import Damaged
from keyfold.lakehouse.empty_entries import told_of
from keyfold.storage.place import Place

_NAMED = re.compile(r"(\d{20})\.(?:json|checkpoint\.)")


class LogGoneError(Damaged):
    """A table's log no longer says what came to it since a version."""


class OtherHistoryError(Damaged):
    """A table has the version that was read, with another content."""


class Position(BaseModel):
    """Up to where a table was read.

    Attributes:
        version: of the table.
        digest: SHA-256 of that version's log entry, as hexadecimal text.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: int
    digest: str


def position_at(table: Place, version: int) -> Position:
    """The position of a version.

    Raises:
        LogGoneError: the log no longer has its entry.
        KeyfoldError: its entry is empty.
    """
    return Position(version=version, digest=_digest(_content(table, version)))


def check_position(table: Place, position: Position) -> None:
    """Check that a table is the one that was read up to a position.

    Raises:
        OtherHistoryError: it is another one at that version.
        LogGoneError: the log no longer has the position's entry, or the table is older than it.
    """
    try:
        found = position_at(table, position.version)
    except LogGoneError:
        newest = newest_version(table)
        if newest < position.version:
            raise LogGoneError(f"{table} is at version {newest}, yet its version {position.version} was read") from None
        raise
    if found != position:
        raise OtherHistoryError(f"version {position.version} of {table} is not the one that was read")


def entries_since(table: Place, position: Position) -> Iterator[tuple[Position, list[dict[str, Any]]]]:
    """The log entries after a position, each with its own position and its actions.

    Raises:
        OtherHistoryError, LogGoneError: as `check_position`; or an entry is missing that others come after.
        KeyfoldError: an entry is empty.
    """
    check_position(table, position)
    for version in range(position.version + 1, newest_version(table) + 1):
        # An entry that is missing is damage: an entry, or a checkpoint, of a later version is there.
        content = _content(table, version)
        yield (
            Position(version=version, digest=_digest(content)),
            [json.loads(line) for line in content.splitlines()],
        )


def newest_version(table: Place) -> int:
    """The newest version that a table's log names, by an entry or a checkpoint; -1 of an empty log."""
    found = (_NAMED.match(path.name) for path in (table / "_delta_log").iterdir())
    return max((int(name[1]) for name in found if name), default=-1)


def has_version(table: Place, version: int) -> bool:
    """Whether a table's log has the entry of a version."""
    return _entry(table, version).exists()


def _entry(table: Place, version: int) -> Place:
    return table / "_delta_log" / f"{version:020d}.json"


def _content(table: Place, version: int) -> bytes:
    try:
        content = _entry(table, version).read_bytes()
    except FileNotFoundError:
        raise LogGoneError(f"the log of {table} has no entry of version {version}") from None
    if not content:
        raise told_of(table, version)
    return content


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()
