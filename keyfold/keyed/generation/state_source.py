"""What Spark's state reader gives of a checkpoint, wherever the checkpoint lies now; nothing is written into it."""

import os
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

from pyspark.sql import DataFrame, SparkSession

from keyfold.errors import Misconfigured
from keyfold.storage.place import Place

_SCHEMA_FILE = re.compile(r'"(file:[^"]*?)/state/(\d+/_stateSchema/[^"]*)"')

_VIEWS: dict[Path, "TemporaryDirectory[str]"] = {}
"""Frames are lazy: what they read a checkpoint through stays until the process ends, which removes it."""


def read_source(spark: SparkSession, checkpoint: Place | str, source: str, **options: object) -> DataFrame:
    """The frame of one of Spark's sources of state.

    Args:
        spark: the session.
        checkpoint: of a query: a folder, or a URL of another file system.
        source: `statestore` or `state-metadata`.
        options: of the source, by its own names; those that are None are left out.
    """
    # Tasks that read state look for what only this brings up where no query has run in this process yet.
    _ = spark.streams
    given = {name: str(value) for name, value in options.items() if value is not None}
    is_shared = not str(spark.sparkContext.master).startswith(("local", "warm"))
    path = (
        str(checkpoint) if "://" in str(checkpoint) else str(readable_path(Path(str(checkpoint)), is_shared=is_shared))
    )
    return spark.read.format(source).options(**given).load(path)


def readable_path(checkpoint: Path, *, is_shared: bool = False) -> Path:
    """The checkpoint under a path that Spark's state reader can read.

    It takes escaped characters, such as %20, for names; and it looks for the schemas of state where they were when they
    were written, by their whole path. A checkpoint that was moved is read through a folder of links beside a corrected
    copy of what names those paths.

    Args:
        checkpoint: the folder.
        is_shared: whether others than this machine read it: the links are then beside it, where they see them too.

    Raises:
        KeyfoldError: others read it, and its path has characters that Spark does not take.
    """
    checkpoint = checkpoint.resolve()
    if is_shared and quote(str(checkpoint)) != str(checkpoint):
        raise Misconfigured(
            f"Spark's workers cannot read the state in {checkpoint}: on a cluster the path of the lakehouse must be of "
            "letters, digits and -._~ alone; mount it elsewhere"
        )
    moved = {path: text for path in checkpoint.glob("state/*/_metadata/v2/*") if (text := _corrected(path, checkpoint))}
    if not moved and quote(str(checkpoint)) == str(checkpoint):
        return checkpoint
    # The link shows what came since, so one view does for the process.
    if not moved and checkpoint in _VIEWS:
        return Path(_VIEWS[checkpoint].name) / "checkpoint"
    folder = TemporaryDirectory(prefix=".keyfold-view-", dir=checkpoint.parent if is_shared else None)
    link = Path(folder.name) / "checkpoint"
    if not moved:
        link.symlink_to(checkpoint)
        _VIEWS[checkpoint] = folder
        return link
    # Anew each time, for batches that came since: under a name of its own, since frames may read through the one before.
    _VIEWS[link] = folder
    _link(checkpoint, link, deep={path for one in moved for path in one.parents if path.is_relative_to(checkpoint)})
    for path, text in moved.items():
        corrected = link / path.relative_to(checkpoint)
        corrected.unlink()
        # Hadoop compares a file with the checksum beside it.
        corrected.with_name(f".{corrected.name}.crc").unlink(missing_ok=True)
        corrected.write_text(text.replace(f'"file:{checkpoint}/', f'"file:{link}/'), encoding="utf-8")
    return link


def _corrected(metadata: Path, checkpoint: Path) -> str | None:
    """What describes an operator, with the paths of its schemas as they are now; None where they are so already."""
    if metadata.name.startswith(".") or not metadata.is_file():
        return None
    text = metadata.read_text(encoding="utf-8")
    here = _SCHEMA_FILE.sub(lambda found: f'"file:{checkpoint}/state/{found[2]}"', text)
    return here if here != text else None


def _link(folder: Path, to: Path, deep: set[Path]) -> None:
    """Links to all that a folder has; in place of those below `deep`, folders of links."""
    to.mkdir()
    for entry in os.scandir(folder):
        if Path(entry.path) in deep:
            _link(Path(entry.path), to / entry.name, deep)
        else:
            (to / entry.name).symlink_to(entry.path)
