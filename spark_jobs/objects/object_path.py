"""An object store's keys as paths: as much of `pathlib.Path` as a home's files need, so that one code serves both.

What differs from a file system, and is relied on:

- an object is written whole or not at all, and stays; so there is nothing to sync, and no writing aside.
- there are no folders: one "is there" while something lies below it. Making one does nothing. Hadoop writes empty objects
  to stand for folders, by names that end in a slash; they are passed over, and count for nothing.
- `create` writes only where nothing is yet, in one step of the store (a conditional write).
"""

import fnmatch
import io
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import PurePosixPath
from typing import IO, Any, NamedTuple

import obstore
from obstore.store import S3Store

from spark_jobs.errors import KeyfoldError

SCHEMES = ("s3", "s3a")

_SECRETS = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID")
_LONGEST = 300
_READ_AHEAD = 64 << 10


class StoreError(OSError):
    """The store has failed, is not reached, or refuses: no fault of the object's.

    Attributes:
        place: what `check_reachable` may look at, to say what is wrong with the settings.
    """

    place: str = ""


class ObjectStat(NamedTuple):
    """What a listing tells of an object.

    Attributes:
        st_size: bytes.
        st_mtime_ns: when it was written, nanoseconds since 1970, by the store's clock.
        e_tag: of its content.
    """

    st_size: int
    st_mtime_ns: int
    e_tag: str | None


