"""Keep a row of each batch whose records are gone, for as long as the journal's owner is there, so that a result can be explained.

FOLDER/000000000-000000099.parquet   the rows of batches 0 to 99

Ten neighbouring files of one size become one, so that a million batches have some ten files, of about fifteen bytes a batch.
"""

import io
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import takewhile
from typing import Any, NamedTuple

import polars as pl

from keyfold.errors import Damaged, first_line
from keyfold.lakehouse.reading import read_parquet
from keyfold.storage.place import Place

_JOINED = 10
"""Number of neighbouring files of one size that become one."""

_NAME = re.compile(r"(\d{9,})-(\d{9,})\.parquet")


class _Segment(NamedTuple):
    """A file with the rows of a range of batches."""

    first: int
    last: int

    @property
    def name(self) -> str:
        return f"{self.first:09d}-{self.last:09d}.parquet"

    @property
    def magnitude(self) -> int:
        return len(str(self.last - self.first))


def add_to_archive(folder: Place, rows: Sequence[Mapping[str, Any]]) -> None:
    """Add rows of batches, each with its number as `batch`, in order. They replace rows of the same batches.

    Raises:
        OSError: the disk is full or fails; the archive is as it was.
    """
    folder.mkdir(parents=True, exist_ok=True)
    added, newest = pl.DataFrame(rows, infer_schema_length=None), _Segment(rows[0]["batch"], rows[-1]["batch"])
    # A damaged file stops no run: it stays as it is, so that a reader finds it.
    with suppress(Damaged):
        added, newest = _joined(folder, added, newest)
    content = io.BytesIO()
    added.write_parquet(content, compression="zstd", statistics=False)
    (folder / newest.name).write_durably(content.getvalue())
    for name in folder.names():
        # Those of which the new file has the rows: also after a crash before their removal.
        if (match := _NAME.fullmatch(name)) and newest.name != name and newest.first <= int(match[1]):
            (folder / name).unlink(missing_ok=True)


def _joined(folder: Place, added: pl.DataFrame, newest: _Segment) -> tuple[pl.DataFrame, _Segment]:
    """Add the rows of files that have some of the same batches, and of the last ones of the same size, if these are enough."""
    segments = _segments(folder)
    separate = [segment for segment in segments if segment.last < newest.first]
    is_other = ~pl.col("batch").is_between(newest.first, newest.last)
    for segment in segments[len(separate) :]:
        # After a crash before the records were removed.
        added = pl.concat([_rows_of(folder, segment).filter(is_other), added], how="diagonal_relaxed")
        newest = _Segment(min(segment.first, newest.first), max(segment.last, newest.last))
    while len(equal := _last_of_size(separate, newest)) == _JOINED - 1:
        older = [_rows_of(folder, segment) for segment in equal]
        added, newest = pl.concat([*older, added], how="diagonal_relaxed"), _Segment(equal[0].first, newest.last)
        separate = separate[: -len(equal)]
    return added, newest


def read_archive(folder: Place) -> pl.DataFrame:
    """Return the rows of all batches in an archive, in order; an empty frame without any.

    Raises:
        Damaged: a file of it is damaged.
    """
    rows = [_rows_of(folder, segment) for segment in _segments(folder)]
    if not rows:
        return pl.DataFrame()
    return pl.concat(rows, how="diagonal_relaxed").unique("batch", keep="last", maintain_order=True).sort("batch")


def _last_of_size(segments: Sequence[_Segment], newest: _Segment) -> list[_Segment]:
    """Return the last segments that are no larger than the newest one, as far as they become one with it."""
    last = takewhile(lambda segment: segment.magnitude <= newest.magnitude, reversed(segments[1 - _JOINED :]))
    return [*last][::-1]


def _segments(folder: Place) -> list[_Segment]:
    """Return the files of an archive by their first batch, without those whose rows another one has."""
    try:
        named = [match for name in folder.names() if (match := _NAME.fullmatch(name))]
    except FileNotFoundError:
        return []
    segments = sorted(
        (_Segment(int(match[1]), int(match[2])) for match in named), key=lambda segment: (segment[0], -segment[1])
    )
    whole: list[_Segment] = []
    for segment in segments:
        if not whole or segment.last > whole[-1].last:
            whole.append(segment)
    return whole


def _rows_of(folder: Place, segment: _Segment) -> pl.DataFrame:
    try:
        return read_parquet(folder / segment.name)
    except pl.exceptions.PolarsError as error:
        raise Damaged(
            f"{folder / segment.name} is damaged ({first_line(error)}); restore it from a backup, or remove it: then only the clocks "
            "of old batches are lost, by which `keyfold explain` plays them"
        ) from None
