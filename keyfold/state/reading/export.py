"""State, and what is compared of it, written to files: by workers, as they decode it."""

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
from keyfold.lakehouse.tables import create_table, is_table
from keyfold.state.reading.failures import explained
from keyfold.state.reading.reader import Change, StateRows
from keyfold.state.reading.variables import VariableRows
from keyfold.state.rows.lines import LineFormat, json_lines
from keyfold.storage.place import Place, to_place

Format = Literal["jsonl", "parquet", "delta", "keyed-json"]

_ROWS_A_FILE = 1_000_000
_BYTES_A_FILE = 128 << 20
_TOLD = pa.schema([("told", pa.string())])
_ISO_OF_SPARK = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"


@dataclass(frozen=True)
class Export:
    """What was written.

    Attributes:
        to: the folder, table or URL.
        format: of it.
        rows: of state (or of the comparison).
        files, bytes: written; None where Spark itself wrote them, to another file system.
    """

    to: str
    format: Format
    rows: int
    files: int | None
    bytes: int | None


def write_state(rows: StateRows | VariableRows, to: Path | str, style: Format) -> Export:
    """Write rows of state to a folder, which appears when it is whole, or as a new version of a Delta table.

    Args:
        rows: of a job's state, or of a checkpoint's variables.
        to: a folder that is not there yet, an existing Delta table of the same columns (format `delta`: its rows are
            replaced), or a URL of any file system that Spark knows.
        style: `jsonl` and `keyed-json` as `lines.json_lines` says; `parquet`; `delta`.

    Raises:
        KeyfoldError: the folder holds something else, the table has other columns, or the state is damaged; what was
            there is as it was.

    Example:
        >>> write_state(read_state(spark, lakehouse, "purchase_totals"), "totals", "keyed-json")  # doctest: +SKIP
    """
    if "://" in str(to):
        return _written_by_spark(rows, str(to_place(str(to))) if str(to).startswith("s3") else str(to), style)
    target = Path(to).expanduser().resolve()
    if style == "delta":
        return write_table(rows, target, lambda frame: frame, rows.schema)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise Misconfigured(f"{target} is there already: name a folder that is not, or is empty")
    # Beside the target: a rename is one step within a file system alone.
    staged = target.with_name(f".{target.name}.{uuid.uuid4().hex}.partial")
    staged.mkdir(parents=True)
    try:
        key, schema = rows.key, rows.schema
        if style == "parquet":
            told = rows.collect_from_frames(_files(staged, lambda frame: frame, schema), _TOLD)
        else:
            told = rows.collect_from_frames(_lines(staged, key, style), _TOLD)
        written = [WrittenFile(**json.loads(row["told"])) for row in told]
        _keep_only(staged, written)
        if target.exists():
            target.rmdir()
        os.replace(staged, target)
        sync_folder(target.parent)
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    return _export(target, style, written)


def write_table(rows: StateRows | VariableRows, table: Place, change: Change, schema: pa.Schema) -> Export:
    """Write what a function makes of the rows as a new version of a Delta table, whose rows it replaces.

    Args:
        rows: of a job's state.
        table: a folder that is not there yet, or the table.
        change: on workers, of a key group's rows.
        schema: what it gives.

    Raises:
        KeyfoldError: the folder holds something else, the table has other columns, or the state is damaged; the table
            is as it was.
    """
    if not is_table(table) and table.exists() and any(table.iterdir()):
        raise InvalidData(f"{table} is there and is no Delta table: name another folder")
    create_table(table, schema)
    there = pa.schema(DeltaTable(str(table)).schema().to_arrow())
    if _columns(there) != _columns(schema):
        raise InvalidData(
            f"{table} has the columns {', '.join(_columns(there))}, the rows have {', '.join(_columns(schema))}: "
            "name another table"
        )
    told = rows.collect_from_frames(_files(table, change, schema), _TOLD)
    written = [WrittenFile(**json.loads(row["told"])) for row in told]
    delta = DeltaTable(str(table))
    adds = [AddAction(one.path, one.bytes, {}, _now(table / one.path), True, _statistics(one)) for one in written]
    from_state = {"keyfold": f"state of {rows.where}"}
    properties = CommitProperties(custom_metadata=from_state)
    delta.create_write_transaction(list(adds), mode="overwrite", schema=delta.schema(), commit_properties=properties)
    return _export(table, "delta", written)


def write_frame(frame: DataFrame, to: Path | str, style: Format, where: str) -> Export:
    """Write any Spark frame, by Spark's own writers.

    Raises:
        KeyfoldError: the path holds something already, or the frame's source cannot be read.
    """
    if style == "keyed-json":
        raise InvalidData("keyed-json is of whole keys: give jsonl, parquet or delta")
    path = str(to) if "://" in str(to) else str(Path(to).expanduser().resolve())
    if "://" not in path and Path(path).exists() and any(Path(path).iterdir()):
        raise Misconfigured(f"{path} is there already: name a folder that is not, or is empty")
    form = {"jsonl": "json"}.get(style, style)
    with explained(where):
        writer = frame.write.format(form).mode("errorifexists")
        # Spark's own default drops microseconds.
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
    """The rows as lines of JSON, made by workers, in a Spark frame of one column."""
    key = rows.key

    def line(frame: pl.DataFrame) -> pl.DataFrame:
        return json_lines(frame, key, style).alias("value").to_frame()

    return rows.changed(line, pa.schema([("value", pa.string())]))


def _files(
    folder: Place, change: Change, schema: pa.Schema
) -> Callable[[Iterator[pl.DataFrame]], Iterator[pa.RecordBatch]]:
    """Make the function that writes Parquet files of bounded size, and tells of each."""

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
                yield _told(write_data_file(pl.concat(waiting, rechunk=False), folder, schema))
                waiting, rows, size = [], 0, 0
        if waiting:
            yield _told(write_data_file(pl.concat(waiting, rechunk=False), folder, schema))

    return write


def _lines(
    folder: Path, key: Sequence[str], style: LineFormat
) -> Callable[[Iterator[pl.DataFrame]], Iterator[pa.RecordBatch]]:
    """Make the function that writes a file of lines a task, key group by key group, and tells of it."""

    def write(frames: Iterator[pl.DataFrame]) -> Iterator[pa.RecordBatch]:
        path = folder / f"part-{uuid.uuid4().hex}.jsonl"
        rows = 0
        with open(path, "wb") as file:
            for frame in frames:
                rows += frame.height
                lines = json_lines(frame, key, style)
                if lines.len():
                    lines.to_frame().write_csv(file, include_header=False, quote_style="never")
            file.flush()
            os.fsync(file.fileno())
        if rows:
            yield _told(WrittenFile(path=path.name, rows=rows, bytes=path.stat().st_size))
        else:
            path.unlink()

    return write


def _told(file: WrittenFile) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"told": file.model_dump_json()}], schema=_TOLD)


def _keep_only(folder: Path, written: Sequence[WrittenFile]) -> None:
    """Remove what a task left that Spark tried again."""
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
