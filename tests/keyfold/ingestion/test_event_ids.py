"""Fingerprints of ids: the same id has the same one, and no two ids share one, whatever their values hold."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import polars as pl
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from keyfold.ingestion.duplicates import event_ids
from keyfold.stream import TIMESTAMP, Stream
from tests.examples import examples

TYPES = {
    "a": pa.string(),
    "b": pa.string(),
    "number": pa.int64(),
    "share": pa.float64(),
    "is_new": pa.bool_(),
    "names": pa.list_(pa.string()),
    "at": TIMESTAMP,
}
STREAM = Stream("s", pa.schema(list(TYPES.items())), "at", event_id=tuple(TYPES))
START = datetime(2026, 1, 1, tzinfo=UTC)

TEXT = st.one_of(st.none(), st.sampled_from(["", "N", "T", "1", "\x1f", "1\x1f", "N\x1f1", "1\x1fN", "TN"]), st.text())
ID = st.tuples(
    TEXT,
    TEXT,
    st.one_of(st.none(), st.integers(-3, 3)),
    st.one_of(st.none(), st.sampled_from([0.0, -0.0, 0.1, 1e300]), st.floats(allow_nan=False, allow_infinity=False)),
    st.sampled_from([None, True, False]),
    st.one_of(st.none(), st.lists(st.one_of(st.none(), st.sampled_from(["", "a", '","'])), max_size=3)),
    st.integers(-2, 2).map(lambda seconds: START + timedelta(seconds=seconds)),
)


def fingerprints(ids: list[tuple]) -> list[tuple[int, int, int]]:
    table = pa.Table.from_pylist([dict(zip(TYPES, one, strict=True)) for one in ids], STREAM.schema)
    found = event_ids(STREAM, pl.DataFrame(table))
    # All columns are of the id, and so of the content.
    return list(zip(found.first.tolist(), found.second.tolist(), found.content.tolist(), strict=True))


ZERO = ("", "", 1, 0.0, True, [], START)


@examples(300)
@example([ZERO, (*ZERO[:3], -0.0, *ZERO[4:])])
@given(st.lists(ID, min_size=2, max_size=20))
def test_fingerprints_are_equal_where_ids_are(ids):
    found = fingerprints(ids)
    for one, left in zip(found, ids, strict=True):
        for other, right in zip(found, ids, strict=True):
            assert (one == other) == (left == right)


def test_fingerprints_are_those_that_earlier_versions_wrote():
    stream = Stream("s", pa.schema([("ride", pa.string()), ("point", pa.int32()), ("at", TIMESTAMP)]), "at")
    frame = pl.DataFrame({"ride": ["r1", None], "point": [3, None], "at": [START, START]}).with_columns(
        pl.col("point").cast(pl.Int32), pl.col("at").cast(pl.Datetime("us", "UTC"))
    )
    found = event_ids(replace(stream, event_id=("ride", "point")), frame)
    assert found.first.tolist() == [2975212349320273455, 13654679122228792117]
    assert found.second.tolist() == [9291417551807067954, 12889081877736253241]
    assert found.content.tolist() == [10553249144390204909, 13665702578032739518]
