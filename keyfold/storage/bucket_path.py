"""Paths in the buckets of a provider (`providers`).

Keyfold relies on these differences from a file system:

- An object is written whole or not at all, and durably. So nothing is synced or written to a temporary name first.
- There are no folders: a folder exists while an object is below it, and `mkdir` does nothing. Hadoop marks folders by empty
  objects whose names end in a slash; they are ignored.
- Objects are written under a valid lease, and conditionally if another run may write them.
"""

import fnmatch
import io
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import timedelta
from typing import IO, TYPE_CHECKING, Any, Self

from keyfold.errors import KeyfoldError, Locked
from keyfold.lazy_names import from_extra
from keyfold.storage.bucket_object import BucketObject, ObjectReader, ObjectStat, stat_of, store_errors
from keyfold.storage.entries import ListedFile, OtherEntry
from keyfold.storage.lease import check_held, is_leased, leased
from keyfold.storage.storage_path import StoragePath

if TYPE_CHECKING:
    import obstore

    from keyfold.storage.place import Place
else:
    (obstore,) = from_extra("buckets", "obstore")

_READ_AHEAD = 64 << 10


class BucketPath(BucketObject, StoragePath):
    """A path in a bucket."""

    __slots__ = ()

    # What `pathlib.Path` has.

    def exists(self) -> bool:
        """Whether this is an object or a folder, that is a prefix with an object below it."""
        return self.is_file() or self.is_dir()

    def is_file(self) -> bool:
        if not self.key:
            return False
        try:
            self.stat()
        except FileNotFoundError:
            return False
        return True

    def is_dir(self) -> bool:
        return next(self._objects(), None) is not None

    def iterdir(self) -> Iterator[Self]:
        """Yield the objects and folders directly below."""
        with store_errors(self):
            listing = obstore.list_with_delimiter(self.client, prefix=self._prefix)
        for entry in listing["objects"]:
            path = self._at(entry["path"])
            if not path._stands_for_folder(entry):
                yield path
        for folder in listing["common_prefixes"]:
            path = self._at(folder)
            # Below a prefix there may be only a marker.
            if path.is_dir():
                yield path

    def glob(self, pattern: str) -> Iterator[Self]:
        """Yield objects and folders below that match a pattern. `*` matches within one name."""
        here, _, rest = pattern.partition("/")
        if any(sign in here for sign in "*?["):
            matches = (path for path in self.iterdir() if fnmatch.fnmatchcase(path.name, here))
        else:
            path = self / here
            matches = (path for path in (path,) if rest or path.exists())
        for path in matches:
            if rest:
                yield from path.glob(rest)
            else:
                yield path

    def rglob(self, pattern: str) -> Iterator[Self]:
        """Yield objects at any depth below whose name matches a pattern."""
        for entry in self._objects():
            path = self._at(entry["path"])
            if fnmatch.fnmatchcase(path.name, pattern):
                yield path

    def read_text(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return self.read_bytes().decode(encoding, errors)

    def write_text(self, text: str, encoding: str = "utf-8") -> int:
        return self.write_bytes(text.encode(encoding))

    def mkdir(self, mode: int = 0o777, *, parents: bool = False, exist_ok: bool = False) -> None:
        """Do nothing: a folder exists once an object is in it."""

    # What `StoragePath` has.

    @property
    def local_path(self) -> None:
        return None

    @property
    def catalog_name(self) -> tuple[str, str]:
        return f"{self.provider.url_scheme}://{self.bucket}", self.key

    def as_source(self) -> str:
        return f"{self.provider.url_scheme}://{self.bucket}/{self.key}"

    def tag(self) -> str:
        try:
            return self.stat().e_tag
        except FileNotFoundError:
            return ""

    def fingerprint(self, within: "Place") -> str:
        return self.stat().e_tag

    def open_for_reading(self, read_ahead: int = 0, within: "Place | None" = None) -> IO[bytes]:
        # A bucket has no links that could lead elsewhere.
        return io.BufferedReader(ObjectReader(self, read_ahead or _READ_AHEAD), read_ahead or _READ_AHEAD)

    def write_durably(self, content: bytes) -> None:
        check_held()
        self.write_bytes(content)

    def replace_content(self, content: bytes, tag: str) -> None:
        check_held()
        try:
            if tag:
                self.write_if_unchanged(content, tag)
            else:
                self.create(content)
        except FileExistsError:
            # The answer to an earlier try may have been lost: the content may be this one.
            with suppress(FileNotFoundError):
                if self.read_bytes() == content:
                    return
            raise Locked(
                f"{self} was written by another run in the meantime, and was not changed; this run committed nothing. "
                "Run it again: it continues from there"
            ) from None

    @contextmanager
    def new_file(self, named: Callable[[IO[bytes]], str] | None = None) -> Iterator[IO[bytes]]:
        # On the local disk first: a worker already holds its rows in memory.
        with tempfile.TemporaryFile() as file:
            yield file
            path = self.with_name(named(file)) if named else self
            file.seek(0)
            # A large one is sent in parts.
            with store_errors(path):
                obstore.put(path.client, path.key, file)

    def add_name(self, other: "Place") -> None:
        if not isinstance(other, BucketPath) or not self.shares_bucket_with(other):
            raise KeyfoldError(f"{self} and {other} must both be on this disk or in the same store")
        with store_errors(self):
            obstore.copy(self.client, self.key, other.key)

    def move_file(self, to: "Place") -> None:
        check_held()
        self.add_name(to)
        self.unlink(missing_ok=True)

    def move_tree(self, to: "Place", last: str) -> None:
        # False sorts before True: what is named `last` is copied last.
        files = sorted(self.rglob("*"), key=lambda path: path.is_relative_to(self / last))
        for path in files:
            check_held()
            path.add_name(to / path.relative_to(self))
        # Removed first, so that a folder that has it is always complete.
        for path in reversed(files):
            check_held()
            path.unlink(missing_ok=True)

    def remove_tree(self, *, missing_ok: bool = False) -> None:
        check_held()
        keys = [entry["path"] for entry in self._objects()]
        # A request deletes at most 1,000 objects.
        for at in range(0, len(keys), 1000):
            self.delete(keys[at : at + 1000])
        # The folder's own marker, if Hadoop has made one.
        if self.key:
            self.delete(self.key)

    def names(self) -> list[str]:
        return [path.name for path in self.iterdir()]

    def files_below(self, others: Callable[[OtherEntry], None] | None = None) -> Iterator[ListedFile]:
        for entry in self._objects():
            yield self._listed(self._at(entry["path"]).relative_to(self).as_posix(), stat_of(entry))

    def listed(self) -> ListedFile:
        return self._listed("", self.stat())

    def open_below(self, below: str) -> IO[bytes]:
        return (self / below).open_for_reading()

    # A store syncs by itself what it has answered to, and leaves no temporary files.

    def sync_file(self) -> None: ...

    def sync_folder(self) -> None: ...

    def sweep(self) -> None: ...

    def exclusive(self, run: str, *, patience: timedelta = timedelta(0)) -> AbstractContextManager[Any]:
        return leased(self, run, patience=patience)

    def is_held(self) -> bool:
        return is_leased(self)

    def _listed(self, below: str, stat: ObjectStat) -> ListedFile:
        return ListedFile(self, below, stat.st_size, stat.st_mtime_ns, tag=stat.e_tag)

    @property
    def _prefix(self) -> str | None:
        return f"{self.key}/" if self.key else None

    def _objects(self) -> Iterator[Mapping[str, Any]]:
        with store_errors(self):
            for entries in obstore.list(self.client, prefix=self._prefix):
                for entry in entries:
                    if not self._at(entry["path"])._stands_for_folder(entry):
                        yield entry

    def _stands_for_folder(self, entry: Mapping[str, Any]) -> bool:
        """Whether this object of a listing is Hadoop's folder marker. The listing drops the slash at the end of its name."""
        # The marker's own key ends in a slash, so there is no object at the listed name.
        return entry["size"] == 0 and not self.is_file()
