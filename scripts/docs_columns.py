#!/usr/bin/env python
"""Regenerate the tables of columns and the sections of jobs in the pages from their declarations: `make docs`.

The columns of an event table, or of quarantine, are between `<!-- columns of TABLE -->` and `<!-- end of columns -->`. The section of a
shipped job is between `<!-- job NAME -->` and `<!-- end of job -->`: the docstring of its module, its tables, and its parameters. What only a person can say stands outside of these. A test fails if a page differs from the declarations.
"""

import re
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic.fields import FieldInfo

from keyfold import EventTimeParameters, KeyedJob, Stream, build_job
from keyfold.columns import describe
from keyfold.ingestion import QUARANTINE
from spark_jobs.jobs.registry import JOBS
from spark_jobs.streams import STREAMS

PAGES = Path(__file__).parents[1] / "docs"

_BLOCK = re.compile(r"(<!-- columns of ([a-z0-9_.]+) -->\n).*?(<!-- end of columns -->)", re.DOTALL)
_SECTION = re.compile(r"(<!-- job (\w+) -->\n).*?(<!-- end of job -->)", re.DOTALL)
_OF_EVERY_JOB = frozenset({"time", "key_groups"})
"""Parameters that the page describes once."""


def fill(page: str) -> str:
    """Replace all column tables and sections of jobs in a page's text.

    Raises:
        SystemExit: there is no such table, or no such job.
    """
    filled = _BLOCK.sub(lambda block: f"{block[1]}\n{_event_table(block[2])}\n{block[3]}", page)
    return _SECTION.sub(lambda section: f"{section[1]}\n{_job(section[2])}\n{section[3]}", filled)


def _event_table(name: str) -> str:
    tables = _tables()
    if name not in tables:
        sys.exit(f"columns of {name}: there is no such table; there are {', '.join(tables)}")
    rows = [f"{_row(column)} {origin} |" for column, origin in tables[name]]
    return "\n".join(["| column | type | meaning | made of |", "|---|---|---|---|", *rows]) + "\n"


def _tables() -> dict[str, list[tuple[pa.Field, str]]]:
    """The columns of quarantine and of all event tables, each with text about its origin."""
    tables = {"quarantine": [(column, "") for column in QUARANTINE]}
    for stream in STREAMS.values():
        origins = [*(_raw(stream, name) for name in stream.schema.names), "the plan of ingest"]
        tables[f"events.{stream.name}"] = list(zip(stream.event_schema, origins, strict=True))
    return tables


def _raw(stream: Stream, column: str) -> str:
    source = stream.source(column)
    parts = [*(f"`{name}`" for name in source.names), *(["the file's path"] if source.path else [])]
    if column == stream.event_time and stream.missing_time == "arrival":
        parts.append("the arrival")
    return ", else ".join(parts) or ("the place in its list" if source.place else "the whole line")


def _job(name: str) -> str:
    if name not in JOBS:
        sys.exit(f"job {name}: there is no such job; there are {', '.join(JOBS)}")
    declared = JOBS[name]
    job = build_job(declared)
    module = sys.modules[declared.build.__module__]
    sections = [(module.__doc__ or "").strip()]
    tables = [table for table in job.tables if table.name != job.late_table]
    sections.append(f"Tables: {', '.join(f'`{table.name}` ({_kind(table)})' for table in tables)}.")
    sections += filter(None, [_parameters(declared), _clocks(declared)])
    return "\n\n".join(sections) + "\n"


def _kind(table: Any) -> str:
    return f"one row per {', '.join(f'`{column}`' for column in table.key)}" if table.key else "append"


def _row(column: pa.Field) -> str:
    return f"| `{column.name}` | {type_of(column)} | {_escaped(describe(column))} |"


def type_of(field: pa.Field) -> str:
    """A column's type in words, with whether it may be NULL."""
    spoken = {pa.types.is_timestamp: "timestamp", pa.types.is_list: "list of text", pa.types.is_date: "date"}
    kind = next((name for is_it, name in spoken.items() if is_it(field.type)), field.type)
    return f"{kind}{', or NULL' if field.nullable else ''}"


def _parameters(job: KeyedJob) -> str:
    rows = [
        f"| `{name}` | {_default(field)} | {_escaped(field.description or '')} | {_change(name, job)} |"
        for name, field in job.parameter_fields.items()
        if name not in _OF_EVERY_JOB and not _is_a_clock(field, name)
    ]
    return (
        "\n".join(["| parameter | default | meaning | another value needs |", "|---|---|---|---|", *rows])
        if rows
        else ""
    )


def _clocks(job: KeyedJob) -> str:
    """The defaults of the parameters that all jobs on event time have."""
    defaults = [
        f"`{name}` {_default(field)}" for name, field in job.parameter_fields.items() if _is_a_clock(field, name)
    ]
    return f"By default {', '.join(defaults)}." if defaults else ""


def _is_a_clock(field: FieldInfo, name: str) -> bool:
    of_all = EventTimeParameters.model_fields.get(name)
    return name not in _OF_EVERY_JOB and of_all is not None and of_all.description == field.description


def _change(name: str, job: KeyedJob) -> str:
    if name in job.free_parameters:
        return "nothing"
    return "a move" if name in job.movable_parameters or name in EventTimeParameters.model_fields else "a refresh"


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if value is None or value == "":
        return "none"
    if isinstance(value, timedelta):
        return f"`{_short(value)}`"
    return f"`{', '.join(map(str, value)) if isinstance(value, tuple) else value}`"


def _short(duration: timedelta) -> str:
    """A duration as it is written in a parameter: `30m`."""
    seconds = int(duration.total_seconds())
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds and seconds % length == 0:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> None:
    """Rewrite outdated pages, and print their names."""
    for page in sorted(PAGES.rglob("*.md")):
        text = page.read_text()
        if (filled := fill(text)) != text:
            page.write_text(filled)
            print(f"written: {page.relative_to(PAGES.parent)}")


if __name__ == "__main__":
    main()
