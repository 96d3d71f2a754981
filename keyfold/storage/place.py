"""A place of a home's: a path of this machine's file systems, or one in a bucket of an object store, or in HDFS."""

from pathlib import Path, PurePath

from keyfold.storage.hdfs_path import HdfsPath
from keyfold.storage.object_path import ObjectPath
from keyfold.storage.remote_path import RemotePath

Place = Path | RemotePath

_KINDS: dict[str, type[ObjectPath] | type[HdfsPath]] = {"s3": ObjectPath, "s3a": ObjectPath, "hdfs": HdfsPath}
"""Of remote places, by how their text begins."""


def to_place(text: str | Place) -> Place:
    """The place that a text names: `s3a://bucket/folder` (or `s3://`), `hdfs://host:port/folder`, or else a path.

    Raises:
        KeyfoldError: it names no bucket, or no file system, or goes up by `..` in one.

    Example:
        >>> to_place("s3://lake/home")
        ObjectPath('s3a://lake/home')
    """
    # A Path folds the two slashes of a URL into one: who has a URL passes it as the text it is.
    if isinstance(text, str) and is_remote(text):
        return _KINDS[text.partition("://")[0]](text)
    return text if isinstance(text, RemotePath) else Path(text)


def is_remote(text: str) -> bool:
    """Whether a text names a place that no path of this machine leads to.

    Example:
        >>> is_remote("hdfs://names:8020/lake"), is_remote("/lake"), is_remote("gs://lake/home")
        (True, False, False)
    """
    return "://" in text and text.partition("://")[0] in _KINDS


def path_below(place: Place, folder: Place) -> PurePath | None:
    """The path of a place below a folder; None where it is elsewhere.

    Example:
        >>> path_below(to_place("s3a://lake/home/landing/rides"), to_place("s3a://lake/home"))
        PurePosixPath('landing/rides')
    """
    if isinstance(place, RemotePath) and isinstance(folder, RemotePath):
        return place.relative_to(folder) if place.is_relative_to(folder) else None
    if isinstance(place, Path) and isinstance(folder, Path):
        return place.relative_to(folder) if place.is_relative_to(folder) else None
    return None
