"""Define the manifest of a state partition: the list of its parts. Commit records name the manifests."""

import json
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from keyfold.errors import Damaged

NEVER = 2**63 - 1
"""Stands for no timer, in microseconds."""

_HEAD = struct.Struct("<4sII")
_MAGIC = b"KFS1"


@dataclass(frozen=True)
class Part:
    """A part of a partition's state.

    Attributes:
        batch: the batch that made it.
        rows: number of rows, with those that mark a slot as empty.
        slots: number of different slots.
        first: the first slot.
        size: size in bytes.
        deadline, processing_deadline: the earliest timers of its rows that no batch has handled yet, in microseconds since 1970;
            `NEVER` without one. Earlier timers belong to slots that a later part replaces.
        file: file name in the folder of parts; empty for a part in the manifest.
        payload: content of a part in the manifest.
    """

    batch: int
    rows: int
    slots: int
    first: int
    size: int
    deadline: int
    processing_deadline: int
    file: str = ""
    payload: bytes = b""


@dataclass(frozen=True)
class Manifest:
    """The parts of a state partition after a batch.

    Attributes:
        schema_version: version of the rows.
        open_events: number of events in the rows.
        base: parts of sorted rows, in the order of their slots, without overlaps.
        changes: later parts, oldest first.
    """

    schema_version: int
    open_events: int = 0
    base: tuple[Part, ...] = ()
    changes: tuple[Part, ...] = ()

    @property
    def parts(self) -> tuple[Part, ...]:
        """All parts, oldest first."""
        return (*self.base, *self.changes)

    @property
    def files(self) -> frozenset[str]:
        """The names of its files."""
        return frozenset(part.file for part in self.parts if part.file)

    @property
    def size(self) -> int:
        """The size of its parts in bytes."""
        return sum(part.size for part in self.parts)

    @property
    def timers(self) -> tuple[int, int]:
        """The earliest `deadline` and `processing_deadline` of its parts, also of rows that a later part replaces."""
        return min((part.deadline for part in self.parts), default=NEVER), min(
            (part.processing_deadline for part in self.parts), default=NEVER
        )

    def pack(self) -> bytes:
        """Encode as bytes, with a checksum."""
        header = {
            "schema_version": self.schema_version,
            "open_events": self.open_events,
            "base": [_numbers(part) for part in self.base],
            "changes": [_numbers(part) for part in self.changes],
        }
        head = json.dumps(header, separators=(",", ":")).encode()
        body = head + b"".join(part.payload for part in self.parts)
        return _HEAD.pack(_MAGIC, _checksum(len(head), body), len(head)) + body

    @classmethod
    def unpack(cls, content: bytes | bytearray | memoryview) -> "Manifest":
        """Decode what `pack` encoded.

        Raises:
            Damaged: the content is damaged.
        """
        view = memoryview(content)
        if len(view) < _HEAD.size or bytes(view[:4]) != _MAGIC:
            raise Damaged("the manifest of its parts was not written by this version of Keyfold")
        _, checksum, length = _HEAD.unpack(view[: _HEAD.size])
        body = view[_HEAD.size :]
        if _checksum(length, body) != checksum:
            raise Damaged("the manifest of its parts is damaged (its checksum is another one)")
        header, rest = json.loads(bytes(body[:length])), bytes(body[length:])
        base, rest = _parts(header["base"], rest)
        return cls(header["schema_version"], header["open_events"], base, _parts(header["changes"], rest)[0])


def _checksum(length: int, body: bytes | memoryview) -> int:
    # The header's length is the start value, so that the checksum covers it too.
    return zlib.crc32(body, length)


def _numbers(part: Part) -> list[int | str]:
    return [
        part.batch,
        part.rows,
        part.slots,
        part.first,
        part.size,
        part.deadline,
        part.processing_deadline,
        # A name or a length: `_parts` tells them apart by their type.
        part.file or len(part.payload),
    ]


def _parts(header: Sequence[Sequence[int | str]], content: bytes) -> tuple[tuple[Part, ...], bytes]:
    parts: list[Part] = []
    for *numbers, place in header:
        part = Part(*numbers)  # type: ignore[arg-type] - JSON's numbers, as `_numbers` wrote them
        if isinstance(place, str):
            parts.append(replace(part, file=place))
        else:
            parts.append(replace(part, payload=content[:place]))
            content = content[place:]
    return tuple(parts), content
