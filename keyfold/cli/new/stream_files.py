"""Generate the files of a new stream: its module, its assets and its test."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
from pyarrow import types

from keyfold.cli.new.names import title
from keyfold.cli.new.proposal import Column, Proposal
from keyfold.cli.new.python_text import assigned, bracketed, call, quoted
from keyfold.cli.new.sample import Sample
from keyfold.cli.new.writing import render
from keyfold.ingestion.parsing.declared_times import parse_times
from keyfold.stream import INGESTED_AT, TIMESTAMP, Stream

_MOMENT = datetime(2026, 1, 1, 6, tzinfo=UTC)
_KINDS = {
    pa.string(): "pa.string()",
    pa.int64(): "pa.int64()",
    pa.float64(): "pa.float64()",
    pa.bool_(): "pa.bool_()",
    pa.list_(pa.string()): "pa.list_(pa.string())",
    TIMESTAMP: "TIMESTAMP",
}


def stream_paths(name: str) -> list[Path]:
    """Return the paths of a stream's files, relative to the project."""
    return [
        Path("spark_jobs/streams", f"{name}.py"),
        Path("assets", f"{name}.py"),
        Path("tests/spark_jobs/streams", f"test_{name}.py"),
    ]


def stream_files(name: str, proposal: Proposal, sample: Sample) -> dict[Path, str]:
    """Generate the text of each file."""
    texts = (
        _module(name, proposal, sample),
        render("stream_assets.py", name=name, title=title(name)),
        _test(name, proposal),
    )
    return dict(zip(stream_paths(name), texts, strict=True))


def stream_of(module: str) -> Stream:
    """Execute the text of a stream's module and return the stream that it declares."""
    written: dict[str, Any] = {}
    exec(compile(module, "the new stream", "exec"), written)  # noqa: S102 - what is about to be written, and would be imported
    return written["STREAM"]


def _module(name: str, proposal: Proposal, sample: Sample) -> str:
    columns = proposal.columns
    sources = [
        column for column in columns if column.name != column.source.raw or column.source.time or column.source.json
    ]
    ruled = [column.name for column in columns if not column.nullable and types.is_string(column.kind)]
    contract = [
        *(["INGESTED_AT"] if proposal.event_time == INGESTED_AT else []),
        *(["TIMESTAMP"] if any(column.kind == TIMESTAMP for column in columns) else []),
        *(["Source"] if sources else []),
        "Stream",
    ]
    # A file name with other characters could end the docstring that it is put into.
    file = sample.path.name if re.fullmatch(r"[\w.\- ]{1,60}", sample.path.name) else "a file"
    once = (
        f", each once: typed, checked, de-duplicated by {_listed(proposal.event_id)}."
        if proposal.event_id
        else ", typed and checked."
    )
    return render(
        "stream.py",
        title=title(name),
        name=name,
        rows=f"{sample.rows:,} row{'s' if sample.rows != 1 else ''} of {file}",
        contract=", ".join(contract),
        rules_import="from keyfold.stream.rules import not_empty\n" if ruled else "",
        description=f"    description={quoted(f'Valid events of {name}{once}')},",
        columns="\n".join(
            column_text(column, is_event_time=column.name == proposal.event_time, indent=12, end=",")
            for column in columns
        ),
        event_time="INGESTED_AT" if proposal.event_time == INGESTED_AT else quoted(proposal.event_time),
        more=_more(proposal, sources, ruled),
    )


def column_text(column: Column, *, is_event_time: bool, indent: int = 0, end: str = "") -> str:
    """Write the declaration of a column."""
    meaning = "Event time: when it happened (UTC)" if is_event_time else title(column.name)
    said = [quoted(column.name), _KINDS[column.kind], quoted(meaning)]
    if column.is_number:
        said.append(f"unit={quoted(column.unit)}")
    if not column.nullable:
        said.append("nullable=False")
    return call("column", said, indent, end)


def _more(proposal: Proposal, sources: Sequence[Column], ruled: Sequence[str]) -> str:
    parts = []
    if sources:
        lines = "".join(f"        {quoted(column.name)}: {source_text(column)},\n" for column in sources)
        parts.append(f"    sources={{\n{lines}    }},\n")
    for field, values in (
        ("ignored", proposal.ignored),
        ("missing", proposal.missing),
        ("event_id", proposal.event_id),
    ):
        if values:
            parts.append(assigned(f"{field}=", values, 4, ",") + "\n")
    if not proposal.event_id:
        parts.append("    # No event id: two equal rows are two events.\n")
    if ruled:
        parts.append(
            bracketed("rules=(", [f"not_empty({quoted(one)})" for one in ruled], "),", 4, is_tuple=True) + "\n"
        )
    if proposal.private:
        parts.append("    # Masked wherever rows are shown; the tables contain the values.\n")
        parts.append(assigned("private=", proposal.private, 4, ",") + "\n")
    return "".join(parts)


def source_text(column: Column) -> str:
    """Write the `Source` of a column."""
    time = f", time={quoted(column.source.time)}" if column.source.time else ""
    kept = ", json=True" if column.source.json else ""
    return f"Source({quoted(column.source.raw)}{time}{kept})"


def _listed(words: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def _test(name: str, proposal: Proposal) -> str:
    raws = {column.name: _raw_value(column) for column in proposal.columns}
    needed = [column.source.raw for column in proposal.columns if not column.nullable]
    return render(
        "stream_test.py",
        title=title(name),
        name=name,
        row="\n".join(f"    {quoted(one.source.raw)}: {literal(raws[one.name])}," for one in proposal.columns),
        event="\n".join(f"    {quoted(one.name)}: {literal(_value(one, raws[one.name]))}," for one in proposal.columns),
        needed=assigned("NEEDED = ", needed),
        wrong_time="".join(
            render("stream_test_time.py", raw=quoted(one.source.raw))
            for one in proposal.columns
            if one.name == proposal.event_time
        ),
    )


def literal(value: Any) -> str:
    """Write a value as a Python literal."""
    if isinstance(value, datetime):
        return (
            f"datetime({value.year}, {value.month}, {value.day}{f', {value.hour}' if value.hour else ''}, tzinfo=UTC)"
        )
    return quoted(value) if isinstance(value, str) else '["a"]' if isinstance(value, list) else repr(value)


def example(kind: pa.DataType) -> Any:
    """Return an example value of a type of the event table."""
    examples: dict[pa.DataType, Any] = {
        pa.string(): "a",
        pa.int64(): 1,
        pa.float64(): 1.5,
        pa.bool_(): True,
        pa.list_(pa.string()): ["a"],
        TIMESTAMP: _MOMENT,
    }
    return examples[kind]


def _raw_value(column: Column) -> Any:
    shape = column.source.time
    if column.source.json:
        return {}
    if column.kind != TIMESTAMP:
        return example(column.kind)
    if not shape:
        return _MOMENT.strftime("%Y-%m-%dT%H:%M:%SZ")
    if "%" in shape:
        return pl.Series([_MOMENT]).dt.strftime(shape).item()
    return int(_MOMENT.timestamp()) * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[shape]


def _value(column: Column, raw: Any) -> Any:
    if column.source.json:
        return "{}"
    if column.kind != TIMESTAMP or not column.source.time:
        return example(column.kind)
    # Parse the text again, since a format without a clock keeps only the day.
    return parse_times(pl.Series([raw]), column.source.time).item()