class ObjectPath:
    """A place in a bucket. Compares, hashes, sorts and pickles by its URL."""

    __slots__ = ("_key", "bucket")

    def __init__(self, url: str) -> None:
        scheme, _, rest = url.partition("://")
        bucket, _, key = rest.partition("/")
        if scheme not in SCHEMES or not bucket:
            raise KeyfoldError(f"{url} is no place in a bucket; write s3a://BUCKET/FOLDER")
        self.bucket = bucket
        self._key = PurePosixPath(key)
        if ".." in self._key.parts:
            raise KeyfoldError(f"{url} goes up by ..; an object store has no folder above")

    def __str__(self) -> str:
        return f"s3a://{self.bucket}/{self.key}" if self.key else f"s3a://{self.bucket}"

    def __repr__(self) -> str:
        return f"ObjectPath({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectPath) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __lt__(self, other: "ObjectPath") -> bool:
        return str(self) < str(other)

    def __reduce__(self) -> tuple[Any, ...]:
        return ObjectPath, (str(self),)

    def __truediv__(self, name: "str | PurePosixPath") -> "ObjectPath":
        return self._at(self._key / name)

    @property
    def key(self) -> str:
        """Its key in the bucket."""
        return "" if self._key == PurePosixPath() else str(self._key)

    @property
    def url(self) -> str:
        """Its URL as Delta's own library takes it."""
        return f"s3://{self.bucket}/{self.key}"

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
    def parent(self) -> "ObjectPath":
        return self._at(self._key.parent)

    @property
    def parents(self) -> "tuple[ObjectPath, ...]":
        return tuple(self._at(parent) for parent in self._key.parents)

    @property
    def parts(self) -> tuple[str, ...]:
        return self._key.parts

    def with_name(self, name: str) -> "ObjectPath":
        return self._at(self._key.with_name(name))

    def relative_to(self, other: "ObjectPath") -> PurePosixPath:
        if self.bucket != other.bucket:
            raise ValueError(f"{self} is not below {other}")
        return self._key.relative_to(other._key)

    def is_relative_to(self, other: "ObjectPath") -> bool:
        return self.bucket == other.bucket and self._key.is_relative_to(other._key)

    def as_posix(self) -> str:
        return str(self)

    def as_uri(self) -> str:
        return str(self)

    def expanduser(self) -> "ObjectPath":
        return self

    def resolve(self) -> "ObjectPath":
        return self

    def read_bytes(self) -> bytes:
        """The object's content.

        Raises:
            FileNotFoundError: it is not there.
        """
        with _told(self):
            return bytes(obstore.get(self._store, self.key).bytes())

    def read_text(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return self.read_bytes().decode(encoding, errors)

    def read_with_tag(self) -> tuple[bytes, str]:
        """The object's content, and the tag that `write_if_unchanged` takes."""
        with _told(self):
            found = obstore.get(self._store, self.key)
            return bytes(found.bytes()), str(found.meta["e_tag"])

    def write_bytes(self, content: bytes) -> int:
        """Write the object, whole, in the place of the one before it."""
        with _told(self):
            obstore.put(self._store, self.key, content)
        return len(content)

    def write_from(self, file: IO[bytes]) -> None:
        """Write the object with what a file holds from where it stands, in parts where it is large."""
        with _told(self):
            obstore.put(self._store, self.key, file)

    def write_text(self, text: str, encoding: str = "utf-8") -> int:
        return self.write_bytes(text.encode(encoding))

    def create(self, content: bytes) -> str:
        """Write the object unless there is one; gives its tag.

        Raises:
            FileExistsError: there is one, perhaps somebody else's, perhaps this very one: of a write whose answer was
                lost nobody knows.
        """
        try:
            with _told(self):
                return str(obstore.put(self._store, self.key, content, mode="create")["e_tag"])
        except obstore.exceptions.AlreadyExistsError:
            raise FileExistsError(str(self)) from None

    def write_if_unchanged(self, content: bytes, tag: str) -> str:
        """Write the object if it still is the one that has this tag; gives the new one.

        Raises:
            FileExistsError: somebody has written it since, or taken it away.
        """
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

    def is_symlink(self) -> bool:
        return False

    def stat(self) -> ObjectStat:
        with _told(self):
            return _stat(obstore.head(self._store, self.key))

    def iterdir(self) -> "Iterator[ObjectPath]":
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

    def glob(self, pattern: str) -> "Iterator[ObjectPath]":
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

    def rglob(self, pattern: str) -> "Iterator[ObjectPath]":
        """Objects at any depth below it, by their name."""
        for found in self._objects():
            path = self._at(PurePosixPath(found["path"]))
            if fnmatch.fnmatchcase(path.name, pattern):
                yield path

    def below(self) -> "Iterator[tuple[ObjectPath, ObjectStat]]":
        """Objects at any depth below it, each with what the listing tells of it."""
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
        """Remove it and all that lies below it."""
        keys = [found["path"] for found in self._objects()]
        with _told(self):
            for at in range(0, len(keys), 1000):
                obstore.delete(self._store, keys[at : at + 1000])
            if self.key:
                obstore.delete(self._store, self.key)

    def copy_to(self, other: "ObjectPath") -> None:
        """Copy it within its bucket, by the store itself."""
        with _told(self):
            obstore.copy(self._store, self.key, other.key)

    def open_reader(self, read_ahead: int = _READ_AHEAD) -> IO[bytes]:
        """A seekable file that fetches what is read of it, so many bytes at least at a time."""
        with _told(self):
            return io.BufferedReader(_Reader(self), read_ahead)

    def _objects(self) -> Iterator[Mapping[str, Any]]:
        with _told(self):
            for some in obstore.list(self._store, prefix=f"{self.key}/" if self.key else None):
                for found in some:
                    if not _stands_for_folder(self._at(PurePosixPath(found["path"])), found):
                        yield found

    def _at(self, key: PurePosixPath) -> "ObjectPath":
        made = ObjectPath.__new__(ObjectPath)
        made.bucket, made._key = self.bucket, key
        return made

    @property
    def _store(self) -> S3Store:
        return _store(self.bucket, os.getpid(), os.environ.get("AWS_ENDPOINT_URL", ""))


class _Reader(io.RawIOBase):
    """An object's bytes as Python's own files have them, each read of a range of its own."""

    def __init__(self, path: ObjectPath) -> None:
        super().__init__()
        self._path, self._at, self._size = path, 0, path.stat().st_size

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
        with _told(self._path):
            found = bytes(obstore.get_range(self._path._store, self._path.key, start=self._at, end=end))
        buffer[: len(found)] = found
        self._at += len(found)
        return len(found)


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
            raise KeyfoldError(
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
