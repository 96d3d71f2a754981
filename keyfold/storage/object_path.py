"""An object store's keys as paths.

What differs from a file system, and is relied on:

- an object is written whole or not at all, and stays; so there is nothing to sync, and no writing aside.
- there are no folders: one "is there" while something lies below it. Making one does nothing. Hadoop writes empty objects
  to stand for folders, by names that end in a slash; they are passed over, and count for nothing.
- `create` writes only where nothing is yet, in one step of the store (a conditional write).
"""

import io
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import PurePosixPath
from typing import IO, TYPE_CHECKING, Any, ClassVar, Self

from keyfold.errors import Misconfigured
from keyfold.extras import from_extra
from keyfold.storage.range_reader import RangeReader
from keyfold.storage.remote_path import READ_AHEAD, Check, ObjectStat, RemotePath, StoreError

if TYPE_CHECKING:
    import obstore
    from obstore.store import S3Store
else:
    (obstore,) = from_extra("s3", "obstore")
    (S3Store,) = from_extra("s3", "obstore.store", "S3Store")

SCHEMES = ("s3", "s3a")

_SECRETS = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID")
_LONGEST = 300


class ObjectPath(RemotePath):
    """A place in a bucket."""

    __slots__ = ()

    what_reaches_it: ClassVar[str] = (
        "The AWS_... variables of the environment (AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY) "
        "must name a store that runs, and a user that may write there"
    )

    def __init__(self, url: str) -> None:
        scheme, _, rest = url.partition("://")
        bucket, _, key = rest.partition("/")
        if scheme not in SCHEMES or not bucket:
            raise Misconfigured(f"{url} is no place in a bucket; write s3a://BUCKET/FOLDER")
        super().__init__(f"s3a://{bucket}", key)
        if ".." in self._key.parts:
            raise Misconfigured(f"{url} goes up by ..; an object store has no folder above")

    @property
    def bucket(self) -> str:
        return self._root.removeprefix("s3a://")

    @property
    def url(self) -> str:
        """Its URL as Delta's own library takes it."""
        return f"s3://{self.bucket}/{self.key}"

    def read_bytes(self) -> bytes:
        with _told(self):
            return bytes(obstore.get(self._store, self.key).bytes())

    def read_with_tag(self) -> tuple[bytes, str]:
        with _told(self):
            found = obstore.get(self._store, self.key)
            return bytes(found.bytes()), str(found.meta["e_tag"])

    def write_bytes(self, content: bytes) -> int:
        with _told(self):
            obstore.put(self._store, self.key, content)
        return len(content)

    def write_from(self, file: IO[bytes]) -> None:
        with _told(self):
            obstore.put(self._store, self.key, file)

    def create(self, content: bytes) -> str:
        try:
            with _told(self):
                return str(obstore.put(self._store, self.key, content, mode="create")["e_tag"])
        except obstore.exceptions.AlreadyExistsError:
            raise FileExistsError(str(self)) from None

    def write_if_unchanged(self, content: bytes, tag: str) -> str:
        try:
            with _told(self):
                return str(obstore.put(self._store, self.key, content, mode={"e_tag": tag})["e_tag"])
        except (obstore.exceptions.PreconditionError, FileNotFoundError):
            raise FileExistsError(str(self)) from None

    def exists(self) -> bool:
        """Whether it is an object, or there is one below it."""
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
        with _told(self):
            return _stat(obstore.head(self._store, self.key))

    def iterdir(self) -> Iterator[Self]:
        """What lies directly below it: objects, and folders that have some."""
        with _told(self):
            listed = obstore.list_with_delimiter(self._store, prefix=f"{self.key}/" if self.key else None)
        for found in listed["objects"]:
            path = self._at(PurePosixPath(found["path"]))
            if not _stands_for_folder(path, found):
                yield path
        for folder in listed["common_prefixes"]:
            path = self._at(PurePosixPath(folder))
            if path.is_dir():
                yield path

    def below(self) -> Iterator[tuple[Self, ObjectStat]]:
        for found in self._objects():
            yield self._at(PurePosixPath(found["path"])), _stat(found)

    def mkdir(self, mode: int = 0o777, *, parents: bool = False, exist_ok: bool = False) -> None:
        """Nothing: a folder is there once something is in it."""

    def unlink(self, *, missing_ok: bool = False) -> None:
        if not missing_ok:
            self.stat()
        with _told(self):
            obstore.delete(self._store, self.key)

    def remove_tree(self) -> None:
        keys = [found["path"] for found in self._objects()]
        with _told(self):
            for at in range(0, len(keys), 1000):
                obstore.delete(self._store, keys[at : at + 1000])
            if self.key:
                obstore.delete(self._store, self.key)

    def copy_to(self, other: RemotePath) -> None:
        with _told(self):
            obstore.copy(self._store, self.key, other.key)

    def move_tree_to(self, other: RemotePath, last: str, check: Check) -> None:
        """File by file, by the store itself: who looks for the file called `last` finds either folder whole, or both."""
        files = sorted((path for path, _ in self.below()), key=lambda path: path == self / last)
        for path in files:
            check()
            path.copy_to(other / path.relative_to(self))
        for path in reversed(files):
            check()
            path.unlink(missing_ok=True)

    def move_file_to(self, other: RemotePath) -> None:
        """For a moment it is in both places."""
        self.copy_to(other)
        self.unlink(missing_ok=True)

    def open_reader(self, read_ahead: int = READ_AHEAD) -> IO[bytes]:
        with _told(self):
            return io.BufferedReader(_Reader(self), read_ahead)

    def _objects(self) -> Iterator[Mapping[str, Any]]:
        with _told(self):
            for some in obstore.list(self._store, prefix=f"{self.key}/" if self.key else None):
                for found in some:
                    if not _stands_for_folder(self._at(PurePosixPath(found["path"])), found):
                        yield found

    @property
    def _store(self) -> S3Store:
        return _store(self.bucket, os.getpid(), os.environ.get("AWS_ENDPOINT_URL", ""))


