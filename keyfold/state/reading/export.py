"""Write state to files and tables, in workers."""

import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import polars as pl
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable
from deltalake.transaction import AddAction
from pyspark.sql import DataFrame

from keyfold.errors import InvalidData, Misconfigured
from keyfold.lakehouse.data_files import WrittenFile, write_data_file
from keyfold.lakehouse.files import sync_folder
from keyfold.lakehouse.paths import create_table, is_table
from keyfold.state.reading.failures import explained
from keyfold.state.reading.state_rows import Change, StateRows
from keyfold.state.reading.variables import VariableRows
from keyfold.state.rows.lines import LineFormat, json_lines
from keyfold.storage.place import Place, to_place

Format = Literal["jsonl", "parquet", "delta", "keyed-json"]

_ROWS_A_FILE = 1_000_000
_BYTES_A_FILE = 128 << 20
_REPORT = pa.schema([("report", pa.string())])
_ISO_OF_SPARK = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"


@dataclass(frozen=True)
class Export:
    """The result of an export.

    Attributes:
        to: the folder, table or URL.
        format: its format.
        rows: number of rows.
        files, bytes: number and size of the files; None if Spark's own writers wrote them.
    """

    to: str
    format: Format
    rows: int
    files: int | None
    bytes: int | None


def write_state(rows: StateRows | VariableRows, to: Path | str, style: Format) -> Export:
    """Write rows of state to a folder, which appears when it is complete, or as a new version of a Delta table.

    Args:
        rows: rows of a job's state, or of a checkpoint's variables.
        to: a new folder; an existing Delta table with the same columns, whose rows are replaced (format `delta`); or a URL
            of a file system that Spark knows.
        style: `jsonl`, `keyed-json` (see `lines.json_lines`), `parquet` or `delta`.

    Raises:
        KeyfoldError: the folder has other files, the table has other columns, or the state is damaged; nothing was changed.

    Example:
        >>> write_state(read_state(spark, lakehouse, "purchase_totals"), "totals", "keyed-json")  # doctest: +SKIP
    """
    if "://" in str(to):
        return _written_by_spark(rows, str(to_place(str(to))) if str(to).startswith("s3") else str(to), style)
    target = Path(to).expanduser().resolve()
    if style == "delta":
        return write_table(rows, target, lambda frame: frame, rows.schema)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise Misconfigured(f"{target} exists already: name a new folder, or an empty one")
    # Beside the target: a rename is atomic only within a file system.
    staged = target.with_name(f".{target.name}.{uuid.uuid4().hex}.partial")
    staged.mkdir(parents=True)
    try:
        key, schema = rows.key, rows.schema
        if style == "parquet":
            reports = rows.collect_from_frames(_files(staged, lambda frame: frame, schema), _REPORT)
        else:
            reports = rows.collect_from_frames(_lines(staged, key, style), _REPORT)
        written = [WrittenFile(**json.loads(row["report"])) for row in reports]
        _keep_only(staged, written)
        if target.exists():
            target.rmdir()
        os.replace(staged, target)
        sync_folder(target.parent)
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    return _export(target, style, written)


def write_table(rows: StateRows | VariableRows, table: Place, change: Change, schema: pa.Schema) -> Export:
    """Apply a function to the rows, and write the results as a new version of a Delta table, whose rows they replace.

    Args:
        rows: rows of a job's state.
        table: the table, or a new folder.
        change: the function, which workers apply to the rows of whole keys.
        schema: schema of its results.

    Raises:
        KeyfoldError: the folder has other files, the table has other columns, or the state is damaged; the table is not
            changed.
    """
    if not is_table(table) and table.exists() and any(table.iterdir()):
        raise InvalidData(f"{table} exists and is no Delta table: name another folder")
    create_table(table, schema)
    there = pa.schema(DeltaTable(str(table)).schema().to_arrow())
    if _columns(there) != _columns(schema):
        raise InvalidData(
            f"{table} has the columns {', '.join(_columns(there))}, the rows have {', '.join(_columns(schema))}: "
            "name another table"
        )
    reports = rows.collect_from_frames(_files(table, change, schema), _REPORT)
    written = [WrittenFile(**json.loads(row["report"])) for row in reports]
    delta = DeltaTable(str(table))
    adds = [AddAction(one.path, one.bytes, {}, _now(table / one.path), True, _statistics(one)) for one in written]
    from_state = {"keyfold": f"state of {rows.where}"}
    properties = CommitProperties(custom_metadata=from_state)
    # One commit replaces all rows: a reader finds the old version or the new one.
    delta.create_write_transaction(list(adds), mode="overwrite", schema=delta.schema(), commit_properties=properties)
    return _export(table, "delta", written)


