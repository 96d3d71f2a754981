"""An event of a stream without ids is taken out, or corrected, by the landing file and the line that it came from."""

import json
from collections import Counter
from datetime import timedelta

import polars as pl
import pyarrow as pa
import pytest

from keyfold import InvalidData, NotFound, Stream, ingest, required
from keyfold.ingestion import ingest_totals
from keyfold.keyed.generation.run_mode import Incremental
from keyfold.lakehouse import fail_points
from keyfold.lakehouse.reading import count_rows
from keyfold.lakehouse.row_erasure import erased_rows
from keyfold.operators import count, sum, windows
from keyfold.runs.quarantining import quarantine
from keyfold.state.changing.audit import Author
from keyfold.stream import INGESTED_AT, TIMESTAMP
from tests.keyfold.keyed.toy_jobs import START
from tests.lake import Lake

BY = Author("ann@example.org", "sold by nobody")
COLUMNS = [
    required("shop", pa.string(), "Where"),
    ("at", TIMESTAMP),
    ("price", pa.float64()),
    ("tags", pa.list_(pa.string())),
]
SALES = Stream("sales", COLUMNS, event_time="at", missing_time="arrival", future_bound="9000d")
PER_HOUR = windows(
    "per_hour", SALES, {"n": count(), "cents": sum(pl.col("price").cast(pl.Int64))}, key="shop", length="1h"
)
# Equal lines are different sales; one has no time, one no price, and one is not valid.
LINES = [
    ("Oslo", "2026-01-01T00:05:00Z", 10, ["a"]),
    ("Oslo", "2026-01-01T00:05:00Z", 10, ["a"]),
    ("Rome", "2026-01-01T00:20:00Z", None, []),
    ("Oslo", "2026-01-01T00:05:00Z", 10, ["a"]),
    (None, "2026-01-01T00:05:00Z", 10, None),
    ("Rome", None, 2.5, None),
    ("Oslo", "2026-01-01T02:00:00Z", 7, ["b", "c"]),
]


