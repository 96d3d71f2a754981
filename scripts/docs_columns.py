#!/usr/bin/env python
"""Regenerate the column tables of the pages from the columns' declarations: `make docs`.

A table is between `<!-- columns of TABLE -->` and `<!-- end of columns -->`. TABLE may be several names with commas, for tables
with the same columns. A test fails if a page differs from the declarations.
"""

import re
import sys
from pathlib import Path

import pyarrow as pa

from keyfold.columns import describe, lineage_of
from keyfold.ingestion import QUARANTINE
from keyfold.keyed.job.building import build_job
from keyfold.stream import Stream
from spark_jobs.jobs.registry import JOBS
from spark_jobs.streams import STREAMS

PAGES = Path(__file__).parents[1] / "docs"

_BLOCK = re.compile(r"(<!-- columns of ([a-z0-9_., ]+) -->\n).*?(<!-- end of columns -->)", re.DOTALL)


def fill(page: str) -> str:
    """Replace all column tables in a page's text.

    Raises:
        SystemExit: there is no such table, or tables of one block have different columns.
    """
    return _BLOCK.sub(lambda block: f"{block[1]}\n{_table(block[2])}\n{block[3]}", page)


def tables() -> dict[str, tuple[pa.Schema, list[str]]]:
    """The columns of all tables by name, each with text about its origin."""
    found = {"quarantine": (QUARANTINE, [""] * len(QUARANTINE))}
    for stream in STREAMS.values():
        found[f"events.{stream.name}"] = (
            stream.event_schema,
            [*(_raw(stream, name) for name in stream.schema.names), "the plan of ingest"],
        )
    for template in JOBS.values():
        for table in build_job(template).tables:
            found[table.name] = (
                table.schema,
                [", ".join(f"`{name}`" for name in lineage_of(one)) for one in table.schema],
            )
    return found


def _table(names: str) -> str:
    known = tables()
    wanted = [name.strip() for name in names.split(",")]
    if strangers := [name for name in wanted if name not in known]:
        sys.exit(f"columns of {', '.join(strangers)}: there is no such table; there are {', '.join(known)}")
    rows = {name: _rows(*known[name]) for name in wanted}
    if others := [name for name in wanted if rows[name] != rows[wanted[0]]]:
        sys.exit(f"{', '.join(others)} has other columns than {wanted[0]}; give it a block of its own")
    lines = ["| column | type | what it means | made of |", "|---|---|---|---|", *rows[wanted[0]]]
    return "\n".join(lines) + "\n"


def _rows(schema: pa.Schema, origins: list[str]) -> list[str]:
    return [
        f"| `{field.name}` | {_kind(field)} | {describe(field).replace('|', chr(92) + '|')} | {origin} |"
        for field, origin in zip(schema, origins, strict=True)
    ]


def _kind(field: pa.Field) -> str:
    spoken = {pa.types.is_timestamp: "timestamp", pa.types.is_list: "list of text", pa.types.is_date: "date"}
    kind = next((name for is_it, name in spoken.items() if is_it(field.type)), field.type)
    return f"{kind}{', or NULL' if field.nullable else ''}"


def _raw(stream: Stream, column: str) -> str:
    source = stream.source(column)
    parts = [*(f"`{name}`" for name in source.names), *(["the file's path"] if source.path else [])]
    if column == stream.event_time and stream.missing_time == "arrival":
        parts.append("the arrival")
    return ", else ".join(parts) or ("the place in its list" if source.place else "the whole line")


def main() -> None:
    """Rewrite outdated pages, and print their names."""
    for page in sorted(PAGES.rglob("*.md")):
        text = page.read_text()
        if (filled := fill(text)) != text:
            page.write_text(filled)
            print(f"written: {page.relative_to(PAGES.parent)}")


if __name__ == "__main__":
    main()
