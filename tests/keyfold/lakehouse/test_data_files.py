"""Data files are written whole with what a log tells of them, or not at all."""

import errno
import resource
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold.lakehouse.data_files import write_data_file, write_rows
from tests.examples import examples

BASE = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        ("count", pa.int64()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("local", pa.timestamp("us")),
        ("pair", pa.struct([("at", pa.timestamp("us", tz="UTC"))])),
    ]
)
TIME = st.none() | st.integers(-(10**15), 10**15).map(lambda at: BASE + timedelta(microseconds=at))
ROW = st.tuples(
    st.integers(0, 3), TIME, TIME.map(lambda at: at and at.replace(tzinfo=None)), st.fixed_dictionaries({"at": TIME})
)


def frame_of(rows) -> pl.DataFrame:
    return pl.DataFrame(rows, pl.from_arrow(SCHEMA.empty_table()).schema, orient="row")  # type: ignore[union-attr]


@examples(60)
@given(st.lists(ROW, min_size=1, max_size=20))
def test_of_rows_that_go_by_the_same_is_told_as_of_rows_in_memory(tmp_path_factory, rows):
    table, frame = tmp_path_factory.mktemp("table"), frame_of(rows)
    by_frame, by_query = write_data_file(frame, table, SCHEMA), write_rows(frame.lazy(), table, SCHEMA)
    assert pl.read_parquet(table / by_query.path).equals(frame)
    assert (table / by_query.path).stat().st_size == by_query.bytes
    ignored = {"path": "", "bytes": 0}
    assert by_query.model_copy(update=ignored) == by_frame.model_copy(update=ignored)


@pytest.fixture
def little_room():
    """A file may have a megabyte; more is refused in the midst of a write, as by a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("write", [write_data_file, lambda frame, *where: write_rows(frame.lazy(), *where)])
def test_a_disk_that_takes_no_more_is_told_as_such_and_nothing_is_left(tmp_path, little_room, write):
    schema = pa.schema([("number", pa.int64())])
    frame = pl.DataFrame({"number": np.random.default_rng(1).integers(0, 2**62, 2_000_000)})
    with pytest.raises(OSError, match=str(tmp_path)) as told:
        write(frame, tmp_path, schema)
    assert told.value.errno == errno.EFBIG
    assert list(tmp_path.iterdir()) == []