def write_frame(frame: DataFrame, to: Path | str, style: Format, where: str) -> Export:
    """Write a Spark frame with Spark's own writers.

    Raises:
        KeyfoldError: the path has files already, or the frame's source cannot be read.
    """
    if style == "keyed-json":
        raise InvalidData("keyed-json needs whole keys: give jsonl, parquet or delta")
    path = str(to) if "://" in str(to) else str(Path(to).expanduser().resolve())
    if "://" not in path and Path(path).exists() and any(Path(path).iterdir()):
        raise Misconfigured(f"{path} exists already: name a new folder, or an empty one")
    form = {"jsonl": "json"}.get(style, style)
    with explained(where):
        writer = frame.write.format(form).mode("errorifexists")
        # Spark's default format drops microseconds.
        (writer.option("timestampFormat", _ISO_OF_SPARK) if form == "json" else writer).save(path)
        rows = frame.sparkSession.read.format(form).load(path).count()
    return Export(path, style, rows, None, None)


def _written_by_spark(rows: StateRows | VariableRows, to: str, style: Format) -> Export:
    if style in ("parquet", "delta"):
        return write_frame(rows.spark(), to, style, rows.where)
    with explained(rows.where):
        lines_of(rows, style).write.mode("errorifexists").text(to)
        return Export(to, style, rows.spark().count(), None, None)


def lines_of(rows: StateRows | VariableRows, style: LineFormat) -> DataFrame:
    """Return the rows as lines of JSON, in a Spark frame with one column."""
    key = rows.key

    def line(frame: pl.DataFrame) -> pl.DataFrame:
        return json_lines(frame, key, style).alias("value").to_frame()

    return rows.changed(line, pa.schema([("value", pa.string())]))


def _files(
    folder: Place, change: Change, schema: pa.Schema
) -> Callable[[Iterator[pl.DataFrame]], Iterator[pa.RecordBatch]]:
    """Make the function that writes Parquet files of bounded size, and reports each."""

    def write(frames: Iterator[pl.DataFrame]) -> Iterator[pa.RecordBatch]:
        waiting: list[pl.DataFrame] = []
        rows = size = 0
        for frame in frames:
            made = change(frame)
            if not made.height:
                continue
            waiting.append(made)
            rows, size = rows + made.height, size + int(made.estimated_size())
            if rows >= _ROWS_A_FILE or size >= _BYTES_A_FILE:
                yield _report(write_data_file(pl.concat(waiting, rechunk=False), folder, schema))
                waiting, rows, size = [], 0, 0
        if waiting:
            yield _report(write_data_file(pl.concat(waiting, rechunk=False), folder, schema))

    return write


def _lines(
    folder: Path, key: Sequence[str], style: LineFormat
) -> Callable[[Iterator[pl.DataFrame]], Iterator[pa.RecordBatch]]:
    """Make the function that writes a file of lines for each task, and reports it."""

    def write(frames: Iterator[pl.DataFrame]) -> Iterator[pa.RecordBatch]:
        path = folder / f"part-{uuid.uuid4().hex}.jsonl"
        rows = 0
        with open(path, "wb") as file:
            for frame in frames:
                rows += frame.height
                lines = json_lines(frame, key, style)
                if lines.len():
                    lines.to_frame().write_csv(file, include_header=False, quote_style="never")
            # Before the folder is renamed: after a power cut, a visible folder must have whole files.
            file.flush()
            os.fsync(file.fileno())
        if rows:
            yield _report(WrittenFile(path=path.name, rows=rows, bytes=path.stat().st_size))
        else:
            path.unlink()

    return write


def _report(file: WrittenFile) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"report": file.model_dump_json()}], schema=_REPORT)


def _keep_only(folder: Path, written: Sequence[WrittenFile]) -> None:
    """Remove files of failed attempts, which Spark repeated."""
    kept = {file.path for file in written}
    for path in folder.iterdir():
        if path.name not in kept:
            path.unlink()


def _export(to: Place, style: Format, written: Sequence[WrittenFile]) -> Export:
    return Export(str(to), style, sum(file.rows for file in written), len(written), sum(file.bytes for file in written))


def _statistics(file: WrittenFile) -> str:
    return json.dumps({"numRecords": file.rows, "minValues": file.first, "maxValues": file.last, "nullCount": {}})


def _columns(schema: pa.Schema) -> list[str]:
    return [f"{field.name} {field.type}" for field in schema]


def _now(path: Place) -> int:
    return path.stat().st_mtime_ns // 1_000_000
