"""Read the answers of Keyfold, and compute the answers of DuckDB over the same files."""

from pathlib import Path

import duckdb
import polars as pl
from polars.testing import assert_frame_equal

from benchmarks.nexmark.events import KINDS
from benchmarks.nexmark.queries import Query
from benchmarks.nexmark.streams import STREAMS
from keyfold import Lakehouse


class Expected:
    """The answers of DuckDB over a folder of files (`events.write_events`); query 12 reads the ingested bids."""

    def __init__(self, files: Path, lakehouse: Lakehouse) -> None:
        self._database = duckdb.connect()
        self._database.execute("SET TimeZone = 'UTC'")
        for kind in KINDS:
            kinds = {field.name: _KINDS[str(field.type)] for field in STREAMS[kind].schema}
            self._database.execute(
                f"CREATE TABLE {kind} AS FROM read_json('{files / kind}/*.ndjson', columns = {kinds}, format = 'nd')"
            )
        self._arrived = lakehouse.events("bid")

    def of(self, query: Query) -> pl.DataFrame:
        """Return the right answer of a query."""
        if query.number == 12:
            self._database.register("arrived", pl.read_delta(str(self._arrived)).to_arrow())
        return self._database.sql(query.sql).pl()


def answer(lakehouse: Lakehouse, query: Query) -> pl.DataFrame:
    """Return the answer that Keyfold has written."""
    return pl.read_delta(str(lakehouse.table(query.answer)))


def assert_right(query: Query, rows: pl.DataFrame, expected: pl.DataFrame) -> None:
    """Check that two answers have the same rows, in any order; columns are compared by name.

    Raises:
        AssertionError: they differ.
    """
    if set(rows.columns) != set(expected.columns):
        raise AssertionError(f"query {query.number}: columns {rows.columns} instead of {expected.columns}")
    # Sort by floats last, since computed floats may differ slightly.
    columns = sorted(expected.columns, key=lambda name: (expected.schema[name].is_float(), name))
    sorted_rows, sorted_expected = (frame.select(columns).cast(rows.schema).sort(columns) for frame in (rows, expected))
    assert_frame_equal(sorted_rows, sorted_expected, rel_tol=1e-9)


_KINDS = {"int64": "BIGINT", "string": "VARCHAR", "timestamp[us, tz=UTC]": "TIMESTAMPTZ"}