class _Reader(RangeReader):
    """An object."""

    def __init__(self, path: ObjectPath) -> None:
        self._path = path
        super().__init__(path.stat().st_size)

    def _range(self, start: int, end: int) -> bytes:
        with _told(self._path):
            return bytes(obstore.get_range(self._path._store, self._path.key, start=start, end=end))


def _stands_for_folder(path: ObjectPath, found: Mapping[str, Any]) -> bool:
    """Whether it is there under its name and a slash alone, which the listing does not show."""
    return found["size"] == 0 and not path.is_file()


@contextmanager
def _told(path: ObjectPath) -> Iterator[None]:
    """Let what the store says of its trouble out as what disks say: an OSError, in a line, without secrets."""
    try:
        yield
    except (obstore.exceptions.AlreadyExistsError, obstore.exceptions.PreconditionError):
        raise
    except (obstore.exceptions.BaseError, OSError) as error:
        if "NoSuchBucket" in str(error):
            raise Misconfigured(
                f"{path}: there is no bucket {path.bucket} in the object store that AWS_ENDPOINT_URL and AWS_REGION name; "
                "make it, or name another"
            ) from None
        if isinstance(error, FileNotFoundError):
            raise FileNotFoundError(f"{path} is not there") from None
        failed = StoreError(_line(path, error))
        failed.place = str(path)
        raise failed from None


def _line(path: ObjectPath, error: Exception) -> str:
    said = " ".join(str(error).split("\n\nDebug source:")[0].split())
    for name in _SECRETS:
        if secret := os.environ.get(name):
            said = said.replace(secret, "(hidden)")
    return f"the object store did not do what was asked of it for {path}: {said[:_LONGEST]}"


def _stat(found: Mapping[str, Any]) -> ObjectStat:
    return ObjectStat(found["size"], int(found["last_modified"].timestamp() * 1e9), found.get("e_tag"))


@cache
def _store(bucket: str, process: int, endpoint: str) -> S3Store:
    """The bucket's store, by the settings of the environment; one a process, since connections do not survive a fork."""
    allow_http = endpoint.startswith("http://")
    return S3Store(bucket, client_options={"allow_http": allow_http}, retry_config={"max_retries": 8})
