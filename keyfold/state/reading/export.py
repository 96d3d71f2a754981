"""Write state to Parquet files."""

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import polars as pl

from keyfold.errors import Misconfigured
from keyfold.lakehouse.data_files import WrittenFile, write_data_file
from keyfold.state.reading.state_rows import RowSource
from keyfold.storage.place import Place, to_place

_ROWS_A_FILE = 1_000_000
_BYTES_A_FILE = 128 << 20


@dataclass(frozen=True)
class Export:
    """The result of an export.

    Attributes:
        to: the folder.
        rows: number of rows.
        files, bytes: number and size of the files.
    """

    to: str
    rows: int
    files: int
    bytes: int


def write_state(rows: RowSource, to: Place | str) -> Export:
    """Write rows of state to a folder, as Parquet.

    A folder on a disk appears when it is complete. In a bucket, files appear one after the other.

    Args:
        rows: rows of a job's state, of a difference, or of a checkpoint.
        to: a new folder, also in a bucket (`s3a://`).

    Raises:
        KeyfoldError: the folder has other files, or the state is damaged; nothing was changed.

    Example:
        >>> write_state(read_state(lakehouse, "purchase_totals"), "totals")  # doctest: +SKIP
    """
    target = to_place(to).expanduser().resolve()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise Misconfigured(f"{target} exists already: name a new folder, or an empty one")
    if (folder := target.local_path) is None:
        return _export(target, list(_files(rows, target)))
    # Beside the target: a rename is atomic only within a file system.
    staged = folder.with_name(f".{target.name}.{uuid.uuid4().hex}.partial")
    staged.mkdir(parents=True)
    try:
        written = list(_files(rows, staged))
        if folder.exists():
            folder.rmdir()
        staged.move_file(folder)
    finally:
        staged.remove_tree(missing_ok=True)
    return _export(target, written)


def _files(rows: RowSource, folder: Place) -> Iterator[WrittenFile]:
    """Write files of bounded size, and yield each."""
    for frame in of_bounded_size(rows.frames()):
        yield write_data_file(frame, folder, rows.schema)


def of_bounded_size(frames: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Join frames to those that are written to a file each."""
    waiting: list[pl.DataFrame] = []
    height = size = 0
    for frame in frames:
        waiting.append(frame)
        height, size = height + frame.height, size + int(frame.estimated_size())
        if height >= _ROWS_A_FILE or size >= _BYTES_A_FILE:
            yield pl.concat(waiting, rechunk=False)
            waiting, height, size = [], 0, 0
    if height:
        yield pl.concat(waiting, rechunk=False)


def _export(to: Place, written: list[WrittenFile]) -> Export:
    return Export(str(to), sum(file.rows for file in written), len(written), sum(file.bytes for file in written))
