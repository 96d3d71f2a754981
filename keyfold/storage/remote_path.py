"""Places that no path of this machine leads to, as paths: as much of `pathlib.Path` as a home's files need, so that one code serves all.

What every kind keeps, and is relied on:

- what is written is whole or not there, and stays.
- `create` writes only where nothing is yet, in one step of the store.
- `write_if_unchanged` writes only over what was read, in one step of the store.
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
    """The store has failed, is not reached, or refuses: no fault of the object's.

    Attributes:
        place: what `check_reachable` may look at, to say what is wrong with the settings.
    """

    place: str = ""


class NotAnsweringError(Unreachable):
    """A store was asked, and gave no answer of its own: it may do so by the next time."""


class ObjectStat(NamedTuple):
    """What a listing tells of an object.

    Attributes:
        st_size: bytes.
        st_mtime_ns: when it was written, nanoseconds since 1970, by the store's clock.
        e_tag: of its content; None where the store has none of it.
    """

    st_size: int
    st_mtime_ns: int
    e_tag: str | None


class RemotePath(ABC):
    """A place in a store. Compares, hashes, sorts and pickles by its URL."""

    __slots__ = ("_key", "_root")

    what_reaches_it: ClassVar[str]
    """What must be set and run for it to be reached, for people."""

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
        """Its path below the bucket."""
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
        """Whether another place is in the same bucket."""
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
        """The object's content.

        Raises:
            FileNotFoundError: it is not there.
        """

    def read_text(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return self.read_bytes().decode(encoding, errors)

    @abstractmethod
    def read_with_tag(self) -> tuple[bytes, str]:
        """The object's content, and the tag that `write_if_unchanged` takes."""

    @abstractmethod
    def write_bytes(self, content: bytes) -> int:
        """Write the object, whole, in the place of the one before it."""

    @abstractmethod
    def write_from(self, file: IO[bytes]) -> None:
        """Write the object with what a file holds from where it stands, in parts where it is large."""

    def write_text(self, text: str, encoding: str = "utf-8") -> int:
        return self.write_bytes(text.encode(encoding))

    @abstractmethod
    def create(self, content: bytes) -> str:
        """Write the object unless there is one; gives its tag.

        Raises:
            FileExistsError: there is one, perhaps somebody else's, perhaps this very one: of a write whose answer was
                lost nobody knows.
        """

    @abstractmethod
    def write_if_unchanged(self, content: bytes, tag: str) -> str:
        """Write the object if it still is the one that has this tag; gives the new one.

        Raises:
            FileExistsError: somebody has written it since, or taken it away.
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
        """What lies directly below it."""

    def glob(self, pattern: str) -> Iterator[Self]:
        """What lies below it by a pattern of names, `*` within one name; folders too."""
        here, _, rest = pattern.partition("/")
        if not any(sign in here for sign in "*?["):
            one = self / here
            if rest:
                yield from one.glob(rest)
            elif one.exists():
                yield one
            return
        for one in self.iterdir():
            if fnmatch.fnmatchcase(one.name, here):
                if rest:
                    yield from one.glob(rest)
                else:
                    yield one

    def rglob(self, pattern: str) -> Iterator[Self]:
        """Files at any depth below it, by their name."""
        for path, _ in self.below():
            if fnmatch.fnmatchcase(path.name, pattern):
                yield path

    @abstractmethod
    def below(self) -> Iterator[tuple[Self, ObjectStat]]:
        """Files at any depth below it, each with what the listing tells of it."""

    @abstractmethod
    def mkdir(self, mode: int = 0o777, *, parents: bool = False, exist_ok: bool = False) -> None: ...

    @abstractmethod
    def unlink(self, *, missing_ok: bool = False) -> None: ...

    @abstractmethod
    def remove_tree(self) -> None:
        """Remove it and all that lies below it."""

    @abstractmethod
    def copy_to(self, other: "RemotePath") -> None:
        """Copy it within its store."""

    @abstractmethod
    def move_tree_to(self, other: "RemotePath", last: str, check: Check) -> None:
        """Move a folder to a place where nothing is yet.

        Args:
            other: where to, in the same store.
            last: what comes last there and goes first here, where it takes more than one step.
            check: called before each step.
        """

    @abstractmethod
    def move_file_to(self, other: "RemotePath") -> None:
        """Move a file to a place where nothing is yet, in the same store."""

    @abstractmethod
    def open_reader(self, read_ahead: int = READ_AHEAD) -> IO[bytes]:
        """A seekable file that fetches what is read of it, so many bytes at least at a time."""

    def _at(self, key: PurePosixPath) -> Self:
        made = object.__new__(type(self))
        made._root, made._key = self._root, key
        return made
