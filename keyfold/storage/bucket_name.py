"""Names in a bucket: the part of `pathlib.PurePosixPath` that Keyfold uses, for URLs."""

from pathlib import PurePosixPath
from typing import Any, Self

from keyfold.errors import Misconfigured
from keyfold.storage.providers import FORMS, PROVIDERS, Provider


class BucketName:
    """The URL of a place in a bucket, by which it is compared, hashed, sorted and pickled."""

    __slots__ = ("_key", "_root")

    _root: str
    _key: PurePosixPath

    def __init__(self, url: str) -> None:
        """Parse a URL.

        Raises:
            Misconfigured: it has another scheme, has no bucket, or contains `..`.
        """
        scheme, _, rest = url.partition("://")
        bucket, _, key = rest.partition("/")
        if scheme not in PROVIDERS or not bucket:
            raise Misconfigured(f"{url} is not a path in a bucket; write {FORMS}")
        self._root, self._key = f"{PROVIDERS[scheme].scheme}://{bucket}", PurePosixPath(key)
        if ".." in self._key.parts:
            raise Misconfigured(f"{url} contains `..`, which an object store does not have; write the path without it")

    def __str__(self) -> str:
        return f"{self._root}/{self.key}" if self.key else self._root

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BucketName) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __lt__(self, other: "BucketName") -> bool:
        return str(self) < str(other)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self),)

    def __truediv__(self, name: str | PurePosixPath) -> Self:
        return self._at(self._key / name)

    @property
    def provider(self) -> Provider:
        return PROVIDERS[self._root.partition("://")[0]]

    @property
    def bucket(self) -> str:
        return self._root.partition("://")[2]

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

    def relative_to(self, other: "BucketName") -> PurePosixPath:
        if not self.shares_bucket_with(other):
            raise ValueError(f"{self} is not below {other}")
        return self._key.relative_to(other._key)

    def is_relative_to(self, other: "BucketName") -> bool:
        return self.shares_bucket_with(other) and self._key.is_relative_to(other._key)

    def shares_bucket_with(self, other: object) -> bool:
        """Whether another place is in the same bucket."""
        return isinstance(other, BucketName) and self._root == other._root

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

    def _at(self, key: str | PurePosixPath) -> Self:
        # Without __init__, whose checks of the URL this place has passed already.
        place = object.__new__(type(self))
        place._root, place._key = self._root, PurePosixPath(key)
        return place
