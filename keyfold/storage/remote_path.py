"""Paths in a store, with the part of `pathlib.PurePath` that Keyfold uses, and files whose ranges are fetched from it."""

import io
import os
from abc import abstractmethod
from pathlib import PurePosixPath
from typing import Any, NamedTuple, Self

from keyfold.errors import Unreachable


class StoreError(OSError):
    """The store has failed, cannot be reached, or refuses access. The object itself is not damaged.

    Attributes:
        place: the place for `check_reachable`, which may find what is wrong with the settings.
    """

    place: str = ""


class NotAnsweringError(Unreachable):
    """A store does not answer. It may do so later."""


class ObjectStat(NamedTuple):
    """An object's entry in a listing.

    Attributes:
        st_size: size in bytes.
        st_mtime_ns: when it was written, in nanoseconds since 1970, by the store's clock.
        e_tag: the tag of its content; None if the store has none.
    """

    st_size: int
    st_mtime_ns: int
    e_tag: str | None


class RemotePath:
    """A path in a store. It is compared, hashed, sorted and pickled by its URL."""

    __slots__ = ("_key", "_root")

    _root: str
    _key: PurePosixPath

    def __init__(self, root: str, key: str) -> None:
        self._root, self._key = root, PurePosixPath(key)

    def __str__(self) -> str:
        return f"{self._root}/{self.key}" if self.key else self._root

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemotePath) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __lt__(self, other: "RemotePath") -> bool:
        return str(self) < str(other)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self),)

    def __truediv__(self, name: "str | PurePosixPath") -> Self:
        return self._at(self._key / name)

    @property
    def key(self) -> str:
        """The path in the bucket."""
        return "" if self._key == PurePosixPath() else str(self._key)

    @property
    def name(self) -> str:
        return self._key.name

    @property
    def stem(self) -> str:
        return self._key.stem

    @property
    def suffix(self) -> str:
        return self._key.suffix

    @property
    def parent(self) -> Self:
        return self._at(self._key.parent)

    @property
    def parents(self) -> tuple[Self, ...]:
        return tuple(self._at(parent) for parent in self._key.parents)

    @property
    def parts(self) -> tuple[str, ...]:
        return self._key.parts

    def with_name(self, name: str) -> Self:
        return self._at(self._key.with_name(name))

    def relative_to(self, other: "RemotePath") -> PurePosixPath:
        if not self.shares_store_with(other):
            raise ValueError(f"{self} is not below {other}")
        return self._key.relative_to(other._key)

    def is_relative_to(self, other: "RemotePath") -> bool:
        return self.shares_store_with(other) and self._key.is_relative_to(other._key)

    def shares_store_with(self, other: object) -> bool:
        """Whether another path is in the same bucket."""
        return isinstance(other, RemotePath) and self._root == other._root

    def as_posix(self) -> str:
        return str(self)

    def as_uri(self) -> str:
        return str(self)

    def expanduser(self) -> Self:
        return self

    def resolve(self) -> Self:
        return self

    def is_symlink(self) -> bool:
        return False

    def _at(self, key: PurePosixPath) -> Self:
        # Without __init__, whose checks of the URL this path has passed already.
        made = object.__new__(type(self))
        made._root, made._key = self._root, key
        return made


class RangeReader(io.RawIOBase):
    """A seekable, read-only file of known size: each read fetches a range of bytes. Subclasses fetch ranges."""

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
