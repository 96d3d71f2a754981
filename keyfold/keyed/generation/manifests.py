"""Store the manifests of a generation's state: a file per batch, with those of the state partitions that the batch changed.

A commit record names the file of each partition's manifest (`KeyedDone.manifests`), so a batch writes only what it changed. The
name ends in the checksum of the content, which is verified when it is read.
"""

import io
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping

import polars as pl

from keyfold.errors import Damaged, first_line
from keyfold.keyed.generation.batch_records import KeyedDone
from keyfold.lakehouse.checksums import checksum_of_bytes
from keyfold.storage.place import Place


def write_manifests(folder: Place, batch: int, manifests: Mapping[int, bytes]) -> str:
    """Write the manifests of changed partitions, by label, durably; returns the file's name, which no other attempt has.

    Raises:
        OSError: the disk is full or fails.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rows = pl.DataFrame(
        {"partition": list(manifests), "manifest": list(manifests.values())},
        schema={"partition": pl.Int32, "manifest": pl.Binary},
    )
    content = io.BytesIO()
    rows.write_parquet(content, compression="zstd")
    name = f"{batch:09d}-{uuid.uuid4().hex}_{checksum_of_bytes(content.getvalue())}.parquet"
    with (folder / name).new_file() as file:
        file.write(content.getvalue())
    return name


def read_manifests(folder: Place, files: Mapping[int, str], labels: Iterable[int] | None = None) -> dict[int, bytes]:
    """Read the manifests of state partitions, by label.

    Args:
        folder: the folder of manifests.
        files: the file of each partition's manifest, by label (`files_of`).
        labels: the partitions to read; all by default. Those without state are left out.

    Raises:
        Damaged: a file is missing or damaged.
    """
    by_file: dict[str, list[int]] = defaultdict(list)
    for label in files if labels is None else labels:
        if label in files:
            by_file[files[label]].append(label)
    manifests: dict[int, bytes] = {}
    for name, wanted in by_file.items():
        stored = dict(_read(folder / name).iter_rows())
        manifests |= {label: stored[label] for label in wanted}
    return manifests


def files_of(record: KeyedDone | None) -> dict[int, str]:
    """Return the file of each partition's manifest after a batch, by label; none before the first batch."""
    return {label: name for name, labels in record.manifests.items() for label in labels} if record else {}


def by_file(files: Mapping[int, str]) -> dict[str, tuple[int, ...]]:
    """Return the partitions by file, as a commit record has them."""
    labels: dict[str, list[int]] = defaultdict(list)
    for label in sorted(files):
        labels[files[label]].append(label)
    return {name: tuple(ones) for name, ones in sorted(labels.items())}


def _read(path: Place) -> pl.DataFrame:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise Damaged(f"{path}, manifests of the state, is gone") from None
    if checksum_of_bytes(content) != path.stem.rpartition("_")[2]:
        raise Damaged(f"{path}, manifests of the state, is damaged (its checksum is another one)")
    try:
        return pl.read_parquet(io.BytesIO(content))
    except pl.exceptions.PolarsError as error:
        raise Damaged(f"{path}, manifests of the state, cannot be read ({first_line(error)})") from error
