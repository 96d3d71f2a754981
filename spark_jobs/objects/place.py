"""A place of a home's: a path of this machine's file systems, or one in a bucket of an object store."""

from pathlib import Path, PurePath

from spark_jobs.objects.object_path import SCHEMES, ObjectPath

Place = Path | ObjectPath


def to_place(text: str | Path | ObjectPath) -> Place:
    """The place that a text names: `s3a://bucket/folder` (or `s3://`), or else a path.

    Raises:
        KeyfoldError: it names no bucket, or goes up by `..` in one.

    Example:
        >>> to_place("s3://lake/home")
        ObjectPath('s3a://lake/home')
    """
    # A Path folds the two slashes of a URL into one: who has a URL passes it as the text it is.
    if isinstance(text, str) and text.partition("://")[0] in SCHEMES:
        return ObjectPath(text)
    return text if isinstance(text, ObjectPath) else Path(text)


def path_below(place: Place, folder: Place) -> PurePath | None:
    """The path of a place below a folder; None where it is elsewhere.

    Example:
        >>> path_below(to_place("s3a://lake/home/landing/rides"), to_place("s3a://lake/home"))
        PurePosixPath('landing/rides')
    """
    if isinstance(place, ObjectPath) and isinstance(folder, ObjectPath):
        return place.relative_to(folder) if place.is_relative_to(folder) else None
    if isinstance(place, Path) and isinstance(folder, Path):
        return place.relative_to(folder) if place.is_relative_to(folder) else None
    return None
