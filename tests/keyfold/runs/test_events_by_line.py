"""An event of a stream without ids is taken out, or corrected, by the landing file and the line that it came from."""

import json
from collections import Counter
from datetime import timedelta

import polars as pl
import pyarrow as pa
import pytest

from keyfold import InvalidData, NotFound, Stream, ingest, required
from keyfold.ingestion import ingest_totals
from keyfold.journal.audit import Author
from keyfold.keyed.generation.run_mode import Incremental
from keyfold.lakehouse import fail_points
from keyfold.lakehouse.file_changes import erased_rows
from keyfold.lakehouse.reading import count_rows
from keyfold.operators import count, sum, windows
from keyfold.runs.event_changes import correct, quarantine
from keyfold.stream import INGESTED_AT, TIMESTAMP
from tests.lake import Lake
from tests.shop import START

BY = Author("ann@example.org", "sold by nobody")
COLUMNS = [
    required("shop", pa.string(), "Where"),
    ("at", TIMESTAMP),
    ("price", pa.float64()),
    ("tags", pa.list_(pa.string())),
]
SALES = Stream("sales", COLUMNS, event_time="at", missing_time="arrival", future_bound=timedelta(days=9000))
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


def take_out(lake, *lines, yes=True):
    names = [f"{file}.ndjson:{line}" for file, line in lines]
    return quarantine(lake.lakehouse, SALES, [PER_HOUR], names, BY, yes=yes, runners=lake.session)


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
    shown = take_out(lake, *lines, yes=False)
    assert shown.rows == {"events.sales": len(lines)}
    assert stored(lake)[0] == stored(lake)[1]
    assert take_out(lake, *lines).rows == shown.rows
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
    with pytest.raises(NotFound, match=r"no event in events.sales is of /.*/[ab].ndjson:\d"):
        take_out(lake, *lines)
    assert stored(lake, but=lines)[0] == found


def test_jobs_that_have_read_it_are_computed_again(lake):
    lake.run(PER_HOUR)
    assert take_out(lake, ("a", 1)).jobs == ("per_hour",)
    lake.run(PER_HOUR, Incremental(START + timedelta(days=1)))
    # Four of five sales in Oslo at five past.
    assert ("Oslo", 4, 40) in [(shop, n, cents) for shop, *_, n, cents in lake.rows("per_hour")]


POINTS = [
    "rewrite: decided",
    "rewrite: events changed",
    "rewrite: quarantine changed",
    "rewrite: audited",
    "rewrite: applied",
]


def cut_off(lake, monkeypatch, point, *lines):
    """Take events out by a call that fails at a point."""

    def cut(reached):
        if reached == point:
            raise OSError(5, "cut off")

    with monkeypatch.context() as patch:
        patch.setattr(fail_points, "act", cut)
        with pytest.raises(OSError, match="cut off"):
            take_out(lake, *lines)


@pytest.mark.parametrize("point", POINTS)
def test_a_call_that_was_cut_off_is_completed_by_the_same_one_and_no_equal_event_goes_twice(lake, monkeypatch, point):
    cut_off(lake, monkeypatch, point, ("a", 1))
    take_out(lake, ("a", 1))
    found, said = stored(lake, but=[("a", 1)])
    assert found == said
    # Another line of the same values is another event.
    take_out(lake, ("a", 2))
    found, said = stored(lake, but=[("a", 1), ("a", 2)])
    assert found == said


@pytest.mark.parametrize("point", POINTS)
def test_a_call_for_another_line_leaves_no_event_of_one_that_was_cut_off_in_both_tables(lake, monkeypatch, point):
    cut_off(lake, monkeypatch, point, ("a", 1))
    take_out(lake, ("a", 7))
    found, said = stored(lake, but=[("a", 1), ("a", 7)])
    assert found == said
    rejects = pl.read_delta(str(lake.lakehouse.quarantine("sales"))).filter(
        pl.col("reason").str.starts_with("taken out")
    )
    assert sorted(rejects["line"]) == [1, 7]


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
        quarantine(lake.lakehouse, SALES, [PER_HOUR], [name], BY, yes=True, runners=lake.session)


def test_a_file_is_named_by_its_whole_path_too_and_times_of_arrival_alone_are_no_hindrance(tmp_path):
    lake = Lake(tmp_path / "home")
    clicks = Stream("clicks", [required("user", pa.string(), "Who")], event_time=INGESTED_AT)
    landing = lake.lakehouse.landing("clicks")
    landing.mkdir(parents=True)
    (landing / "a.csv").write_text("user\nann\nbob\n")
    ingest(lake.lakehouse, clicks, settle=timedelta(0), runners=lake.session)
    quarantine(lake.lakehouse, clicks, [], [f"{landing / 'a.csv'}:3"], BY, yes=True, runners=lake.session)
    assert pl.read_delta(str(lake.lakehouse.events("clicks")))["user"].to_list() == ["ann"]


