"""`Place`: a path on a file system of this machine, or in a bucket of an object store."""

import re
from pathlib import Path, PurePath, PurePosixPath

from keyfold.errors import Misconfigured
from keyfold.storage.bucket_path import BucketPath
from keyfold.storage.disk_path import DiskPath
from keyfold.storage.providers import FORMS, PROVIDERS

Place = DiskPath | BucketPath

# One slash, since Path turns gs://bucket into gs:/bucket.
_URL = re.compile(r"([a-z][a-z0-9+.-]+):/")


def to_place(text: str | Path | Place) -> Place:
    """Parse a path, or the URL of a folder in a bucket: `s3://` (or `s3a://`), `gs://` or `az://`.

    Raises:
        Misconfigured: the URL has another scheme, has no bucket, or contains `..`.

    Example:
        >>> to_place("s3://lake/home")
        BucketPath('s3a://lake/home')
    """
    if isinstance(text, DiskPath | BucketPath):
        return text
    if isinstance(text, str) and is_in_bucket(text):
        return BucketPath(text)
    if url := _URL.match(str(text)):
        raise Misconfigured(
            f"{text}: Keyfold reads and writes folders and buckets ({FORMS}), but not {url[1]}://. Mount that file system as a "
            "folder (on a cluster, at the same path on all nodes), or use a gateway to it"
        )
    return DiskPath(text)


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
    if isinstance(place, BucketPath) and isinstance(folder, BucketPath):
        return place.relative_to(folder) if place.is_relative_to(folder) else None
    if isinstance(place, DiskPath) and isinstance(folder, DiskPath):
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
