"""Upsert tables divided by hashes of keys: the rows are a dictionary's, and what is written goes with what changed."""

import itertools
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema
from hypothesis import given
from hypothesis import strategies as st

from keyfold.keyed.execution.commit import hash_of
from keyfold.keyed.job.tables import Upsert
from keyfold.keyed.rows.hashing import key_hash
from keyfold.lakehouse import fail_points, leaves, merging
from keyfold.lakehouse.data_files import leaf_of
from keyfold.lakehouse.leaves import (
    HASH,
    depth_of,
    divided,
    leaf_bytes,
    leaves_of,
    met_by,
    overlaps,
    ranges_of,
    span_of,
)
from keyfold.lakehouse.merging import merge_files
from keyfold.lakehouse.reading import scan_table
from keyfold.maintenance.compaction import compact
from keyfold.runners import Runners
from keyfold.storage.disk_path import DiskPath
from tests.examples import examples
from tests.keyfold.lakehouse.merged_table import KEYS, LOCAL, VALUE, VALUES, Rows, Table, merge_after_a_full_disk, value
from tests.power_cuts import Cut, PowerCut

SMALL = {"_RECENT": 6_000, "_SHARE": 4, "_MANY": 4}
HASHABLE = [pa.string(), pa.int64(), pa.bool_()]


class Divided(Table):
    """A table that is divided as it grows, where its key can be, and the dictionary that it should be like."""

    def merge(self, files, batch: int, spark=LOCAL) -> None:
        can_be = {self.schema.field(name).type for name in self.key} <= {*HASHABLE}
        merge_files(spark, self.path, files, self.key, "job/table", batch, key_hash if can_be else None)

    def leaves(self) -> dict[str, str]:
        """Its leaves' files; no two overlap, and each holds keys of its own hashes alone."""
        found: dict[str, str] = {}
        for path in self.files():
            if (leaf := leaf_of(path)) is None:
                continue
            assert not any(overlaps(leaf, other) for other in found)
            found[leaf] = path
            first, last = span_of(leaf)
            hashes = pl.read_parquet(self.read(path)).select(key_hash(tuple(self.key))).to_series().to_list()
            assert first <= min(hashes) <= max(hashes) <= last
        return found


@st.composite
def histories(draw) -> tuple[pa.Schema, list[tuple[Rows, str]]]:
    """A table's columns, and batches of rows by key, each with what happens after it."""
    kinds = draw(st.lists(st.sampled_from(HASHABLE) | st.sampled_from(list(KEYS)), min_size=1, max_size=3))
    schema = pa.schema([*((f"key_{at}", kind) for at, kind in enumerate(kinds)), *VALUES])
    of_kind = {**KEYS, pa.int64(): st.integers(0, 40) | KEYS[pa.int64()]}
    batch = st.dictionaries(st.tuples(*(of_kind[kind] for kind in kinds)), VALUE, max_size=20)
    then = st.sampled_from(["", "", "joined", "compacted", "cut off", "as before"])
    return schema, draw(st.lists(st.tuples(batch, then), min_size=1, max_size=7))


@examples(160)
@given(
    histories(),
    st.integers(1, 3),
    st.sampled_from([0, 2_000, 20_000]),
    st.sampled_from([1, 3_000, 6_000]),
    st.sampled_from([2_000, 8_000, 64 << 20]),
)
def test_any_batches_leave_the_rows_of_a_dictionary_in_leaves_that_do_not_overlap(
    history: tuple[pa.Schema, list[tuple[Rows, str]]], parts: int, recent: int, largest: int, together: int
):
    schema, batches = history
    with (
        TemporaryDirectory() as folder,
        patch.multiple(merging, _RECENT=recent, _SHARE=4, _MANY=4, _TOGETHER=together),
        patch.multiple(leaves, _LARGEST=largest, _MOST=64),
    ):
        table = Divided(DiskPath(folder) / "t", schema)
        for number, (rows, then) in enumerate(batches):
            files = table.staged(rows, parts)
            if then == "cut off":
                with patch.object(fail_points, "act", Cut("merge: rows written")):
                    try:
                        table.merge(files, number)
                    except PowerCut:
                        table.check()
            if then == "as before":
                merge_files(LOCAL, table.path, files, table.key, "job/table", number)
            else:
                table.merge(files, number)
            table.expected |= rows
            table.check()
            table.leaves()
            if then == "joined":
                compact(table.path)
            if then == "compacted":
                DeltaTable(str(table.path)).optimize.compact()


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Divided:
    """A table of 400 keys by two batches, which the second one divided."""
    for name, size in SMALL.items():
        monkeypatch.setattr(merging, name, size)
    monkeypatch.setattr(leaves, "_LARGEST", 2_000)
    made = Divided(tmp_path / "table", pa.schema([("user", pa.string()), *VALUES]))
    made.take({(f"u{at}",): value(at) for at in range(400)}, 0)
    assert not made.leaves()
    made.take({("u7",): value(-7)}, 1)
    assert len(made.leaves()) >= 8
    return made


def test_a_table_of_files_of_any_keys_is_divided_when_few_of_them_change(table: Divided):
    table.check()
    assert set(table.leaves().values()) == table.files()
    assert {len(leaf) for leaf in table.leaves()} == {len(next(iter(table.leaves())))}


