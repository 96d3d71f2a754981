"""`RemotePath`: the part of `pathlib.Path` that Keyfold uses, for paths in a store. The same code serves disks and stores.

Every implementation guarantees:

- Writes are atomic and durable.
- `create` writes only if there is no object, in one step of the store.
- `write_if_unchanged` writes only over the version that was read, in one step of the store.
"""

import fnmatch
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import IO, Any, ClassVar, NamedTuple, Self

from keyfold.errors import Unreachable

READ_AHEAD = 64 << 10

Check = Callable[[], None]


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


class RemotePath(ABC):
    """A path in a store. It is compared, hashed, sorted and pickled by its URL."""

    __slots__ = ("_key", "_root")

    what_reaches_it: ClassVar[str]
    """What must be set and running to reach it, for error messages."""

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

    @abstractmethod
    def read_bytes(self) -> bytes:
        """Read the object.

        Raises:
            FileNotFoundError: there is no such object.
        """

    def read_text(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return self.read_bytes().decode(encoding, errors)

    @abstractmethod
    def read_with_tag(self) -> tuple[bytes, str]:
        """Read the object, and its tag for `write_if_unchanged`."""

    @abstractmethod
    def write_bytes(self, content: bytes) -> int:
        """Write or replace the object."""

    @abstractmethod
    def write_from(self, file: IO[bytes]) -> None:
        """Write the object from a file, from its current position on; a large one in parts."""

    def write_text(self, text: str, encoding: str = "utf-8") -> int:
        return self.write_bytes(text.encode(encoding))

    @abstractmethod
    def create(self, content: bytes) -> str:
        """Write the object if it does not exist, and return its tag.

        Raises:
            FileExistsError: it exists. It may be of another process, or of an earlier try of this one whose answer was lost.
        """

    @abstractmethod
    def write_if_unchanged(self, content: bytes, tag: str) -> str:
        """Write the object if it still has this tag, and return its new tag.

        Raises:
            FileExistsError: it was written or deleted since.
        """

    @abstractmethod
    def exists(self) -> bool: ...

    @abstractmethod
    def is_file(self) -> bool: ...

    @abstractmethod
    def is_dir(self) -> bool: ...

    @abstractmethod
    def stat(self) -> ObjectStat: ...

    @abstractmethod
    def iterdir(self) -> Iterator[Self]:
        """The objects and folders directly below."""

    def glob(self, pattern: str) -> Iterator[Self]:
        """Objects and folders below that match a pattern. `*` matches within one name."""
        here, _, rest = pattern.partition("/")
        if not any(sign in here for sign in "*?["):
            path = self / here
            if rest:
                yield from path.glob(rest)
            elif path.exists():
                yield path
            return
        for path in self.iterdir():
            if fnmatch.fnmatchcase(path.name, here):
                if rest:
                    yield from path.glob(rest)
                else:
                    yield path

    def rglob(self, pattern: str) -> Iterator[Self]:
        """Objects at any depth below whose name matches a pattern."""
        for path, _ in self.below():
            if fnmatch.fnmatchcase(path.name, pattern):
                yield path

    @abstractmethod
    def below(self) -> Iterator[tuple[Self, ObjectStat]]:
        """Objects at any depth below, each with its entry in the listing."""

    @abstractmethod
    def mkdir(self, mode: int = 0o777, *, parents: bool = False, exist_ok: bool = False) -> None: ...

    @abstractmethod
    def unlink(self, *, missing_ok: bool = False) -> None: ...

    @abstractmethod
    def remove_tree(self) -> None:
        """Remove the path and everything below it."""

    @abstractmethod
    def copy_to(self, other: "RemotePath") -> None:
        """Copy the object within its store."""

    @abstractmethod
    def move_tree_to(self, other: "RemotePath", last: str, check: Check) -> None:
        """Move a folder to a path that does not exist.

        Args:
            other: the target, in the same store.
            last: the name of the file that is copied last and deleted first, if the move takes several steps.
            check: called before each step.
        """

    @abstractmethod
    def move_file_to(self, other: "RemotePath") -> None:
        """Move a file to a path that does not exist, in the same store."""

    @abstractmethod
    def open_reader(self, read_ahead: int = READ_AHEAD) -> IO[bytes]:
        """Open a seekable file that fetches ranges as they are read, at least `read_ahead` bytes at a time."""

    def _at(self, key: PurePosixPath) -> Self:
        # Without __init__, whose checks of the URL this path has passed already.
        made = object.__new__(type(self))
        made._root, made._key = self._root, key
        return made