def right(tmp_path, *rows):
    """A file of right events: of each the file and line that it replaces, shop, minutes after START, price and tags."""
    made = [
        {
            "file": file,
            "line": line,
            "shop": shop,
            "at": START + timedelta(minutes=minutes),
            "price": price,
            "tags": tags,
        }
        for file, line, shop, minutes, price, tags in rows
    ]
    path = tmp_path / "right.parquet"
    pl.DataFrame(made, schema_overrides={"price": pl.Float64}).write_parquet(path)
    return str(path)


def fix(lake, source, *, yes=True):
    return correct(lake.lakehouse, SALES, [PER_HOUR], source, BY, yes=yes, runners=lake.session)


def prices(lake, shop):
    return sorted(price for other, price in lake.rows("events.sales", "shop", "price") if other == shop)


def test_exactly_the_event_of_the_line_is_corrected_and_equal_ones_stay(lake, tmp_path):
    lake.run(PER_HOUR)
    source = right(tmp_path, ("a.ndjson", 2, "Oslo", 5, 11.5, ["a"]), ("b.ndjson", 3, "Rome", 20, 8.0, []))
    before = lake.rows("events.sales")
    shown = fix(lake, source, yes=False)
    assert (
        shown.rows["events.sales"],
        *(side["sales"]["price"].to_list() for side in (shown.before, shown.after)),
    ) == (
        2,
        [10.0, None],
        [11.5, 8.0],
    )
    assert lake.rows("events.sales") == before
    done = fix(lake, source)
    assert (done.rows, done.jobs) == ({"events.sales": 2}, ("per_hour",))
    assert prices(lake, "Oslo") == [7.0, *[10.0] * 4, 11.5]
    assert lake.rows("events.sales", "shop", "price").count(("Rome", 8.0)) == 1
    assert len(lake.rows("events.sales")) == len(before)
    lake.run(PER_HOUR, Incremental(START + timedelta(days=1)))
    # In whole numbers: four of ten, one of eleven.
    assert ("Oslo", 5, 51) in [(shop, n, cents) for shop, *_, n, cents in lake.rows("per_hour")]
    (audited,) = pl.read_delta(str(lake.lakehouse.monitoring("edits"))).rows(named=True)
    landing = lake.lakehouse.landing("sales")
    assert json.loads(audited["keys"])[0] == {"file": str(landing / "a.ndjson"), "line": 2}


def test_what_was_corrected_or_taken_out_is_not_looked_for_by_its_line_again(lake, tmp_path):
    fix(lake, right(tmp_path, ("a.ndjson", 2, "Oslo", 5, 11.5, ["a"])))
    take_out(lake, ("a", 4))
    now = prices(lake, "Oslo")
    with pytest.raises(InvalidData, match=r"the event of line 2 of .*a.ndjson was corrected"):
        fix(lake, right(tmp_path, ("a.ndjson", 2, "Oslo", 5, 12.5, ["a"])))
    with pytest.raises(InvalidData, match=r"the event of line 2 of .*a.ndjson was corrected"):
        take_out(lake, ("a", 2))
    with pytest.raises(NotFound, match=r"the event of line 4 of .*a.ndjson was taken out"):
        fix(lake, right(tmp_path, ("a.ndjson", 4, "Oslo", 5, 12.5, ["a"])))
    assert prices(lake, "Oslo") == now


@pytest.mark.parametrize("point", ["rewrite: files written", "rewrite: decided", "rewrite: events changed"])
def test_a_correction_that_was_cut_off_is_completed_and_changes_no_equal_event(lake, tmp_path, monkeypatch, point):
    lake.run(PER_HOUR)
    source = right(tmp_path, ("a.ndjson", 1, "Oslo", 5, 11.5, ["a"]))

    def cut(reached):
        if reached == point:
            raise OSError(5, "cut off")

    with monkeypatch.context() as patch:
        patch.setattr(fail_points, "act", cut)
        with pytest.raises(OSError, match="cut off"):
            fix(lake, source)
    (tmp_path / "other").mkdir()
    if point != "rewrite: files written":
        # Another correction of the event is not taken for the one that was cut off.
        with pytest.raises(InvalidData, match="was corrected"):
            fix(lake, right(tmp_path / "other", ("a.ndjson", 1, "Oslo", 5, 99.5, ["a"])))
    assert fix(lake, source).jobs == ("per_hour",)
    assert prices(lake, "Oslo").count(11.5) == 1
    lake.run(PER_HOUR)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"line": [2, 2]}, "the line is there twice in 2 rows"),
        ({"line": [2, 9]}, "line 9 of .* is no event of sales"),
        ({"shop": ["Oslo", None]}, r"shop is empty in 1 row \(row 2\)"),
        ({"file": None}, "lacks file"),
    ],
)
def test_a_file_of_right_events_that_names_no_line_is_refused(lake, tmp_path, changes, reason):
    source = right(tmp_path, ("a.ndjson", 1, "Oslo", 5, 1, []), ("a.ndjson", 2, "Oslo", 5, 1, []))
    frame = pl.read_parquet(source)
    for name, values in changes.items():
        frame = frame.drop(name) if values is None else frame.with_columns(pl.Series(name, values))
    frame.write_parquet(source)
    with pytest.raises((InvalidData, NotFound), match=reason):
        fix(lake, source)
