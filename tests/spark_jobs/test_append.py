"""Appends are made once, by the driver or by Spark, and the two know of each other's."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from spark_jobs import append
from spark_jobs.append import append_once
from spark_jobs.lakehouse import create_table

SCHEMA = pa.schema(
    [
        pa.field("number", pa.int64(), nullable=False),
        pa.field("at", pa.timestamp("us", tz="UTC")),
        pa.field("text", pa.string()),
        pa.field("names", pa.list_(pa.string())),
        pa.field("share", pa.float64()),
    ]
)
NOON = datetime(2026, 1, 31, 12, 0, 0, 123_456, tzinfo=UTC)
ROWS = [
    {"number": 1, "at": NOON, "text": "ä\n", "names": ["a", None], "share": float("inf")},
    {"number": 2, "at": None, "text": None, "names": [], "share": None},
]
BY_DRIVER, BY_SPARK = append.FEW, 0


@pytest.fixture
def table(tmp_path):
    create_table(tmp_path / "table", SCHEMA)
    return tmp_path / "table"


@pytest.fixture
def rows(spark):
    return spark.createDataFrame(pa.Table.from_pylist(ROWS, SCHEMA))


def contents(table):
    return sorted(DeltaTable(str(table)).to_pyarrow_table().to_pylist(), key=lambda row: row["number"])


@pytest.mark.parametrize("few", [BY_DRIVER, BY_SPARK])
def test_rows_arrive_as_they_are_and_keep_their_types(rows, table, monkeypatch, few):
    monkeypatch.setattr(append, "FEW", few)
    append_once(rows, 2, table, "job", 0)
    assert contents(table) == ROWS
    assert DeltaTable(str(table)).to_pyarrow_table().schema.types == SCHEMA.types


@pytest.mark.parametrize("first", [BY_DRIVER, BY_SPARK])
@pytest.mark.parametrize("second", [BY_DRIVER, BY_SPARK])
def test_a_version_is_taken_once_whoever_wrote_it_first(rows, table, monkeypatch, first, second):
    for few, version in ((first, 0), (second, 0), (second, 1), (first, 1), (first, 0), (second, 2)):
        monkeypatch.setattr(append, "FEW", few)
        append_once(rows.where(f"number <= {version + 1}"), 2, table, "job", version)
    assert [row["number"] for row in contents(table)] == [1, 1, 1, 2, 2]
    assert DeltaTable(str(table)).transaction_version("job") == 2


def test_applications_have_versions_of_their_own(rows, table):
    for application in ("job", "other job", "job"):
        append_once(rows, 2, table, application, 0)
    assert len(contents(table)) == 4


def test_many_small_appends_leave_a_log_that_spark_reads_from_a_checkpoint(spark, rows, table):
    for version in range(12):
        append_once(rows, 2, table, "job", version)
    assert list((table / "_delta_log").glob("*.checkpoint.parquet"))
    assert spark.read.format("delta").load(str(table)).count() == 24
