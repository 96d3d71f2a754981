"""A person is in several streams: an erasure in one names the others, or erases there as well."""

import json

import polars as pl
import pyarrow as pa
import pytest

from keyfold import Lakehouse, Locked, Stream, ingest, required, run
from keyfold.journal.audit import Author
from keyfold.operators import count, interval_join, windows
from keyfold.runs.event_changes import erase
from tests.lake import LOCAL

BY = Author("dpo@example.org", "request 17")

AT, USER = pa.timestamp("us", tz="UTC"), required("user", pa.string(), "Who it is")
ORDERS = Stream("orders", [USER, ("at", AT), ("shop", pa.string())], event_time="at")
VISITS = Stream("visits", [USER, ("seen", AT), ("page", pa.string())], event_time="seen")
PRICES = Stream("prices", [("item", pa.string()), ("since", AT), ("cents", pa.int64())], event_time="since")
NUMBERED = Stream("numbered", [("user", pa.int64()), ("at", AT)], event_time="at")
STREAMS = [ORDERS, VISITS, PRICES, NUMBERED]
ORDERS_PER_HOUR = windows("orders_per_hour", ORDERS, {"n": count()}, key="user", length="1h")
VISITS_PER_HOUR = windows("visits_per_hour", VISITS, {"n": count()}, key="user", length="1h")
BOTH = interval_join("both", ORDERS, VISITS, "user", earliest="0s", latest="1h")
OF_NUMBERS = "stream numbered, which has user as well: erase there by what it has"
JOBS = [ORDERS_PER_HOUR, VISITS_PER_HOUR, BOTH]
TIMES = [f"2026-01-01T{hour:02}:05:00Z" for hour in (8, 9, 12)]


@pytest.fixture
def home(lakehouse) -> Lakehouse:
    """Eva and Ann in two streams, of which three jobs have made tables; one line of Eva is in a quarantine."""
    rows = {
        "orders": [{"user": user, "at": at, "shop": "Oslo"} for user in ("eva", "ann") for at in TIMES],
        "visits": [{"user": user, "seen": at, "page": "p"} for user in ("eva", "ann") for at in TIMES]
        + [{"usr": "eva"}],
        "prices": [{"item": "eva", "since": at, "cents": 1} for at in TIMES],
        "numbered": [{"user": 1, "at": TIMES[0]}],
    }
    for stream in STREAMS:
        landing = lakehouse.landing(stream.name)
        landing.mkdir(parents=True)
        (landing / "a.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows[stream.name]))
        ingest(lakehouse, stream, runners=LOCAL)
    for job in JOBS:
        run(lakehouse, job, runners=LOCAL)
    return lakehouse


def users(lakehouse):
    """Who is in each table; the line of a quarantine counts by its text."""
    return {
        name: sorted(
            {str(value) for row in pl.read_delta(str(path)).rows() for value in row if str(value) in ("eva", "ann")}
        )
        for name, path in lakehouse.tables().items()
        if not name.startswith(("late.", "quarantine.", "monitoring."))
    }


def test_the_streams_that_have_the_person_too_are_named_with_what_they_hold(home):
    for is_tried in (True, False):
        erased = erase(home, ORDERS, JOBS, {"user": ["eva"]}, BY, others=STREAMS, yes=not is_tried, runners=LOCAL)
        assert erased.streams == ("orders",)
        named = [line for line in erased.not_searched if line.startswith("stream ")]
        assert named == [
            "stream visits, which has the values too (1 in quarantine.visits, 3 in events.visits): --all-streams erases them there",
            OF_NUMBERS,
        ]
    assert users(home)["events.visits"] == ["ann", "eva"]
    assert users(home)["events.orders"] == users(home)["orders_per_hour"] == ["ann"]


def test_a_stream_with_only_some_of_the_columns_is_named_and_left_as_it_is(home):
    erased = erase(
        home,
        ORDERS,
        JOBS,
        {"user": ["eva"], "shop": ["Oslo"]},
        BY,
        others=STREAMS,
        all_streams=True,
        yes=True,
        runners=LOCAL,
    )
    assert erased.streams == ("orders",)
    assert [line for line in erased.not_searched if line.startswith("stream ")] == [
        f"stream {name}, which has user as well: erase there by what it has" for name in ("visits", "numbered")
    ]
    assert users(home)["events.visits"] == ["ann", "eva"]


def test_in_all_streams_the_person_is_gone_and_each_job_is_computed_again_once(home):
    erased = erase(home, ORDERS, JOBS, {"user": ["eva"]}, BY, others=STREAMS, all_streams=True, yes=True, runners=LOCAL)
    assert erased.streams == ("orders", "visits")
    assert erased.rows == {"events.orders": 3, "events.visits": 3, "quarantine.visits": 1}
    assert sorted(erased.jobs) == sorted(job.name for job in JOBS)
    assert len(erased.runs) == len(JOBS)
    assert [line for line in erased.not_searched if line.startswith("stream ")] == [OF_NUMBERS]
    found = users(home)
    # A price is of another column, whatever its value.
    assert found.pop("events.prices") == ["eva"]
    assert {name for name, there in found.items() if "eva" in there} == set()
    assert found["both"] == found["events.visits"] == ["ann"]
    (audited,) = pl.read_delta(str(home.monitoring("edits"))).rows(named=True)
    assert (audited["what"], audited["of"]) == ("erased", "orders, visits")


def test_no_stream_is_changed_while_another_of_them_is_being_ingested(home):
    with home.ingest("visits").exclusive("ingest of visits"), pytest.raises(Locked, match="ingest of visits"):
        erase(home, ORDERS, JOBS, {"user": ["eva"]}, BY, others=STREAMS, all_streams=True, yes=True, runners=LOCAL)
    assert users(home)["events.orders"] == ["ann", "eva"]
