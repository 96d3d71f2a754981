"""Hand frames from the tasks that read to those that work: as they are within a process, and encoded between processes."""

from itertools import count
from typing import Protocol

import polars as pl

from keyfold.keyed.rows.codec import decode, encode
from keyfold.runners.runner import Runner


class Handover(Protocol):
    """How a frame becomes the payload of a blob, and the payload a frame again, once."""

    def pack(self, frame: pl.DataFrame) -> bytes:
        """Return the payload of a frame."""
        ...

    def unpack(self, payload: bytes | memoryview) -> pl.DataFrame:
        """Return the frame of a payload."""
        ...


class Encoded:
    """Payloads have the rows, for tasks in other processes."""

    def pack(self, frame: pl.DataFrame) -> bytes:
        """Return the payload of a frame."""
        return encode(frame)

    def unpack(self, payload: bytes | memoryview) -> pl.DataFrame:
        """Return the frame of a payload."""
        return decode(payload)


class InMemory:
    """Payloads are the numbers of frames that stay in memory: encoding and decoding them takes a fifth of a batch's time."""

    def __init__(self) -> None:
        self._frames: dict[int, pl.DataFrame] = {}
        self._numbers = count()

    def pack(self, frame: pl.DataFrame) -> bytes:
        """Keep a frame, and return the payload that stands for it."""
        number = next(self._numbers)
        self._frames[number] = frame
        return number.to_bytes(8, "big")

    def unpack(self, payload: bytes | memoryview) -> pl.DataFrame:
        """Return the frame that a payload stands for, and keep it no longer."""
        return self._frames.pop(int.from_bytes(payload, "big"))


def handover_for(runner: Runner) -> Handover:
    """Return how frames are handed over between the tasks of a runner, for one exchange."""
    return InMemory() if runner.in_one_process else Encoded()
