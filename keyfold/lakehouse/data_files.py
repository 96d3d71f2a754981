"""Write data files of Delta tables. Readers do not see a file until a commit names it (`commits`)."""

import os
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated

import polars as pl
import pyarrow as pa
from pydantic import AfterValidator, Field

from keyfold.storage.place import Place, stays_below
from keyfold.times import ISO_FORMAT, to_iso
from keyfold.validation import Record

if TYPE_CHECKING:
    import pyarrow.parquet as pq

ROWS_A_GROUP = 250_000
"""Rows of a Parquet row group, which a reader decodes at once."""

STAGED = "_staged"
"""The folder of an upsert table for rows to be merged. Delta ignores names that begin with _."""


def _below(path: str) -> str:
    if not stays_below(path):
        raise ValueError(f"{path!r} leads out of its folder")
    return path


PathBelow = Annotated[str, AfterValidator(_below)]
"""The path of a file relative to its folder, as a record has it. A record that somebody made cannot name a file elsewhere."""


class WrittenFile(Record):
    """A data file, committed or not.

    Attributes:
        path: relative to its table's folder.
        rows: number of rows.
        bytes: its size.
        first, last: the minimum and the maximum of each column of times, as ISO 8601 in UTC.
    """

    path: PathBelow
    rows: int
    bytes: int
    first: dict[str, str] = Field(default_factory=dict)
    last: dict[str, str] = Field(default_factory=dict)


def write_data_file(
    frame: pl.DataFrame, table: Place, schema: pa.Schema, folder: str = "", leaf: str | None = None
) -> WrittenFile:
    """Write rows durably as one Parquet file below a table's folder.

    Args:
        frame: the rows, with the schema's columns.
        table: the table's folder.
        schema: the table's columns; `first` and `last` have those that are times.
        folder: a folder below the table's: `STAGED` for rows of an upsert.
        leaf: see `leaf_of`.

    Raises:
        OSError: the disk is full or fails.
    """
    frame = frame.select(schema.names)
    path = _new_path(folder, leaf)
    # Snappy is the compression that Spark writes by default.
    with (table / path).new_file() as file, _faults_of_the_disk(table / path):
        frame.write_parquet(file, compression="snappy", row_group_size=ROWS_A_GROUP)
        size = file.seek(0, os.SEEK_END)
    spans = {
        of: frame.select(first=pl.min(of).dt.strftime(ISO_FORMAT), last=pl.max(of).dt.strftime(ISO_FORMAT)).row(0)
        for of in _times(schema)
    }
    # A column without values has no minimum and maximum, and is left out.
    return _written(path, frame.height, size, {of: span for of, span in spans.items() if span[0]})


def write_rows(rows: pl.LazyFrame, table: Place, schema: pa.Schema) -> WrittenFile:
    """Write the result of a query as `write_data_file` does, without holding all of it in memory.

    Args:
        rows: the query.
        table: the table's folder.
        schema: the table's columns.

    Raises:
        OSError: the disk is full or fails.
    """
    import pyarrow.parquet as pq  # noqa: PLC0415 - takes 0.1 s

    path = _new_path()
    with (table / path).new_file() as file, _faults_of_the_disk(table / path):
        rows.select(schema.names).sink_parquet(file, compression="snappy", row_group_size=ROWS_A_GROUP)
        size = file.seek(0, os.SEEK_END)
        # Row count and statistics come from the footer, since the streamed rows are no longer in memory.
        footer = pq.read_metadata(file)
    return _written(path, footer.num_rows, size, _spans(footer, _times(schema)))


def _written(path: PurePosixPath, rows: int, size: int, spans: Mapping[str, tuple[str, str]]) -> WrittenFile:
    first, last = ({of: span[end] for of, span in spans.items()} for end in (0, 1))
    return WrittenFile(path=path.as_posix(), rows=rows, bytes=size, first=first, last=last)


def _times(schema: pa.Schema) -> list[str]:
    return [field.name for field in schema if pa.types.is_timestamp(field.type)]


@contextmanager
def _faults_of_the_disk(path: Place) -> Iterator[None]:
    """Raise OSError for a full or failing disk, which Polars reports as an invalid file."""
    try:
        yield
    except pl.exceptions.PolarsError as error:
        if number := re.search(r"\(os error (\d+)\)", str(error)):
            raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from None
        raise


def is_own_file(path: str) -> bool:
    """Whether this module wrote a data file, by its name. Its statistics then have exact times, in microseconds."""
    return _OWN_NAME.fullmatch(PurePosixPath(path).name) is not None


def leaf_of(path: str) -> str | None:
    """Return the bits with which the hashes of all keys in a data file begin (`leaves`); None if it may hold any key.

    Example:
        >>> leaf_of("part-h0110-" + 32 * "a" + ".parquet")
        '0110'
    """
    name = _OWN_NAME.fullmatch(PurePosixPath(path).name)
    return name["leaf"] if name else None


def is_staged(path: str) -> bool:
    """Whether a file waits in `STAGED` for its rows to be merged."""
    return PurePosixPath(path).parts[0] == STAGED


_OWN_NAME = re.compile(r"part-(h(?P<leaf>[01]*)-)?[0-9a-f]{32}\.parquet")


def _new_path(folder: str = "", leaf: str | None = None) -> PurePosixPath:
    kind = "" if leaf is None else f"h{leaf}-"
    # A new name each time: a second attempt must not overwrite a file that a commit record names.
    return PurePosixPath(folder) / f"part-{kind}{uuid.uuid4().hex}.parquet"


def _spans(footer: "pq.FileMetaData", times: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return the minimum and maximum of each column of times, as ISO 8601 in UTC; columns without values are left out."""
    spans: dict[str, list[datetime]] = {}
    for group in range(footer.num_row_groups):
        for column in map(footer.row_group(group).column, range(footer.num_columns)):
            if column.path_in_schema in times and column.statistics and column.statistics.has_min_max:
                spans.setdefault(column.path_in_schema, []).extend((column.statistics.min, column.statistics.max))
    return {name: (_as_text(min(ends)), _as_text(max(ends))) for name, ends in spans.items()}


def _as_text(time: datetime) -> str:
    return to_iso(time.replace(tzinfo=UTC))
