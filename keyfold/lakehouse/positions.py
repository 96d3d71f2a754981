"""Positions in a Delta table: a version and a digest of its log entry.

The digest distinguishes a version from the same version of another history: a table that was restored from a backup and
written again has the same version numbers with other rows. Log entries hold random file names, so entries of two histories
differ after the restore.

A generation of a job fills its tables aside until it goes live. Its consumers may have read them there; the commit that replaces
the table at its address names the last position of the table aside, so that they continue after that commit.
"""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from typing import Any

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pydantic import ValidationError

from keyfold.errors import Damaged
from keyfold.lakehouse.presence import damaged_entry
from keyfold.storage.place import Place
from keyfold.validation import Record

_KINDS = {"add", "remove", "commitInfo", "metaData", "protocol", "txn", "domainMetadata", "cdc"}
"""The kinds of actions of Delta's protocol."""

_NAMED = re.compile(r"(\d{20})\.(?:json|checkpoint\.)")


class LogGoneError(Damaged):
    """A table's log lacks entries after a version."""


class OtherHistoryError(Damaged):
    """A version of a table is not the one that was read: the table has another history."""


class Position(Record):
    """A position in a table, up to which it has been read.

    Attributes:
        version: version of the table.
        digest: SHA-256 of that version's log entry, as hexadecimal text.
    """

    version: int
    digest: str


def position_at(table: Place, version: int) -> Position:
    """Return the position of a version.

    Raises:
        LogGoneError: its log entry is missing.
        Damaged: its entry is empty.
    """
    return Position(version=version, digest=_digest(_content(table, version)))


def check_position(table: Place, position: Position) -> Position:
    """Check that a table is the one that was read up to a position, and return the position in the table's own log.

    Raises:
        OtherHistoryError: the version's log entry is another one.
        LogGoneError: the version's log entry is missing, or the table has not reached that version.
    """
    try:
        current = position_at(table, position.version)
    except LogGoneError:
        if (moved := moved_to(table, position)) is not None:
            return position_at(table, moved)
        newest = newest_version(table)
        if newest < position.version:
            raise LogGoneError(f"{table} is at version {newest}, yet its version {position.version} was read") from None
        raise
    if current == position:
        return position
    if (moved := moved_to(table, position)) is not None:
        return position_at(table, moved)
    raise OtherHistoryError(f"version {position.version} of {table} is not the one that was read")


def remembered(table: Place) -> Place:
    """Return the record of a table's newest position, which is beside the table, since no journal has it."""
    return table.with_name(f"{table.name}.json")


def remember_position(table: Place) -> None:
    """Record a table's newest position, so that the loss of its newest log entries is found. Only one process at a time may write both."""
    remembered(table).write_json(position_at(table, newest_version(table)).model_dump())


def check_remembered(table: Place) -> None:
    """Check that a table has its recorded position.

    Raises:
        Damaged: log entries of the table are gone, or it has another history; or the record is damaged.
    """
    record = remembered(table)
    try:
        position = Position.model_validate(record.read_json())
    except ValidationError:
        raise Damaged(f"{record} is damaged; restore it from a backup, with the table that it belongs to") from None
    check_position(table, position)


def is_as_remembered(table: Place) -> bool:
    """Whether a table has its recorded position; True without a record."""
    try:
        check_remembered(table)
    except FileNotFoundError:
        return True
    except Damaged:
        return False
    return True


def moving(position: Position) -> str:
    """Return the application of the commit that replaces a table by one that was read up to a position."""
    return f"keyfold.moved/{position.version}/{position.digest}"


def moved_to(table: Place, position: Position) -> int | None:
    """Return the version in which a table was replaced by one that was read up to a position; None if it was not."""
    with suppress(DeltaError):
        return DeltaTable(str(table)).transaction_version(moving(position))
    return None


def entries_since(table: Place, position: Position) -> Iterator[tuple[Position, list[dict[str, Any]]]]:
    """Yield the position in the table's own log, without actions; then each later log entry's position and actions.

    Raises:
        OtherHistoryError, LogGoneError: as `check_position`, or an entry between others is missing.
        Damaged: an entry is empty, or no log entry.
    """
    position = check_position(table, position)
    yield position, []
    for version in range(position.version + 1, newest_version(table) + 1):
        # Versions are gapless up to the newest: a missing entry is damage and raises.
        content = _content(table, version)
        try:
            actions = _actions(content)
        except ValueError as error:
            raise damaged_entry(table, version, f"cannot be read ({error})") from None
        yield Position(version=version, digest=_digest(content)), actions


def check_entry(entry: Place) -> None:
    """Check that a log entry can be read.

    Raises:
        ValueError: it cannot.
    """
    # One that was removed since it was listed is needed no more.
    with suppress(FileNotFoundError):
        _actions(entry.read_bytes())


def _actions(content: bytes) -> list[dict[str, Any]]:
    actions = [json.loads(line) for line in content.splitlines()]
    # Readers pass over kinds that they do not know, so that an entry without others would be no commit at all.
    if not all(isinstance(action, dict) for action in actions) or not any(action.keys() & _KINDS for action in actions):
        raise ValueError("there are no actions in it")
    return actions


def newest_version(table: Place) -> int:
    """Return the newest version for which a table's log has an entry or a checkpoint; -1 for an empty log."""
    named = map(_NAMED.match, sorted((table / "_delta_log").names(), reverse=True))
    return next((int(name[1]) for name in named if name), -1)


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
        raise damaged_entry(table, version, "is empty")
    return content


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()
