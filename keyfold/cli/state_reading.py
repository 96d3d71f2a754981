"""`keyfold state read`, `list` and `stats`: read the rows of a state, list states, and print their statistics."""

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from typing import Annotated, Any, TextIO, get_args

import typer
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from keyfold.cli.options import DEFAULT_HOME, AsJson, Home, given_columns
from keyfold.cli.running import runners_for
from keyfold.cli.state_jobs import job_or_name
from keyfold.cli.terminal import failures, report
from keyfold.errors import KeyfoldError
from keyfold.lakehouse import Lakehouse
from keyfold.state.reading.export import Export, Format, lines_of, write_frame, write_state
from keyfold.state.reading.failures import explained
from keyfold.state.reading.reader import read_state
from keyfold.state.reading.retained_batches import jobs_with_state
from keyfold.state.reading.spark_checkpoint import parts_of, read_checkpoint
from keyfold.state.reading.state_rows import StateRows
from keyfold.state.reading.state_statistics import ListedGeneration, StateStatistics, list_state, state_statistics
from keyfold.state.reading.variables import VariableRows, read_variables
from keyfold.state.rows.keys import select_columns
from keyfold.state.rows.lines import LineFormat, json_lines

Generation = Annotated[
    str | None, typer.Option("--generation", metavar="G", help="A generation or a branch [default: the live one].")
]
Batch = Annotated[int | None, typer.Option("--batch", min=0, help="A retained batch [default: the last].")]
Checkpoint = Annotated[
    str | None,
    typer.Option("--checkpoint", metavar="PATH", help="The checkpoint of any Spark query, instead of a job."),
]


