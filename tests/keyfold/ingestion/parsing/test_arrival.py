"""When events arrived, and what that stands in for: a time that a message does not have."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from keyfold.errors import KeyfoldError
from keyfold.ingestion.drift import find_drift
from keyfold.ingestion.parsing import parse_file
from keyfold.storage.place import to_place
from keyfold.stream import INGESTED_AT, Stream
from spark_jobs.streams import SALES
from tests.examples import examples
from tests.schemas import schema_of

ARRIVED = datetime(2026, 3, 1, 8, 30, 15, 123456, tzinfo=UTC)
SOLD = datetime(2026, 2, 28, 12, tzinfo=UTC)
MAC = '{"item":"Mac","quantity":5,"model":["Macbook air"]}'
"""As its producers send them."""

TIMELESS = Stream("beeps", schema_of("device string!, level int64"), INGESTED_AT)


def read(stream: Stream, path: Path, *lines: str, arrived: datetime = ARRIVED):
    path.write_text("".join(f"{line}\n" for line in lines))
    (rows,) = parse_file(stream, to_place(path), arrived)
    return rows


def reasons(rows) -> list[str]:
    return [reject.reason for reject in rows.rejects]


def test_parquet_may_lack_times_too(tmp_path):
    table = pa.table(
        {"item": ["Mac", "Mac"], "quantity": [1, 2], "time": pa.array([None, SOLD], pa.timestamp("us", "UTC"))}
    )
    pq.write_table(table, tmp_path / "a.parquet")
    (rows,) = parse_file(SALES, tmp_path / "a.parquet", ARRIVED)
    assert rows.accepted["time"].to_list() == [ARRIVED, SOLD]


def test_messages_that_have_no_time_at_all_are_of_their_arrival_whatever_raw_column_has_its_name(tmp_path):
    rows = read(TIMELESS, tmp_path / "a.json", '{"device":"a","level":1,"ingested_at":"1999-01-01T00:00:00Z"}')
    assert rows.accepted.rows(named=True) == [{"device": "a", "level": 1, INGESTED_AT: ARRIVED}]
    assert find_drift(TIMELESS, [tmp_path / "a.json"]).unknown == {tmp_path / "a.json": (INGESTED_AT,)}


def test_the_arrival_is_never_too_far_ahead(tmp_path):
    at_once = replace(SALES, future_bound=timedelta(0))
    ahead = json.dumps({"item": "Mac", "quantity": 1, "time": (ARRIVED + timedelta(microseconds=1)).isoformat()})
    rows = read(at_once, tmp_path / "a.json", MAC, ahead)
    assert rows.accepted["time"].to_list() == [ARRIVED]
    assert "past its arrival" in reasons(rows)[0]
    assert not read(replace(TIMELESS, future_bound=timedelta(0)), tmp_path / "b.json", '{"device":"a"}').rejects


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"event_id": ("item", "time")}, "two messages without a time that arrive together would be copies"),
        ({"event_time": INGESTED_AT}, "which no message lacks"),
    ],
)
def test_a_stream_that_says_what_cannot_be_is_refused(changes, match):
    with pytest.raises(KeyfoldError, match=match):
        replace(SALES, **changes)


VALUES = st.one_of(
    st.none(),
    st.just("absent"),
    st.datetimes(datetime(1970, 1, 1), datetime(2026, 3, 2), timezones=st.just(UTC)).map(datetime.isoformat),  # noqa: DTZ001
    st.sampled_from(["", "soon", "2026-13-01T00:00:00Z", 7, 1.5, True, [], {}]),
)


@examples(150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(VALUES, min_size=1, max_size=40))
def test_each_message_is_of_its_own_time_else_of_its_arrival_and_only_a_wrong_time_is_rejected(tmp_path, values):
    lines = [
        json.dumps({"item": "Mac", "quantity": place} | ({} if value == "absent" else {"time": value}))
        for place, value in enumerate(values)
    ]
    rows = read(SALES, tmp_path / "a.json", *lines)
    found = dict(rows.accepted.select("quantity", "time").rows())
    for place, value in enumerate(values):
        if value in (None, "absent"):
            assert found[place] == ARRIVED
        elif isinstance(value, str) and value[:2] in ("19", "20") and "-13-" not in value:
            bound = ARRIVED + SALES.future_bound
            time = datetime.fromisoformat(value)
            assert found.get(place) == (time if time <= bound else None)
        else:
            assert place not in found
    assert len(found) + len(rows.rejects) == len(values)
    assert rows.untimed == sum(value in (None, "absent") for value in values)