def land(lake, name, lines):
    landing = lake.lakehouse.landing("sales")
    landing.mkdir(parents=True, exist_ok=True)
    rows = [dict(zip(("shop", "at", "price", "tags"), line, strict=True)) for line in lines]
    (landing / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    ingest(lake.lakehouse, SALES, settle=timedelta(0), runners=lake.session)


@pytest.fixture
def lake(tmp_path):
    """Seven lines in two files, of which a job has read the first file."""
    lake = Lake(tmp_path / "home")
    land(lake, "a.ndjson", LINES)
    lake.run(PER_HOUR)
    land(lake, "b.ndjson", LINES[:3])
    return lake


def stored(lake, *, but=()):
    """What is stored, and what the lines say without some of them: of each its shop, price and tags."""
    found = Counter(
        pl.read_delta(str(lake.lakehouse.events("sales"))).select("shop", "price", pl.col("tags").list.join("+")).rows()
    )
    said = [
        (shop, None if price is None else float(price), None if tags is None else "+".join(tags))
        for file, lines in (("a", LINES), ("b", LINES[:3]))
        for number, (shop, _, price, tags) in enumerate(lines, 1)
        if shop is not None and (file, number) not in but
    ]
    return found, Counter(said)


def take_out(lake, *lines, **more):
    names = [f"{file}.ndjson:{line}" for file, line in lines]
    return quarantine(lake.lakehouse, SALES, [PER_HOUR], names, BY, runners=lake.session, **more)


@pytest.mark.parametrize(
    "lines",
    [
        [("a", 1)],
        [("a", 2), ("a", 4)],
        [("a", 1), ("b", 1)],
        [("a", 3)],
        [("a", 6)],
        [("a", 7)],
        [("b", 2), ("a", 6), ("a", 3)],
    ],
)
def test_exactly_the_event_of_the_line_is_taken_out_and_equal_ones_stay(lake, lines):
    shown = take_out(lake, *lines, dry_run=True)
    assert shown.events.height == len(lines)
    assert stored(lake)[0] == stored(lake)[1]
    assert take_out(lake, *lines).events.height == len(lines)
    found, said = stored(lake, but=lines)
    assert found == said
    rejects = pl.read_delta(str(lake.lakehouse.quarantine("sales"))).filter(
        pl.col("reason").str.starts_with("taken out")
    )
    landing = lake.lakehouse.landing("sales")
    assert sorted(rejects.select("file", "line").rows()) == sorted(
        (str(landing / f"{file}.ndjson"), line) for file, line in lines
    )
    tables = lake.lakehouse.events("sales"), lake.lakehouse.quarantine("sales")
    totals = ingest_totals(lake.lakehouse, SALES)
    assert [count_rows(table) + erased_rows(table) for table in tables] == [totals.accepted, totals.quarantined]
    # The same call finds nothing more to do, whatever equal events there are.
    with pytest.raises(NotFound, match=r"no event in events.sales is of a|b"):
        take_out(lake, *lines)
    assert stored(lake, but=lines)[0] == found


def test_jobs_that_have_read_it_are_computed_again(lake):
    lake.run(PER_HOUR)
    assert take_out(lake, ("a", 1)).jobs == ("per_hour",)
    lake.run(PER_HOUR, Incremental(START + timedelta(days=1)))
    # Four of five sales in Oslo at five past.
    assert ("Oslo", 4, 40) in [(shop, n, cents) for shop, *_, n, cents in lake.rows("per_hour")]


@pytest.mark.parametrize(
    "point",
    ["added: named", "added: committed", "quarantine: in both tables", "erasure: committed", "quarantine: taken out"],
)
def test_a_call_that_was_cut_off_is_completed_by_the_same_one_and_no_equal_event_goes_twice(lake, monkeypatch, point):
    def cut(reached):
        if reached == point:
            raise OSError(5, "cut off")

    with monkeypatch.context() as patch:
        patch.setattr(fail_points, "act", cut)
        with pytest.raises(OSError, match="cut off"):
            take_out(lake, ("a", 1))
    take_out(lake, ("a", 1))
    found, said = stored(lake, but=[("a", 1)])
    assert found == said
    # Another line of the same values is another event.
    take_out(lake, ("a", 2))
    found, said = stored(lake, but=[("a", 1), ("a", 2)])
    assert found == said


@pytest.mark.parametrize(
    ("name", "error", "reason"),
    [
        ("a.ndjson:5", NotFound, r"line 5 of .*a.ndjson is no event of sales: see quarantine.sales"),
        ("a.ndjson:8", NotFound, "line 8 of .* is no event"),
        ("c.ndjson:1", NotFound, "no file c.ndjson was read into events.sales: give its path below the landing folder"),
        ("17", InvalidData, "stream sales has no event_id, so that an event is named by its landing file and line"),
        ("a.ndjson:0", InvalidData, "landing file and line"),
        ("gone.ndjson:1", NotFound, "gone.ndjson is gone"),
        ("grown.ndjson:1", InvalidData, "grown.ndjson has changed since it was read"),
    ],
)
def test_a_line_that_is_no_event_or_is_not_as_it_was_is_refused(lake, name, error, reason):
    landing = lake.lakehouse.landing("sales")
    for other in ("gone", "grown"):
        land(lake, f"{other}.ndjson", LINES[:1])
    (landing / "gone.ndjson").unlink()
    (landing / "grown.ndjson").write_text("\n\n" + (landing / "grown.ndjson").read_text())
    with pytest.raises(error, match=reason):
        quarantine(lake.lakehouse, SALES, [PER_HOUR], [name], BY, runners=lake.session)


def test_a_file_is_named_by_its_whole_path_too_and_times_of_arrival_alone_are_no_hindrance(tmp_path):
    lake = Lake(tmp_path / "home")
    clicks = Stream("clicks", [required("user", pa.string(), "Who")], event_time=INGESTED_AT)
    landing = lake.lakehouse.landing("clicks")
    landing.mkdir(parents=True)
    (landing / "a.csv").write_text("user\nann\nbob\n")
    ingest(lake.lakehouse, clicks, settle=timedelta(0), runners=lake.session)
    quarantine(lake.lakehouse, clicks, [], [f"{landing / 'a.csv'}:3"], BY, runners=lake.session)
    assert pl.read_delta(str(lake.lakehouse.events("clicks")))["user"].to_list() == ["ann"]