def read(
    job: Annotated[str | None, typer.Argument(help="The job whose state to read.")] = None,
    batch: Batch = None,
    generation: Generation = None,
    key: Annotated[
        list[str] | None,
        typer.Option(metavar="K", help="Only this key; a JSON object if it has several columns. May be repeated."),
    ] = None,
    to: Annotated[
        str | None, typer.Option(metavar="PATH", help="Write to this folder or URL [default: the terminal].")
    ] = None,
    style: Annotated[Format, typer.Option("--format", help="How to write the rows.")] = "jsonl",
    limit: Annotated[int | None, typer.Option(min=0, help="Print at most this many lines.")] = None,
    checkpoint: Checkpoint = None,
    part: Annotated[
        str | None,
        typer.Option(help="With --checkpoint: a state variable, `timers`, `left`, `right`, or the name of a store."),
    ] = None,
    operator: Annotated[int | None, typer.Option(min=0, help="With --checkpoint: only this operator.")] = None,
    changes_since: Annotated[
        int | None, typer.Option(metavar="BATCH", help="With --checkpoint: only changes from this batch on.")
    ] = None,
    whole_collections: Annotated[
        bool, typer.Option("--whole-collections", help="With --checkpoint: lists and maps as one row a key.")
    ] = False,
    columns: Annotated[
        str | None,
        typer.Option(metavar="A,B=NAME", help="Only these columns, with `B` renamed; keyed-json keeps the key."),
    ] = None,
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Read the rows of a job's state, or of any Spark checkpoint: print them, or write them to files."""
    if (job is None) == (checkpoint is None):
        raise typer.BadParameter("give either a JOB or --checkpoint PATH")
    if to is None and style not in get_args(LineFormat):
        raise typer.BadParameter(f"--format {style} writes files: give their folder with --to")
    if to is not None and limit is not None:
        raise typer.BadParameter("--limit applies to printed rows; --to writes all rows")
    if checkpoint is None and (part or operator is not None or changes_since is not None or whole_collections):
        raise typer.BadParameter("--part, --operator, --changes-since and --whole-collections require --checkpoint")
    if checkpoint is not None and generation:
        raise typer.BadParameter("--generation requires a JOB")
    if style == "keyed-json" and (part or changes_since is not None or whole_collections):
        raise typer.BadParameter(
            "keyed-json shows all variables of a key: omit --part, --changes-since and --whole-collections"
        )
    wanted = given_columns(columns)
    with failures(), ExitStack() as stack:
        lakehouse = Lakehouse(home)
        # Spark takes seconds to start, so an unknown job is reported before.
        keyed_job = None if job is None else job_or_name(lakehouse, job, generation)
        spark = stack.enter_context(runners_for(None, home))
        if checkpoint is not None:
            keys = [_columns_of(text) for text in key or []]
            if style == "keyed-json":
                variables = read_variables(spark.session, checkpoint, operator=operator, batch=batch, keys=keys)
                rows = variables.select(wanted) if wanted else variables
            else:
                rows = read_checkpoint(
                    spark.session,
                    checkpoint,
                    part,
                    operator=operator,
                    batch=batch,
                    changes_since=changes_since,
                    whole_collections=whole_collections,
                    keys=keys,
                )
                rows = select_columns(rows, wanted, f"checkpoint {checkpoint}")
            _show_checkpoint(rows, f"checkpoint {checkpoint}", to, style, limit, as_json)
            return
        assert keyed_job is not None  # noqa: S101 - narrows what was checked above
        rows = read_state(spark, lakehouse, keyed_job, generation=generation, batch=batch, keys=key or [])
        if wanted:
            key_columns = {name: name for name in rows.key} if style == "keyed-json" else {}
            rows = rows.select({**key_columns, **wanted})
        if to is not None:
            _report(write_state(rows, to, style), as_json)
            return
        _print(rows, style, limit, sys.stdout)  # type: ignore[arg-type]


def listing(
    job: Annotated[str | None, typer.Argument(help="Only this job.")] = None,
    checkpoint: Checkpoint = None,
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """List jobs with their generations, branches and retained batches, or the parts of a checkpoint's state."""
    with failures():
        if checkpoint is not None:
            with runners_for(None, home) as spark:
                parts = parts_of(spark.session, checkpoint)
            lines = [
                f"{one.name}: {one.kind} of operator {one.operator} ({one.operator_name}), {one.partitions} partitions, "
                f"batches {one.first_batch} to {one.last_batch}"
                for one in parts
            ]
            report({"checkpoint": checkpoint, "parts": [asdict(one) for one in parts]}, as_json, "\n".join(lines))
            return
        lakehouse = Lakehouse(home)
        names = [job] if job else jobs_with_state(lakehouse)
        generations = [one for name in names for one in list_state(lakehouse, name)]
        text = "\n".join(_generation_text(one) for one in generations) or f"no job has run in {lakehouse.home} yet"
        report({"generations": [asdict(one) for one in generations]}, as_json, text)


def stats(
    job: Annotated[str, typer.Argument(help="The job.")],
    batch: Batch = None,
    generation: Generation = None,
    last: Annotated[int, typer.Option(min=1, help="Number of batches to show the growth of.")] = 10,
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Print statistics of a job's state: rows, keys, bytes, skew over key groups, timers, growth over batches."""
    with failures():
        lakehouse = Lakehouse(home)
        keyed_job = job_or_name(lakehouse, job, generation)
        with runners_for(None, home) as spark:
            rows = read_state(spark, lakehouse, keyed_job, generation=generation, batch=batch)
            statistics = state_statistics(lakehouse, rows, last)
        report(asdict(statistics), as_json, "\n".join(_statistics_lines(statistics)))


def _show_checkpoint(
    rows: DataFrame | VariableRows, where: str, to: str | None, style: Format, limit: int | None, as_json: bool
) -> None:
    if to is not None:
        is_keyed = isinstance(rows, VariableRows)
        _report(write_state(rows, to, style) if is_keyed else write_frame(rows, to, style, where), as_json)
    elif isinstance(rows, VariableRows):
        _print_lines(lines_of(rows, "keyed-json"), limit, where)
    else:
        # Spark's default format cuts times to milliseconds.
        line = F.to_json(F.struct("*"), {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"})
        _print_lines(rows.select(line), limit, where)


def _print_lines(lines: DataFrame, limit: int | None, where: str) -> None:
    with explained(where):
        # One partition at a time, since a state may be larger than the driver's memory.
        for row in (lines if limit is None else lines.limit(limit)).toLocalIterator():
            sys.stdout.write(f"{row[0]}\n")


def _print(rows: StateRows, style: LineFormat, limit: int | None, to: TextIO) -> None:
    left = limit
    for frame in rows.frames():
        lines = json_lines(frame, rows.key, style)
        shown = lines if left is None else lines.head(left)
        to.writelines(f"{line}\n" for line in shown)
        if left is not None:
            left -= shown.len()
            if left == 0:
                return


def _columns_of(text: str) -> dict[str, Any]:
    try:
        columns = json.loads(text)
    except ValueError:
        columns = None
    if not isinstance(columns, dict) or not columns:
        raise KeyfoldError(f'--key {text}: with --checkpoint, give a key as a JSON object, such as {{"user": "ann"}}')
    return columns


def _report(made: Export, as_json: bool) -> None:
    size = "" if made.files is None else f" in {made.files} files, {made.bytes or 0:,} bytes"
    report(asdict(made), as_json, f"{made.rows:,} rows{size}: {made.to} ({made.format})")


def _generation_text(one: ListedGeneration) -> str:
    batches = f"batches {one.retained[0]} to {one.retained[-1]}" if one.retained else "no batch"
    return (
        f"{one.job} {one.generation} ({one.role}): {batches}, {one.open_events:,} events open, {one.bytes:,} bytes in "
        f"{one.key_groups} key groups; key {', '.join(one.key)}; watermark {one.watermark or 'not set'}"
    )


def _statistics_lines(found: StateStatistics) -> Iterator[str]:
    yield (
        f"{found.job} ({found.generation}) after batch {found.batch}: {found.rows:,} rows of {found.keys:,} keys, "
        f"{found.bytes:,} bytes; watermark {found.watermark or 'not set'}"
    )
    yield (
        f"key groups: {found.groups_used} of {found.key_groups} used; the largest has {found.largest_group:,} rows, "
        f"{found.skew:g} times the mean"
    )
    for kind, timers in found.timers.items():
        yield f"{kind}: {timers.rows:,} rows" + (f", {timers.first} to {timers.last}" if timers.rows else "")
        for one in timers.next:
            key = ", ".join(f"{name} {value}" for name, value in one.items() if name != kind)
            yield f"  {one[kind]}  {key}"
    for one in found.growth:
        size = "not retained" if one.bytes is None else f"{one.bytes:,} bytes"
        yield f"batch {one.batch} ({one.finished_at:%Y-%m-%d %H:%M:%S}): {one.open_events:,} events open, {size}"
