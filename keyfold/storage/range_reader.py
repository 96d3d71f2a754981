"""A Python file object over an object in a store: each read fetches a range of bytes."""

import io
import os
from abc import abstractmethod
from typing import Any


class RangeReader(io.RawIOBase):
    """A seekable, read-only file of known size. Subclasses fetch ranges."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._at, self._size = 0, size

    @abstractmethod
    def _range(self, start: int, end: int) -> bytes:
        """Fetch the bytes from `start` up to, not including, `end`: all of them, or raise the store's error."""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        end = min(self._at + len(buffer), self._size)
        if end <= self._at:
            return 0
        content = self._range(self._at, end)
        buffer[: len(content)] = content
        self._at += len(content)
        return len(content)
