"""Paths of objects in the buckets of a provider (`providers`).

Keyfold relies on these differences from a file system:

- An object is written whole or not at all, and durably. So nothing is synced or written to a temporary name first.
- There are no folders: a folder exists while an object is below it, and `mkdir` does nothing. Hadoop marks folders by empty
  objects whose names end in a slash; they are ignored.
- `create` succeeds only if the object does not exist, and `write_if_unchanged` only if it is still the version that was read
  (conditional writes of the store).
"""

import fnmatch
import io
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import PurePosixPath
from typing import IO, TYPE_CHECKING, Any, Self

from keyfold.errors import Misconfigured
from keyfold.lazy_names import from_extra
from keyfold.storage.providers import FORMS, GOOGLE, PROVIDERS, Provider
from keyfold.storage.remote_path import ObjectStat, RangeReader, RemotePath, StoreError

if TYPE_CHECKING:
    import obstore
else:
    (obstore,) = from_extra("buckets", "obstore")

_LONGEST = 300
NO_BUCKET = re.compile("NoSuchBucket|ContainerNotFound|The specified bucket does not exist")


class ObjectPath(RemotePath):
    """A path in a bucket."""

    __slots__ = ()

    def __init__(self, url: str) -> None:
        scheme, _, rest = url.partition("://")
        bucket, _, key = rest.partition("/")
        if scheme not in PROVIDERS or not bucket:
            raise Misconfigured(f"{url} is not a path in a bucket; write {FORMS}")
        super().__init__(f"{PROVIDERS[scheme].scheme}://{bucket}", key)
        if ".." in self._key.parts:
            raise Misconfigured(f"{url} contains `..`, which an object store does not have; write the path without it")

    @property
    def bucket(self) -> str:
        return self._root.partition("://")[2]

    @property
    def provider(self) -> Provider:
        return PROVIDERS[self._root.partition("://")[0]]

    @property
    def what_reaches_it(self) -> str:
        return (
            f"The environment variables {self.provider.needed}, and {self.provider.endpoint} for a store of one's own, must name "
            "a running store and a user that may write there"
        )

    @property
    def url(self) -> str:
        """The URL in the form that Delta's library takes."""
        return f"{self.provider.url_scheme}://{self.bucket}/{self.key}"

    def read_bytes(self) -> bytes:
        """Read the object.

        Raises:
            FileNotFoundError: there is no such object.
        """
        with _store_errors(self):
            return bytes(obstore.get(self._store, self.key).bytes())

    def read_with_tag(self) -> tuple[bytes, str]:
        """Read the object, and its tag for `write_if_unchanged`."""
        with _store_errors(self):
            found = obstore.get(self._store, self.key)
            return bytes(found.bytes()), _stat(found.meta).e_tag or ""

    def read_text(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return self.read_bytes().decode(encoding, errors)

    def write_text(self, text: str, encoding: str = "utf-8") -> int:
        return self.write_bytes(text.encode(encoding))

    def write_bytes(self, content: bytes) -> int:
        """Write or replace the object."""
        with _store_errors(self):
            obstore.put(self._store, self.key, content)
        return len(content)

    def write_from(self, file: IO[bytes]) -> None:
        """Write the object from a file, from its current position on; a large one in parts."""
        with _store_errors(self):
            obstore.put(self._store, self.key, file)

    def create(self, content: bytes) -> str:
        """Write the object if it does not exist, and return its tag.

        Raises:
            FileExistsError: it exists. It may be of another process, or of an earlier try of this one whose answer was lost.
        """
        try:
            with _store_errors(self):
                return str(obstore.put(self._store, self.key, content, mode="create")["e_tag"])
        except obstore.exceptions.AlreadyExistsError:
            raise FileExistsError(str(self)) from None

    def write_if_unchanged(self, content: bytes, tag: str) -> str:
        """Write the object if it still has this tag, and return its new tag.

        Raises:
            FileExistsError: it was written or deleted since.
        """
        mode: obstore.UpdateVersion = {"e_tag": tag}
        try:
            if self.provider is GOOGLE:
                # Its conditions are on the number of an object's generation, which listings do not have.
                found = self._head()
                if _stat(found).e_tag != tag:
                    raise FileExistsError(str(self))
                mode["version"] = found["version"]
            with _store_errors(self):
                return str(obstore.put(self._store, self.key, content, mode=mode)["e_tag"])
        except (obstore.exceptions.PreconditionError, FileNotFoundError):
            raise FileExistsError(str(self)) from None

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

    def stat(self) -> ObjectStat:
        return _stat(self._head())

    def iterdir(self) -> Iterator[Self]:
        """Yield the objects and folders directly below."""
        with _store_errors(self):
            listed = obstore.list_with_delimiter(self._store, prefix=f"{self.key}/" if self.key else None)
        for found in listed["objects"]:
            path = self._at(PurePosixPath(found["path"]))
            if not _stands_for_folder(path, found):
                yield path
        for folder in listed["common_prefixes"]:
            path = self._at(PurePosixPath(folder))
            # Below a prefix there may be only a marker.
            if path.is_dir():
                yield path

    def glob(self, pattern: str) -> Iterator[Self]:
        """Yield objects and folders below that match a pattern. `*` matches within one name."""
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
        """Yield objects at any depth below whose name matches a pattern."""
        for path, _ in self.below():
            if fnmatch.fnmatchcase(path.name, pattern):
                yield path

    def below(self) -> Iterator[tuple[Self, ObjectStat]]:
        """Yield objects at any depth below, each with its entry in the listing."""
        for found in self._objects():
            yield self._at(PurePosixPath(found["path"])), _stat(found)

    def mkdir(self, mode: int = 0o777, *, parents: bool = False, exist_ok: bool = False) -> None:
        """Do nothing: a folder exists once an object is in it."""

    def unlink(self, *, missing_ok: bool = False) -> None:
        # S3 deletes an object that does not exist without an error.
        if not missing_ok:
            self.stat()
        self._delete(self.key)

    def remove_tree(self) -> None:
        """Remove the path and everything below it."""
        keys = [found["path"] for found in self._objects()]
        # A request deletes at most 1,000 objects.
        for at in range(0, len(keys), 1000):
            self._delete(keys[at : at + 1000])
        # The folder's own marker, if Hadoop has made one.
        if self.key:
            self._delete(self.key)

    def copy_to(self, other: "ObjectPath") -> None:
        """Copy the object within its store."""
        with _store_errors(self):
            obstore.copy(self._store, self.key, other.key)

    def open_reader(self, read_ahead: int = 64 << 10) -> IO[bytes]:
        """Open a seekable file that fetches ranges as they are read, at least `read_ahead` bytes at a time."""
        with _store_errors(self):
            return io.BufferedReader(_Reader(self), read_ahead)

    def _objects(self) -> Iterator[Mapping[str, Any]]:
        with _store_errors(self):
            for some in obstore.list(self._store, prefix=f"{self.key}/" if self.key else None):
                for found in some:
                    if not _stands_for_folder(self._at(PurePosixPath(found["path"])), found):
                        yield found

    def _head(self) -> Mapping[str, Any]:
        with _store_errors(self):
            return obstore.head(self._store, self.key)

    def _delete(self, keys: str | list[str]) -> None:
        with suppress(FileNotFoundError), _store_errors(self):
            obstore.delete(self._store, keys)

    @property
    def _store(self) -> Any:
        return _store(self.provider, self.bucket, os.getpid(), self.provider.address)


class _Reader(RangeReader):
    """Reads an object by ranges."""

    def __init__(self, path: ObjectPath) -> None:
        self._path = path
        super().__init__(path.stat().st_size)

    def _range(self, start: int, end: int) -> bytes:
        with _store_errors(self._path):
            return bytes(obstore.get_range(self._path._store, self._path.key, start=start, end=end))


def _stands_for_folder(path: ObjectPath, found: Mapping[str, Any]) -> bool:
    """Whether a listed object is Hadoop's folder marker. The listing drops the slash at the end of its name."""
    # The marker's own key ends in a slash, so there is no object at the listed name.
    return found["size"] == 0 and not path.is_file()


@contextmanager
def _store_errors(path: ObjectPath) -> Iterator[None]:
    """Turn errors of the store's client into OSErrors with one line of text and no secrets."""
    try:
        yield
    except (obstore.exceptions.AlreadyExistsError, obstore.exceptions.PreconditionError):
        raise  # failed conditions are not failures of the store: callers handle them
    except (obstore.exceptions.BaseError, OSError) as error:
        if NO_BUCKET.search(str(error)):
            raise Misconfigured(
                f"{path}: {path.provider.shown} has no bucket {path.bucket}; create it, or name another"
            ) from None
        if isinstance(error, FileNotFoundError):
            raise FileNotFoundError(f"{path} is not there") from None
        # The client's error may have secrets in its text and its causes, so it is dropped.
        failed = StoreError(_line(path, error))
        failed.place = str(path)
        raise failed from None


def _line(path: ObjectPath, error: Exception) -> str:
    said = path.provider.without_secrets(str(error))
    return f"a request to the object store failed for {path}: {said[:_LONGEST]}"


def _stat(found: Mapping[str, Any]) -> ObjectStat:
    tag = found.get("e_tag")
    # Azure's listings have it without the quotes that its other answers, and conditions, have.
    if tag and not tag.endswith('"'):
        tag = f'"{tag}"'
    return ObjectStat(found["size"], int(found["last_modified"].timestamp() * 1e9), tag)


@cache
def _store(provider: Provider, bucket: str, process: int, address: str) -> Any:
    """Return the client of a bucket, configured by the environment. Each process has its own: connections survive no fork."""
    return provider.store(bucket, retries={"max_retries": 8})
