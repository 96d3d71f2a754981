"""Read state with Spark's state data source, also from a checkpoint that was moved. The checkpoint is not changed."""

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
"""Folders of links to checkpoints. They stay until the process ends, since frames are lazy and may read them later."""


def read_source(spark: SparkSession, checkpoint: Place | str, source: str, **options: object) -> DataFrame:
    """Load one of Spark's state data sources.

    Args:
        checkpoint: checkpoint of a query: a folder, or a URL of another file system.
        source: `statestore` or `state-metadata`.
        options: options of the source; those that are None are left out.
    """
    # This starts the coordinator of state stores, which reading tasks need. Otherwise only a query would start it.
    _ = spark.streams
    given = {name: str(value) for name, value in options.items() if value is not None}
    # The workers of a local Spark are on this machine.
    is_shared = not str(spark.sparkContext.master).startswith("local")
    path = (
        str(checkpoint) if "://" in str(checkpoint) else str(readable_path(Path(str(checkpoint)), is_shared=is_shared))
    )
    return spark.read.format(source).options(**given).load(path)


def readable_path(checkpoint: Path, *, is_shared: bool = False) -> Path:
    """Return a path by which Spark's state reader can read a checkpoint.

    The reader does not decode escaped characters in paths, such as %20, and it looks for state schemas at the absolute paths
    where they were written. A checkpoint that was moved is read through a folder of links, with corrected copies of the files
    that have those paths.

    Args:
        checkpoint: the folder.
        is_shared: whether other machines read it. The links are then made beside it, where these see them too.

    Raises:
        KeyfoldError: other machines read it, and its path has characters that Spark does not accept.
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
    # A link shows later batches too, so one is enough for the process.
    if not moved and checkpoint in _VIEWS:
        return Path(_VIEWS[checkpoint].name) / "checkpoint"
    folder = TemporaryDirectory(prefix=".keyfold-view-", dir=checkpoint.parent if is_shared else None)
    link = Path(folder.name) / "checkpoint"
    if not moved:
        link.symlink_to(checkpoint)
        _VIEWS[checkpoint] = folder
        return link
    # A new folder at each call, for later batches; the earlier one stays, since frames may still read through it.
    _VIEWS[link] = folder
    _link(checkpoint, link, deep={path for one in moved for path in one.parents if path.is_relative_to(checkpoint)})
    for path, text in moved.items():
        corrected = link / path.relative_to(checkpoint)
        corrected.unlink()
        # Hadoop verifies a file with the checksum file beside it, which does not fit the copy.
        corrected.with_name(f".{corrected.name}.crc").unlink(missing_ok=True)
        corrected.write_text(text.replace(f'"file:{checkpoint}/', f'"file:{link}/'), encoding="utf-8")
    return link


def _corrected(metadata: Path, checkpoint: Path) -> str | None:
    """Return the metadata of an operator with corrected paths; None if they are correct."""
    if metadata.name.startswith(".") or not metadata.is_file():
        return None
    text = metadata.read_text(encoding="utf-8")
    here = _SCHEMA_FILE.sub(lambda found: f'"file:{checkpoint}/state/{found[2]}"', text)
    return here if here != text else None


def _link(folder: Path, to: Path, deep: set[Path]) -> None:
    """Make a folder of links to the entries of a folder; the folders in `deep` become folders of links themselves."""
    to.mkdir()
    for entry in os.scandir(folder):
        if Path(entry.path) in deep:
            _link(Path(entry.path), to / entry.name, deep)
        else:
            (to / entry.name).symlink_to(entry.path)
