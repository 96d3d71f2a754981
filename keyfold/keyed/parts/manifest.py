"""The manifest of a state partition: its parts, as Spark keeps them in the partition's one value."""

import json
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from keyfold.errors import Damaged

NEVER = 2**63 - 1
"""The timer of what has none."""

_HEAD = struct.Struct("<4sII")
_MAGIC = b"KFS1"
_MAGIC_WITH_WAITING = b"KFS2"
"""Of state that a version of Keyfold which knows of no waiting rows would read without them."""


@dataclass(frozen=True)
class Part:
    """A part of a partition's state.

    Attributes:
        batch: that made it.
        rows: that it has, those that are gone among them.
        slots: how many different slots they have.
        first: the least of these.
        size: in bytes.
        deadline, stale_at: the earliest timers of its rows that no batch has handled yet, in microseconds since 1970;
            `NEVER` without one. Those before them belong to slots that a later part replaces.
        file: its name in the folder of parts; empty of a part that lies in the manifest.
        payload: its content, of a part that lies in the manifest.
    """

    batch: int
    rows: int
    slots: int
    first: int
    size: int
    deadline: int
    stale_at: int
    file: str = ""
    payload: bytes = b""


@dataclass(frozen=True)
class Manifest:
    """The parts of a state partition after a batch.

    Attributes:
        schema_version: of the rows.
        open_events: that the rows stand for; of the rows that wait, their number.
        base: parts of sorted rows, in the order of their slots, which do not overlap.
        changes: later parts, oldest first.
        waiting: the parts of the rows that wait apart (`job.waiting`), if there are any.
    """

    schema_version: int
    open_events: int = 0
    base: tuple[Part, ...] = ()
    changes: tuple[Part, ...] = ()
    waiting: "Manifest | None" = None

    @property
    def parts(self) -> tuple[Part, ...]:
        """All of them, those of the rows that wait at the end."""
        return (*self.base, *self.changes, *(self.waiting.parts if self.waiting else ()))

    @property
    def files(self) -> frozenset[str]:
        """The names of the files of its parts."""
        return frozenset(part.file for part in self.parts if part.file)

    @property
    def size(self) -> int:
        """The bytes of its parts."""
        return sum(part.size for part in self.parts)

    @property
    def timers(self) -> tuple[int, int]:
        """The earliest `deadline` and `stale_at` of its parts; of rows that were replaced since, too."""
        parts = (*self.base, *self.changes)
        return min((part.deadline for part in parts), default=NEVER), min(
            (part.stale_at for part in parts), default=NEVER
        )

    def pack(self) -> bytes:
        """As bytes, with a checksum."""
        told = {
            "schema_version": self.schema_version,
            "open_events": self.open_events,
            "base": [_told(part) for part in self.base],
            "changes": [_told(part) for part in self.changes],
        }
        if self.waiting:
            told["waiting"] = {
                "rows": self.waiting.open_events,
                "base": [_told(part) for part in self.waiting.base],
                "changes": [_told(part) for part in self.waiting.changes],
            }
        head = json.dumps(told, separators=(",", ":")).encode()
        body = head + b"".join(part.payload for part in self.parts)
        magic = _MAGIC_WITH_WAITING if self.waiting else _MAGIC
        return _HEAD.pack(magic, _checksum(len(head), body), len(head)) + body

    @classmethod
    def unpack(cls, content: bytes | bytearray | memoryview) -> "Manifest":
        """From `pack`.

        Raises:
            Damaged: the content is not what was packed.
        """
        view = memoryview(content)
        if len(view) < _HEAD.size or bytes(view[:4]) not in (_MAGIC, _MAGIC_WITH_WAITING):
            raise Damaged("the manifest of its parts is none of this version of Keyfold")
        _, checksum, length = _HEAD.unpack(view[: _HEAD.size])
        body = view[_HEAD.size :]
        if _checksum(length, body) != checksum:
            raise Damaged("the manifest of its parts is damaged (its checksum is another one)")
        told, rest = json.loads(bytes(body[:length])), bytes(body[length:])
        base, rest = _parts(told["base"], rest)
        changes, rest = _parts(told["changes"], rest)
        version, apart, waiting = told["schema_version"], told.get("waiting"), None
        if apart:
            waiting_base, rest = _parts(apart["base"], rest)
            waiting = cls(version, apart["rows"], waiting_base, _parts(apart["changes"], rest)[0])
        return cls(version, told["open_events"], base, changes, waiting)


def _checksum(length: int, body: bytes | memoryview) -> int:
    return zlib.crc32(body, length)


def _told(part: Part) -> list[int | str]:
    return [
        part.batch,
        part.rows,
        part.slots,
        part.first,
        part.size,
        part.deadline,
        part.stale_at,
        part.file or len(part.payload),
    ]


def _parts(told: Sequence[Sequence[int | str]], content: bytes) -> tuple[tuple[Part, ...], bytes]:
    parts: list[Part] = []
    for *numbers, place in told:
        part = Part(*numbers)  # type: ignore[arg-type] - JSON's numbers, as `_told` wrote them
        if isinstance(place, str):
            parts.append(replace(part, file=place))
        else:
            parts.append(replace(part, payload=content[:place]))
            content = content[place:]
    return tuple(parts), content
