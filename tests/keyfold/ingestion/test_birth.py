"""What a run of ingest finds must be of one story; where it is not, it says so and how to go on, and that works."""

from dataclasses import replace

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from keyfold.errors import KeyfoldError
from keyfold.ingestion import rebuild
from keyfold.lakehouse import Lakehouse
from keyfold.runs import ingest
from keyfold.stream import TIMESTAMP
from tests.folders import copy_folder, remove_folder
from tests.lake import LOCAL
from tests.landings import EVENTS, check_counts, event, land
from tests.power_cuts import power_cut_at


@pytest.fixture
def lakehouse(lakehouse: Lakehouse) -> Lakehouse:
    land(lakehouse.landing("clicks") / "a.json", [event("u", 1), event("u", 2)])
    return lakehouse


def check_refused(lakehouse: Lakehouse, match: str) -> None:
    """It is refused, again and again, and the remedy works."""
    land(lakehouse.landing("clicks") / "c.json", [event("u", 4), event("u", 1)])
    for _ in range(2):
        with pytest.raises(KeyfoldError, match=match) as refused:
            ingest(lakehouse, EVENTS, runners=LOCAL)
        assert "start over: `keyfold ingest clicks" in str(refused.value)
    summary = rebuild(lakehouse, EVENTS, runners=LOCAL)
    check_counts(lakehouse, summary)
    files = list(lakehouse.landing("clicks").iterdir())
    assert (summary.files, summary.duplicates) == (len(files), 1)


@pytest.mark.parametrize("table", ["events", "quarantine"])
def test_a_table_of_another_history_that_has_taken_the_same_batch_is_refused(lakehouse, table):
    ingest(lakehouse, EVENTS, runners=LOCAL)
    before, other = lakehouse.home.with_name("before"), lakehouse.home.with_name("other")
    copy_folder(lakehouse.home, before)
    lines = [event("u", 3), "{"]
    land(lakehouse.landing("clicks") / "b.json", lines)
    ingest(lakehouse, EVENTS, runners=LOCAL)
    copy_folder(lakehouse.home / table / "clicks", other)
    remove_folder(lakehouse.home)
    copy_folder(before, lakehouse.home)
    land(lakehouse.landing("clicks") / "c.json", lines)
    ingest(lakehouse, EVENTS, runners=LOCAL)
    remove_folder(lakehouse.home / table / "clicks")
    copy_folder(other, lakehouse.home / table / "clicks")
    check_refused(lakehouse, "is not the one in its journal")


def test_an_event_table_that_does_not_say_when_events_arrived_is_refused_once_and_read_anew(lakehouse):
    # Another program made the table before ingest begins, without the column.
    DeltaTable.create(str(lakehouse.events("clicks")), EVENTS.schema)
    check_refused(lakehouse, "ingested_at is new and not nullable")
    rows = DeltaTable(str(lakehouse.events("clicks"))).to_pyarrow_table()
    assert rows["ingested_at"].null_count == 0


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"event_id": ("user",)}, "began with event_id .* and now has"),
        ({"event_id": ()}, "began with event_id"),
        ({"schema": EVENTS.schema.remove(3)}, "note is only in the table"),
        ({"schema": EVENTS.schema.set(3, pa.field("note", pa.int64()))}, "note is .* in the table"),
        (
            {"schema": EVENTS.schema.append(pa.field("more", pa.string(), nullable=False))},
            "more is new and not nullable",
        ),
        (
            {"schema": EVENTS.schema.append(pa.field("seen", TIMESTAMP)), "event_time": "seen"},
            "began with event_time at and now has seen",
        ),
    ],
)
def test_a_stream_that_does_not_fit_what_it_wrote_before_is_refused(lakehouse, change, match):
    ingest(lakehouse, EVENTS, runners=LOCAL)
    land(lakehouse.landing("clicks") / "b.json", [event("u", 3)])
    with power_cut_at("work: after"):
        ingest(lakehouse, EVENTS, runners=LOCAL)
    with pytest.raises(KeyfoldError, match=match):
        ingest(lakehouse, replace(EVENTS, **change), runners=LOCAL)
    assert ingest(lakehouse, EVENTS, runners=LOCAL).totals.accepted == 3, "set back, it goes on"


def test_a_new_column_that_may_be_null_is_added_to_the_table(lakehouse):
    ingest(lakehouse, EVENTS, runners=LOCAL)
    wider = replace(EVENTS, schema=EVENTS.schema.insert(1, pa.field("more", pa.float64())))
    land(lakehouse.landing("clicks") / "b.json", [event("v", 1) | {"more": 2.5}, event("u", 1)])
    summary = ingest(lakehouse, wider, runners=LOCAL)
    check_counts(lakehouse, summary)
    assert (summary.accepted, summary.duplicates) == (1, 1)
    rows = DeltaTable(str(lakehouse.events("clicks"))).to_pyarrow_table().to_pylist()
    assert sorted((row["user"], row["more"]) for row in rows if row["more"] is not None) == [("v", 2.5)]
    assert sum(row["more"] is None for row in rows) == 2


@pytest.mark.parametrize("damage", ["gone", "zeroed"])
def test_a_part_of_the_index_that_is_gone_or_zeroed_is_made_anew_and_told(lakehouse, damage):
    ingest(lakehouse, EVENTS, runners=LOCAL)
    for segment in (lakehouse.ingest("clicks") / "ids").iterdir():
        if damage == "gone":
            segment.unlink()
        else:
            # At equal size, behind the header: its ids are known no more.
            segment.write_bytes(segment.read_bytes()[:128] + bytes(segment.stat().st_size - 128))
    land(lakehouse.landing("clicks") / "b.json", [event("u", 1), event("u", 3)])
    summary = ingest(lakehouse, EVENTS, runners=LOCAL)
    check_counts(lakehouse, summary)
    assert (summary.accepted, summary.duplicates) == (1, 1)
    assert "part of the index of ids" in summary.describe()[0]
    land(lakehouse.landing("clicks") / "c.json", [event("u", 2)])
    again = ingest(lakehouse, EVENTS, runners=LOCAL)
    assert (again.duplicates, again.describe()) == (1, [])
