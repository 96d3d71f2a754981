"""Files to parsed tables, whatever their format; a file that cannot be read is rejected as a whole."""

import errno
import zlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from spark_jobs.parsing.csv_lines import read_csv
from spark_jobs.parsing.json_lines import read_json
from spark_jobs.parsing.mapping import path_value
from spark_jobs.parsing.parquet import read_parquet
from spark_jobs.parsing.rows import Rows, judge, whole_file
from spark_jobs.parsing.text import UnreadableFileError, open_text
from spark_jobs.streams import Stream

BATCH_ROWS = 100_000

_ENDINGS = ".ndjson, .jsonl, .json and .csv, also with .gz, and .parquet"
_FILE_FAULTS = {None, errno.ENOENT, errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG}
"""What an OSError says when the fault is the file's; Arrow and gzip set no number. A full or failing disk is not the
file's fault: it fails the run, so that the next one reads the file again."""


def parse_files(stream: Stream, landing: Path) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for `mapInArrow`: rows of (path, modificationTime) in, parsed tables out."""

    def parse(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for path, arrived in zip(batch.column("path"), batch.column("modificationTime"), strict=True):
                for table in parse_file(stream, local_path(path.as_py()), arrived.as_py().astimezone(UTC), landing):
                    yield from table.combine_chunks().to_batches(BATCH_ROWS)

    return parse


def parse_file(stream: Stream, path: Path, arrived: datetime, landing: Path | None = None) -> Iterator[pa.Table]:
    """Parse one file into tables of `parsed_schema`, the last of which says that the file was read.

    Args:
        stream: what its rows should be.
        path: a local file; its ending tells its format.
        arrived: its modification time (UTC).
        landing: the folder below which its path may be a value; without it, its name is.
    """
    file = str(path)
    try:
        for rows in _read(stream, path):
            yield judge(stream, rows, file, arrived, path_value(path, landing))
    except UnreadableFileError as error:
        yield whole_file(stream, file, str(error))
    except OSError as error:
        if error.errno not in _FILE_FAULTS:
            raise
        yield whole_file(stream, file, f"the file cannot be read: {error.strerror or error}")
    except (EOFError, zlib.error, pa.ArrowException) as error:
        yield whole_file(stream, file, f"the file cannot be read: {error}")
    else:
        yield whole_file(stream, file, None)


def local_path(uri: str) -> Path:
    """The path behind a `file:` address as Spark lists it, which has nothing escaped."""
    path = uri.removeprefix("file:")
    return Path(path.removeprefix("//") if path.startswith("///") else path)


def _read(stream: Stream, path: Path) -> Iterator[Rows]:
    schema = stream.raw_schema
    endings = [ending.lower() for ending in path.suffixes]
    kind = endings[-2] if endings[-1:] == [".gz"] and len(endings) > 1 else "".join(endings[-1:])
    if kind == ".parquet" and endings[-1] == ".parquet":
        yield from read_parquet(schema, path)
    elif kind in (".ndjson", ".jsonl", ".json"):
        with open_text(path) as text:
            yield from read_json(schema, text, missing=stream.missing)
    elif kind == ".csv":
        with open_text(path) as text:
            yield from read_csv(schema, text)
    else:
        raise UnreadableFileError(f"the file's ending is none that ingest knows ({_ENDINGS})")
