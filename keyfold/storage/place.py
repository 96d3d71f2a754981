"""`Place`: a path on a file system of this machine, or in a bucket of an object store."""

import re
from pathlib import Path, PurePath, PurePosixPath
from typing import NamedTuple

from keyfold.errors import Misconfigured
from keyfold.storage.object_path import ObjectPath
from keyfold.storage.providers import FORMS, PROVIDERS

Place = Path | ObjectPath

# One slash, since Path turns gs://bucket into gs:/bucket.
_URL = re.compile(r"([a-z][a-z0-9+.-]+):/")


def to_place(text: str | Place) -> Place:
    """Parse a path, or the URL of a folder in a bucket: `s3://` (or `s3a://`), `gs://` or `az://`.

    Raises:
        Misconfigured: the URL has another scheme, has no bucket, or contains `..`.

    Example:
        >>> to_place("s3://lake/home")
        ObjectPath('s3a://lake/home')
    """
    if isinstance(text, ObjectPath):
        return text
    if isinstance(text, str) and is_in_bucket(text):
        return ObjectPath(text)
    if url := _URL.match(str(text)):
        raise Misconfigured(
            f"{text}: Keyfold reads and writes folders and buckets ({FORMS}), but not {url[1]}://. Mount that file system as a "
            "folder (on a cluster, at the same path on all nodes), or use a gateway to it"
        )
    return Path(text)


def is_in_bucket(text: str) -> bool:
    """Whether a text is the URL of a place in a bucket.

    Example:
        >>> is_in_bucket("gs://lake/home"), is_in_bucket("kafka://rides"), is_in_bucket("/data/rides")
        (True, False, False)
    """
    return "://" in text and text.partition("://")[0] in PROVIDERS


def path_below(place: Place, folder: Place) -> PurePath | None:
    """Return the path of a place relative to a folder; None if it is not below it.

    Example:
        >>> path_below(to_place("s3a://lake/home/landing/rides"), to_place("s3a://lake/home"))
        PurePosixPath('landing/rides')
    """
    if isinstance(place, ObjectPath) and isinstance(folder, ObjectPath):
        return place.relative_to(folder) if place.is_relative_to(folder) else None
    if isinstance(place, Path) and isinstance(folder, Path):
        return place.relative_to(folder) if place.is_relative_to(folder) else None
    return None


def stays_below(path: str) -> bool:
    """Whether a relative path, as a record has it, names something below its folder on any system.

    Example:
        >>> [stays_below(path) for path in ("part-1.parquet", "_staged/a b", "../a", "/etc/passwd", "a/../../b")]
        [True, True, False, False, False]
    """
    parts = PurePosixPath(path).parts
    return bool(parts) and not path.startswith("/") and ".." not in parts and "\\" not in path and "\0" not in path


def local_path(place: Place) -> Path | None:
    """Return the path by which programs of this machine open a place; None where none leads there.

    Example:
        >>> local_path(to_place("s3a://lake/home")) is None
        True
    """
    return place if isinstance(place, Path) else None


def namespace_and_name(place: Place) -> tuple[str, str]:
    """Return the names of a place in a catalog, by the conventions of OpenLineage.

    Example:
        >>> namespace_and_name(to_place("s3a://lake/home/tables/rides"))
        ('s3://lake', 'home/tables/rides')
    """
    if isinstance(place, ObjectPath):
        return f"{place.provider.url_scheme}://{place.bucket}", place.key
    return "file", str(place.absolute())


def as_source(place: Place) -> Path | str:
    """Return a place as Polars and Delta's library take it: a path, or a URL."""
    return place if isinstance(place, Path) else place.url


class FoundFile(NamedTuple):
    """A file below a folder.

    Attributes:
        folder: the listed folder, or the file itself.
        below: the path below the folder; empty for the file itself.
        bytes: its size.
        changed_at: time of its last change, in nanoseconds since 1970.
        tag: the store's tag (ETag) of its content; empty on a disk.
    """

    folder: Place
    below: str
    bytes: int
    changed_at: int
    tag: str = ""

    @property
    def path(self) -> Place:
        """The file's path, made on demand, since there may be thousands of files."""
        return self.folder / self.below if self.below else self.folder


def found_at(path: Place) -> FoundFile:
    """Return the entry of a file as a listing of its folder would have it.

    Raises:
        FileNotFoundError: there is no such file.
    """
    status = path.stat()
    return FoundFile(path, "", status.st_size, status.st_mtime_ns, tag=getattr(status, "e_tag", None) or "")
