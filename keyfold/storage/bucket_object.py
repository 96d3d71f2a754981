"""Objects of buckets: the requests of the store's client, with errors in one line and without secrets."""

import io
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from keyfold.errors import Misconfigured
from keyfold.lazy_names import from_extra
from keyfold.storage.bucket_name import BucketName
from keyfold.storage.providers import GOOGLE, Provider
from keyfold.storage.store_failures import StoreError

if TYPE_CHECKING:
    import obstore
else:
    (obstore,) = from_extra("buckets", "obstore")

_LONGEST = 300
_NO_BUCKET = re.compile("NoSuchBucket|ContainerNotFound|The specified bucket does not exist")


class ObjectStat(NamedTuple):
    """An object's entry in a listing.

    Attributes:
        st_size: size in bytes.
        st_mtime_ns: when it was written, in nanoseconds since 1970, by the store's clock.
        e_tag: the tag of its content; empty if the store has none.
    """

    st_size: int
    st_mtime_ns: int
    e_tag: str


class BucketObject(BucketName):
    """An object, which is there or not."""

    __slots__ = ()

    def stat(self) -> ObjectStat:
        """Return the object's entry.

        Raises:
            FileNotFoundError: there is no such object.
        """
        return stat_of(self._head())

    def read_bytes(self) -> bytes:
        return self.read_with_tag()[0]

    def read_with_tag(self) -> tuple[bytes, str]:
        """Read the object, and its tag for `write_if_unchanged`.

        Raises:
            FileNotFoundError: there is no such object.
        """
        with store_errors(self):
            answer = obstore.get(self.client, self.key)
            return bytes(answer.bytes()), stat_of(answer.meta).e_tag

    def write_bytes(self, content: bytes) -> int:
        with store_errors(self):
            obstore.put(self.client, self.key, content)
        return len(content)

    def create(self, content: bytes) -> str:
        """Write the object if it does not exist, and return its tag.

        Raises:
            FileExistsError: it exists. It may be of another process, or of an earlier try of this one whose answer was lost.
        """
        return self._put(content, "create")

    def write_if_unchanged(self, content: bytes, tag: str) -> str:
        """Write the object if it still has this tag, and return its new tag.

        Raises:
            FileExistsError: it was written or deleted since.
        """
        condition: obstore.UpdateVersion = {"e_tag": tag}
        try:
            if self.provider is GOOGLE:
                # Its conditions are on the number of an object's generation, which listings do not have.
                entry = self._head()
                if stat_of(entry).e_tag != tag:
                    raise FileExistsError(str(self))
                condition["version"] = entry["version"]
            return self._put(content, condition)
        except FileNotFoundError:
            raise FileExistsError(str(self)) from None

    def unlink(self, *, missing_ok: bool = False) -> None:
        # S3 deletes an object that does not exist without an error.
        if not missing_ok:
            self.stat()
        self.delete(self.key)

    def delete(self, keys: str | list[str]) -> None:
        """Delete objects of this bucket; those that do not exist are left out."""
        with suppress(FileNotFoundError), store_errors(self):
            obstore.delete(self.client, keys)

    @property
    def client(self) -> Any:
        """The client of the bucket, configured by the environment."""
        return _client(self.provider, self.bucket, os.getpid(), self.provider.address)

    def _head(self) -> Mapping[str, Any]:
        with store_errors(self):
            return obstore.head(self.client, self.key)

    def _put(self, content: bytes, mode: Any) -> str:
        try:
            with store_errors(self):
                return str(obstore.put(self.client, self.key, content, mode=mode)["e_tag"])
        except (obstore.exceptions.AlreadyExistsError, obstore.exceptions.PreconditionError):
            raise FileExistsError(str(self)) from None


class ObjectReader(io.RawIOBase):
    """Reads an object by ranges, of at least `read_ahead` bytes."""

    def __init__(self, read: BucketObject, read_ahead: int) -> None:
        super().__init__()
        self._object = read
        with store_errors(read):
            self._file = obstore.open_reader(read.client, read.key, buffer_size=read_ahead)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._file.tell()

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def readinto(self, buffer: Any) -> int:
        with store_errors(self._object):
            content = memoryview(self._file.read(len(buffer)))
        buffer[: len(content)] = content
        return len(content)


def stat_of(entry: Mapping[str, Any]) -> ObjectStat:
    """Return what an entry of the client says, in one form for all stores."""
    tag = entry.get("e_tag") or ""
    # Azure's listings have it without the quotes that its other answers, and conditions, have.
    if tag and not tag.endswith('"'):
        tag = f'"{tag}"'
    return ObjectStat(entry["size"], int(entry["last_modified"].timestamp() * 1e9), tag)


@contextmanager
def store_errors(name: BucketName) -> Iterator[None]:
    """Turn errors of the store's client into OSErrors with one line of text and no secrets."""
    try:
        yield
    except (obstore.exceptions.AlreadyExistsError, obstore.exceptions.PreconditionError):
        raise  # failed conditions are not failures of the store: callers handle them
    except (obstore.exceptions.BaseError, OSError) as error:
        check_bucket_exists(name, error)
        if isinstance(error, FileNotFoundError):
            raise FileNotFoundError(f"{name} is not there") from None
        said = name.provider.without_secrets(str(error))
        # The client's error may have secrets in its text and its causes, so it is dropped.
        failure = StoreError(f"a request to the object store failed for {name}: {said[:_LONGEST]}")
        failure.place = str(name)
        raise failure from None


def check_bucket_exists(name: BucketName, error: Exception) -> None:
    """Check that an error of the client does not mean that there is no such bucket.

    Raises:
        Misconfigured: it does.
    """
    if _NO_BUCKET.search(str(error)):
        raise Misconfigured(
            f"{name}: {name.provider.shown} has no bucket {name.bucket}; create it, or name another"
        ) from None


@cache
def _client(provider: Provider, bucket: str, process: int, address: str) -> Any:
    # Each process has its own: connections survive no fork.
    return provider.store(bucket, retries={"max_retries": 8})