def test_only_the_leaves_of_changed_keys_are_written_anew(table: Divided):
    before = table.leaves()
    table.take({("u1",): value(-1), ("u2",): value(-2), ("new",): value(3)}, 2)
    table.check()
    hashes = pl.DataFrame({"user": ["u1", "u2"]}).select(key_hash(("user",))).to_series().sort().to_numpy()
    met = {leaf for leaf, _ in met_by(list(before), hashes)}
    after = table.leaves()
    assert {leaf for leaf in before if after.get(leaf) != before[leaf]} == met
    assert len(table.files() - set(after.values())) == 1, "the new rows are in a file of their own"
    kept = table.leaves()
    table.take({("u1",): value(-3), ("u2",): value(-4)}, 3)
    table.check()
    assert table.leaves() == kept, "the same keys are in no leaf any more"


def test_rows_that_have_come_together_become_leaves_of_about_one_size(table: Divided):
    for batch in range(2, 41):
        table.take({(f"v{batch}-{at}",): value(at) for at in range(16)}, batch)
    table.check()
    assert len(table.files()) - len(table.leaves()) <= 20
    assert len(table.leaves()) >= 16
    depths = {len(leaf) for leaf in table.leaves()}
    assert len(depths) == 1, "a table that has grown is divided further, all of it"


def test_a_column_that_the_table_got_later_is_null_in_leaves_that_are_written_anew(table: Divided):
    DeltaTable(str(table.path)).alter.add_columns(Schema.from_arrow(pa.schema([("later", pa.int32())])).fields)
    table.merge(table.staged({("u1",): value(-1)}), 2)
    found = scan_table(table.path).collect()
    assert found.schema["later"] == pl.Int32
    assert found.height == 400
    assert found.filter(user="u1")["count"].to_list() == [-1]


def test_leaves_are_not_joined_by_maintenance(table: Divided):
    table.take({("new",): value(1)}, 2)
    before = table.files()
    compact(table.path)
    assert table.files() == before


@pytest.mark.parametrize("count", [1, 2])
def test_a_disk_that_fails_as_leaves_are_written_leaves_the_table_as_it_was(table: Divided, count: int):
    rows: Rows = {(f"u{at}",): value(-at) for at in range(4)}
    merge_after_a_full_disk(table, rows, table.staged(rows), "write_data_file", count)


def test_spark_s_workers_divide_and_shorten_and_four_readers_read_the_same_rows(
    spark: Runners, table: Divided, monkeypatch
):
    table.take({("u1",): value(-1), ("u2",): value(-2)}, 2, spark=spark)
    table.check()
    # Less than leaves hold: so all becomes leaves anew, in several ranges.
    monkeypatch.setattr(merging, "_RECENT", 0)
    monkeypatch.setattr(merging, "_SHARE", 1_000)
    monkeypatch.setattr(merging, "_TOGETHER", 8_000)
    table.take({("u3",): value(-3), ("new",): value(4)}, 3, spark=spark)
    table.check()
    assert set(table.leaves().values()) == table.files()
    rows = sorted((user, row[0]) for (user,), row in table.expected.items())
    delta = DeltaTable(str(table.path))
    assert sorted(map(tuple, delta.to_pandas()[["user", "count"]].itertuples(index=False))) == rows
    assert sorted(pl.scan_delta(delta).select("user", "count").collect().rows()) == rows
    dataset = delta.to_pyarrow_dataset()  # noqa: F841 - DuckDB finds it by its name
    assert duckdb.execute('SELECT "user", "count" FROM dataset ORDER BY ALL').fetchall() == rows
    found = spark.session.read.parquet(*delta.file_uris()).select("user", "count").collect()
    assert sorted(map(tuple, found)) == rows
    # Of all readers alike: none needs a feature that it may lack.
    assert (delta.protocol().min_reader_version, delta.protocol().reader_features) == (1, None)


@pytest.mark.parametrize(
    ("kinds", "is_divided"),
    [
        ([pa.string()], True),
        ([pa.int32(), pa.bool_()], True),
        ([pa.string(), pa.timestamp("us", tz="UTC")], False),
        ([pa.float64()], False),
    ],
)
def test_tables_with_a_time_in_their_key_are_not_divided(kinds: list[pa.DataType], is_divided: bool):
    names = tuple(f"key_{at}" for at in range(len(kinds)))
    schema = pa.schema([pa.field(name, kind, nullable=False) for name, kind in zip(names, kinds, strict=True)])
    assert (hash_of(Upsert(schema, names, name="t")) is not None) == is_divided


def test_ranges_divide_all_hashes_evenly_and_none_is_in_two():
    for depth in range(5):
        spans = [span_of(leaf) for leaf in ranges_of(depth)]
        assert (spans[0][0], spans[-1][1]) == (0, 2**64 - 1)
        assert all(one[1] + 1 == other[0] for one, other in itertools.pairwise(spans))
    assert [depth_of(total, 100) for total in (0, 1, 100, 101, 200, 201, 400, 401)] == [0, 0, 0, 1, 1, 2, 2, 3]
    assert leaves_of(1 << 30) == (1 << 30) // leaf_bytes(1 << 30) == 2048
    assert leaves_of(1 << 40) == 4096


@examples(40)
@given(st.lists(st.integers(0, 2**64 - 1), max_size=30), st.integers(0, 3))
def test_rows_go_to_the_leaves_of_their_hashes(hashes: list[int], deeper: int):
    frame = pl.DataFrame({"at": range(len(hashes)), HASH: hashes}, schema={"at": pl.Int64, HASH: pl.UInt64})
    found = {leaf: part["at"].to_list() for leaf, part in divided(frame, "", deeper)}
    expected: dict[str, list[int]] = {}
    for at, hash_ in enumerate(hashes):
        expected.setdefault(f"{hash_:064b}"[:deeper], []).append(at)
    assert {leaf: sorted(part) for leaf, part in found.items()} == expected
