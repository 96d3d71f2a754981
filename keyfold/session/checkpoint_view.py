"""Check a checkpoint of another application, and make a folder by which Spark reads it. The checkpoint is not changed.

Spark copies RocksDB files to the local paths that a snapshot's metadata names, even with `..`, and reads metadata of any size
into memory. A malicious checkpoint could overwrite files or exhaust memory.
"""

import json
import re
import stat
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from keyfold.errors import Damaged, KeyfoldError, Misconfigured, NotFound, error_in
from keyfold.storage.place import Place, local_path, to_place

LARGEST_DESCRIPTION = 64 << 20
"""Most bytes of a file that describes batches, operators or a snapshot: Spark reads it whole."""

MOST_PARTITIONS = 100_000

_ROWS = (".sst", ".log", ".crc", ".delta", ".snapshot", ".changelog")
"""Suffixes of files with rows of the state and their changes, which may be large."""

_SCHEMA_FILE = re.compile(r'"(file:[^"]*?)/state/(\d+/_stateSchema/[^"]*)"')
_PATH = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*:)?/")


def view_of(spark: SparkSession, checkpoint: Place | str) -> "TemporaryDirectory[str]":
    """Return a folder, as long as the result lives, by which Spark can read a checkpoint.

    Spark's reader does not decode escaped characters in paths, such as %20, and it looks for state schemas at the absolute
    paths where they were written. So the folder has links, and corrected copies of the files that have those paths; of a
    checkpoint in a bucket, it has a copy.

    Raises:
        KeyfoldError: there is no checkpoint, it is not as Spark writes it, its query keeps no state, or Spark runs on a cluster.
    """
    if not str(spark.conf.get("spark.master")).startswith("local"):
        raise Misconfigured("a checkpoint is read by Spark on this machine: set KEYFOLD_SPARK_MASTER=local[*]")
    place = to_place(str(checkpoint))
    if not (place / "commits").is_dir():
        raise NotFound(f"{checkpoint} is no checkpoint of a Spark query, or one that has finished no batch yet")
    if not (place / "state").is_dir():
        raise NotFound(f"checkpoint {checkpoint} holds no state: its query keeps none")
    local, view = local_path(place), TemporaryDirectory(prefix="keyfold-view-")
    root = Path(view.name)
    if local is None:
        for file in place.rglob("*"):
            copy = root / "copy" / str(file).removeprefix(f"{place}/")
            if not file.is_dir() and copy.resolve().is_relative_to(root.resolve()):
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(file.read_bytes())
    source = local.resolve() if local else root / "copy"
    check_checkpoint_is_harmless(source)
    for entry in source.iterdir():
        if entry.name != "state":
            (root / entry.name).symlink_to(entry)
    for entry in source.glob("state/*/*"):
        here = root / entry.relative_to(source)
        here.parent.mkdir(parents=True, exist_ok=True)
        if entry.name != "_metadata":
            here.symlink_to(entry)
            continue
        # Without the checksum files beside them, which do not fit the copies.
        for file in entry.rglob("[!.]*"):
            if file.is_file():
                (copy := here / file.relative_to(entry)).parent.mkdir(parents=True, exist_ok=True)
                text = file.read_text(encoding="utf-8")
                copy.write_text(_SCHEMA_FILE.sub(rf'"file:{root}/state/\2"', text), encoding="utf-8")
    return view


@contextmanager
def explained(where: str) -> Iterator[None]:
    """Replace errors of Spark by errors with a cause and a remedy.

    Raises:
        KeyfoldError: the worker's error, or an error with Spark's innermost cause.
    """
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        text = str(error)
        if raised := error_in(text):
            raise raised from error
        # The innermost cause names the file; the outer ones only say that a stage failed.
        causes = re.findall(r"^\s*Caused by: [\w.$]+: (.*)", text, re.MULTILINE)
        first = next((line for line in text.splitlines() if line.strip()), "")
        raise Damaged(
            f"{where}: its state cannot be read: {causes[-1] if causes else first}; nothing was changed; read another batch, "
            "or copy it again from its source"
        ) from error


def check_checkpoint_is_harmless(root: Path) -> None:
    """Check that a checkpoint names no file outside its folder, and has no file that is far larger than Spark writes it.

    Raises:
        KeyfoldError: a link or a name leads out of the folder, a file is not regular, or a description is too large; names
            the file.
    """
    root = root.resolve()
    for path in root.rglob("*"):
        if not path.resolve().is_relative_to(root):
            raise _refusal(path, "is a link out of its folder")
        # A running query deletes files that it no longer needs.
        with suppress(FileNotFoundError):
            status = path.stat()
            if not stat.S_ISDIR(status.st_mode) and not stat.S_ISREG(status.st_mode):
                raise _refusal(path, "is no regular file")
            if stat.S_ISREG(status.st_mode) and path.suffix not in _ROWS:
                if status.st_size > LARGEST_DESCRIPTION:
                    raise _refusal(path, f"has {status.st_size:,} bytes; {LARGEST_DESCRIPTION:,} are the most")
                if path.suffix == ".zip":
                    _check_snapshot(path)
                elif "_metadata" in path.parts:
                    _check_description(path)


def _check_snapshot(path: Path) -> None:
    """Check the metadata of a snapshot, which names RocksDB files and the local names of their copies."""
    try:
        with zipfile.ZipFile(path) as snapshot:
            entries = snapshot.infolist()
            # Spark reads entries one after the other, and not by the directory at the end of the file.
            if path.read_bytes().count(b"PK\x03\x04") != len({entry.filename for entry in entries}):
                raise _refusal(path, "holds files that its directory does not name once")
            if (size := sum(entry.file_size for entry in entries)) > LARGEST_DESCRIPTION:
                raise _refusal(path, f"unpacks to {size:,} bytes; {LARGEST_DESCRIPTION:,} are the most")
            described = snapshot.read("metadata").decode() if "metadata" in snapshot.namelist() else ""
    except (zipfile.BadZipFile, UnicodeDecodeError) as error:
        raise _refusal(path, f"is damaged: {error}") from error
    for field, name in _fields(described):
        if field.endswith("FileName") and (name != PurePosixPath(str(name)).name or name == ".."):
            raise _refusal(path, f"names the file {name!r}, which is outside its folder")


def _check_description(path: Path) -> None:
    """Check the description of an operator, which names the files of its state schemas and the number of partitions."""
    text = path.read_text(encoding="utf-8", errors="replace")
    for name, found in _fields(text):
        for value in found if isinstance(found, list) else [found]:
            if name == "numPartitions" and isinstance(value, int) and value > MOST_PARTITIONS:
                raise _refusal(path, f"has the number {value:,}; {MOST_PARTITIONS:,} partitions are the most")
            # `view_of` replaces paths in the text, so a path must be spelled the same there.
            if isinstance(value, str) and _PATH.match(value):
                inside = _SCHEMA_FILE.fullmatch(f'"{value}"') and ".." not in PurePosixPath(value).parts
                if not inside or f'"{value}"' not in text:
                    raise _refusal(path, f"names the file {value!r}, which is outside its folder")


def _fields(text: str) -> list[tuple[str, Any]]:
    """Return the fields of the JSON objects in a file of Spark, at any depth. Spark itself refuses other lines."""
    fields: list[tuple[str, Any]] = []
    for line in text.splitlines():
        with suppress(ValueError, RecursionError):
            json.loads(line, object_pairs_hook=fields.extend)
    return fields


def _refusal(path: Path, why: str) -> KeyfoldError:
    return KeyfoldError(
        f"the checkpoint is not as Spark writes one: {path} {why}. It is not read: copy it again from its source"
    )
