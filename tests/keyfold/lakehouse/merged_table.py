"""A table that batches are merged into, beside the dictionary that it should be like."""

import itertools
from datetime import UTC, date, datetime, timedelta
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import strategies as st

from keyfold.keyed.rows.codec import polars_schema
from keyfold.lakehouse import create_table, rewriting
from keyfold.lakehouse.data_files import STAGED, write_data_file
from keyfold.lakehouse.merging import merge_files
from keyfold.lakehouse.reading import scan_table
from tests.lake import LOCAL
from tests.shop import START

# Of each type of key, values that lie close and far, before 1970 and with fractions of a millisecond.
KEYS = {
    pa.string(): st.sampled_from(["", "a", "ab", "b", "ä", "z" * 100, "z" * 99 + "y", "\U0001f600", "a b/c%20"]),
    pa.int64(): st.sampled_from([-(2**63), -1, 0, 1, 2**53 + 1, 2**63 - 1]),
    pa.date32(): st.sampled_from([date(1969, 12, 31), date(1970, 1, 1), date(2026, 1, 1), date(2026, 1, 2)]),
    pa.timestamp("us", tz="UTC"): st.sampled_from(
        [
            datetime(1969, 12, 31, 23, tzinfo=UTC),
            *(START + timedelta(microseconds=at) for at in (0, 1, 999, 1000, 1001)),
        ]
    ),
    pa.timestamp("us"): st.sampled_from([START.replace(tzinfo=None), START.replace(tzinfo=None, microsecond=1)]),
    pa.float64(): st.sampled_from([-1.5, 0.0, 0.1, 1e300]),
    pa.bool_(): st.booleans(),
}
VALUES = pa.schema(
    [
        ("count", pa.int64()),
        ("text", pa.string()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("list", pa.list_(pa.int64())),
        ("pair", pa.struct([("x", pa.float64())])),
    ]
)
VALUE = st.tuples(
    st.none() | st.integers(-3, 3),
    st.none() | st.sampled_from(["", "x"]),
    st.none() | st.integers(0, 5000).map(lambda at: START + timedelta(microseconds=at)),
    st.none() | st.lists(st.none() | st.integers(0, 2), max_size=2),
    st.none() | st.fixed_dictionaries({"x": st.none() | st.just(0.5)}),
)
Rows = dict[tuple[Any, ...], tuple[Any, ...]]


class Table:
    """A table, and the dictionary that it should be like."""

    def __init__(self, path, schema: pa.Schema) -> None:
        self.path, self.schema = path, schema
        self.key = [name for name in schema.names if name not in VALUES.names]
        self.expected: Rows = {}
        create_table(path, schema)

    def staged(self, rows: Rows, parts: int = 1):
        """Files of a batch's rows that wait to be merged."""
        frame = pl.DataFrame([(*key, *value) for key, value in rows.items()], polars_schema(self.schema), orient="row")
        return [
            write_data_file(frame[at::parts], self.path, self.schema, STAGED)
            for at in range(parts)
            if frame[at::parts].height
        ]

    def merge(self, files, batch: int, spark=LOCAL) -> None:
        merge_files(spark, self.path, files, self.key, APPLICATION, batch)

    def take(self, rows: Rows, batch: int, parts: int = 1, spark=LOCAL) -> None:
        self.merge(self.staged(rows, parts), batch, spark)
        self.expected |= rows

    def check(self) -> None:
        found = scan_table(self.path).collect()
        assert found.schema == pl.Schema(polars_schema(self.schema))
        split = len(self.key)
        rows = [(row[:split], row[split:]) for row in found.rows()]
        assert len(rows) == len(self.expected)
        assert dict(rows) == self.expected
        # As somebody else reads it; and what the log says is so.
        delta = DeltaTable(str(self.path))
        assert delta.to_pyarrow_table().num_rows == len(rows) == delta.count()
        self.check_spans(delta)

    def check_spans(self, delta: DeltaTable) -> None:
        actions = delta.get_add_actions(flatten=True)
        told = {name: actions[name].to_pylist() for name in actions.schema.names}
        for at, path in enumerate(told["path"]):
            file = pl.read_parquet(self.read(path))
            assert file.height == told["num_records"][at]
            for name in file.columns:
                if file[name].dtype == pl.Datetime("us", "UTC") and told[f"min.{name}"][at] is not None:
                    # To the millisecond, as Delta has it.
                    low, high = told[f"min.{name}"][at], told[f"max.{name}"][at]
                    assert low <= file[name].min()
                    assert file[name].max() - high < timedelta(milliseconds=1)

    def read(self, path: str):
        return (self.path / path).open_for_reading()

    def files(self) -> set[str]:
        return set(DeltaTable(str(self.path)).get_add_actions()["path"].to_pylist())


def merge_after_a_full_disk(table: Table, rows: Rows, files, writer: str, count: int) -> None:
    """Merge batch 2 on a disk that is full at a write, by its number, of `rewriting`'s writer; and once there is room."""
    writes, write_file = itertools.count(1), getattr(rewriting, writer)

    def write(*args: Any, **more: Any) -> Any:
        if next(writes) == count:
            raise OSError(28, "No space left on device")
        return write_file(*args, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rewriting, writer, write)
        with pytest.raises(OSError, match="No space left"):
            table.merge(files, 2)
    merge_again(table, rows, files)


def value(count: int) -> tuple[Any, ...]:
    return (count, None, START + timedelta(seconds=count), [count], {"x": None})


APPLICATION = "job/generation-0001/table"


def merge_again(table: Table, rows: Rows, files) -> None:
    """After a merge of batch 2 that failed: it has changed nothing, and the next one has all rows."""
    table.check()
    table.merge(files, 2)
    table.expected |= rows
    table.check()
