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
_MAGIC_WITH_WAITING = b"KFS2"
"""Marks a manifest with waiting rows. A version of Keyfold without them must refuse it, and not ignore them."""


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
        open_events: number of events in the rows; in a manifest of waiting rows, the number of rows.
        base: parts of sorted rows, in the order of their slots, without overlaps.
        changes: later parts, oldest first.
        waiting: the parts of rows that wait (`job.state.waiting`), if there are any.
    """

    schema_version: int
    open_events: int = 0
    base: tuple[Part, ...] = ()
    changes: tuple[Part, ...] = ()
    waiting: "Manifest | None" = None

    @property
    def parts(self) -> tuple[Part, ...]:
        """All parts, with those of waiting rows at the end."""
        return (*self.base, *self.changes, *(self.waiting.parts if self.waiting else ()))

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
        parts = (*self.base, *self.changes)
        return min((part.deadline for part in parts), default=NEVER), min(
            (part.processing_deadline for part in parts), default=NEVER
        )

    def pack(self) -> bytes:
        """Encode as bytes, with a checksum."""
        header = {
            "schema_version": self.schema_version,
            "open_events": self.open_events,
            "base": [_numbers(part) for part in self.base],
            "changes": [_numbers(part) for part in self.changes],
        }
        if self.waiting:
            header["waiting"] = {
                "rows": self.waiting.open_events,
                "base": [_numbers(part) for part in self.waiting.base],
                "changes": [_numbers(part) for part in self.waiting.changes],
            }
        head = json.dumps(header, separators=(",", ":")).encode()
        body = head + b"".join(part.payload for part in self.parts)
        magic = _MAGIC_WITH_WAITING if self.waiting else _MAGIC
        return _HEAD.pack(magic, _checksum(len(head), body), len(head)) + body

    @classmethod
    def unpack(cls, content: bytes | bytearray | memoryview) -> "Manifest":
        """Decode what `pack` encoded.

        Raises:
            Damaged: the content is damaged.
        """
        view = memoryview(content)
        if len(view) < _HEAD.size or bytes(view[:4]) not in (_MAGIC, _MAGIC_WITH_WAITING):
            raise Damaged("the manifest of its parts was not written by this version of Keyfold")
        _, checksum, length = _HEAD.unpack(view[: _HEAD.size])
        body = view[_HEAD.size :]
        if _checksum(length, body) != checksum:
            raise Damaged("the manifest of its parts is damaged (its checksum is another one)")
        header, rest = json.loads(bytes(body[:length])), bytes(body[length:])
        base, rest = _parts(header["base"], rest)
        changes, rest = _parts(header["changes"], rest)
        version, waiting_header, waiting = header["schema_version"], header.get("waiting"), None
        if waiting_header:
            waiting_base, rest = _parts(waiting_header["base"], rest)
            waiting = cls(version, waiting_header["rows"], waiting_base, _parts(waiting_header["changes"], rest)[0])
        return cls(version, header["open_events"], base, changes, waiting)


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
