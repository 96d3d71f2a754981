"""Events that were wrong are replaced, and all that was made of them is as if they had been right from the beginning."""

import json
from datetime import timedelta

import polars as pl
import pytest
from deltalake import DeltaTable

import keyfold
from keyfold.errors import KeyfoldError
from keyfold.journal.audit import Author
from keyfold.keyed.generation.run_mode import Incremental
from keyfold.runs.event_changes import correct
from tests.keyfold.keyed.toy_jobs import windows
from tests.keyfold.runs.ruled_clicks import CLICKS, events
from tests.lake import Lake
from tests.shop import START

JOB = windows(stream=CLICKS)
BY = Author("ann@example.org", "the counter was wrong")
WRONG = [[("ann", 1, 1), ("bob", 2, 100)], [("ann", 12, 1), ("bob", 31, 7)]]
RIGHT = [("bob", 2, 2), ("bob", 31, 3), ("ann", 1, 1)]


def begun(folder, deliveries):
    lake = Lake(folder)
    for rows in deliveries:
        lake.land(CLICKS, events(*rows))
        lake.run(JOB)
    return lake


@pytest.fixture
def lake(tmp_path):
    return begun(tmp_path / "home", WRONG)


@pytest.fixture
def right(tmp_path):
    """A file with the right values of two events, and with a third that is as it was."""
    events(*RIGHT).write_parquet(tmp_path / "right.parquet")
    return str(tmp_path / "right.parquet")


def ended(lake):
    """The rows of the job's table once all time has passed."""
    lake.run(JOB, Incremental(START + timedelta(days=1)))
    return lake.rows("windows")


def contents(home):
    """All files but the record of live generations, which also has the number of the last one that was removed."""
    return {path: path.read_bytes() for path in home.rglob("*") if path.is_file() and path.name != "live.json"}


def test_what_was_corrected_is_as_if_it_had_been_right_from_the_beginning(lake, right, tmp_path):
    table = lake.lakehouse.events("clicks")
    version = DeltaTable(str(table)).version()
    files = contents(lake.lakehouse.home)
    # What a look that was killed leaves.
    (lake.lakehouse.home / "aside" / "clicks-corrected" / "_delta_log").mkdir(parents=True)
    shown = correct(lake.lakehouse, CLICKS, [JOB], right, BY, runners=lake.session)
    assert (shown.rows, shown.jobs, shown.runs) == ({"events.clicks": 2}, ("windows",), ())
    assert [side["clicks"]["clicks"].to_list() for side in (shown.before, shown.after)] == [[100, 7], [2, 3]]
    assert contents(lake.lakehouse.home) == files
    done = correct(lake.lakehouse, CLICKS, [JOB], right, BY, yes=True, runners=lake.session)
    assert done.rows == shown.rows
    for one in (shown, done):
        change = one.tables["windows"]
        assert (change.counts.changed, change.counts.added, change.counts.removed) == (1, 0, 0)
        assert [change.rows[side][0][0]["clicks"] for side in ("before", "after")] == [100, 2]
    never_wrong = begun(tmp_path / "other", [[("ann", 1, 1), ("bob", 2, 2)], [("ann", 12, 1), ("bob", 31, 3)]])
    assert ended(lake) == ended(never_wrong)
    # The older version is in the table's history, and the events came when they came.
    old, new = (pl.read_delta(str(table), version=one).sort("user", "at") for one in (version, None))
    assert old["clicks"].to_list() == [1, 1, 100, 7]
    assert new["clicks"].to_list() == [1, 1, 2, 3]
    assert old["ingested_at"].equals(new["ingested_at"])
    audited = pl.read_delta(str(lake.lakehouse.monitoring("edits"))).row(0, named=True)
    assert (audited["who"], audited["what"], audited["of"]) == (BY.who, "corrected", "clicks")
    assert [key["user"] for key in json.loads(audited["keys"])] == ["bob", "bob"]
    # The job goes on; what was right is a copy when it lands again, and what was wrong is not accepted.
    lake.land(CLICKS, events(("cat", 2000, 1), *RIGHT, *WRONG[0]))
    assert lake.run(JOB).counts.events == 1
    refused = pl.read_delta(str(lake.lakehouse.quarantine("clicks")))
    assert [json.loads(raw)["clicks"] for raw in refused["raw"]] == [100]


@pytest.mark.parametrize(
    "point",
    ["rewrite: files written", "rewrite: decided", "rewrite: events changed", "done: after", "generation: live"],
)
@pytest.mark.parametrize("by_run", [False, True], ids=["by the same call", "by the next run"])
def test_a_correction_that_was_cut_off_is_finished_by_the_same_call_and_by_the_next_run(
    lake, right, cut_power, point, by_run
):
    def again():
        return correct(lake.lakehouse, CLICKS, [JOB], right, BY, yes=True, runners=lake.session)

    assert cut_power(point, again)
    if by_run:
        keyfold.run(lake.lakehouse, JOB, runners=lake.session)
    if not by_run or point == "rewrite: files written":
        again()
    assert not list((lake.lakehouse.home / "rewrites").glob("*.json"))
    assert ended(lake) == [(user, START + timedelta(minutes=at), clicks) for user, at, clicks in OF_RIGHT]


OF_RIGHT = [("ann", 0, 1), ("ann", 10, 1), ("bob", 0, 2), ("bob", 30, 3)]


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        (
            events(("dan", 1, 1)),
            r"the id of 1 event is not in events.clicks \(such as .*dan.*has to land as any other",
        ),
        (events(("bob", 2, -1)), r"clicks is negative in 1 row \(row 1\)"),
        (events(("bob", 2, 1), ("bob", 2, 3)), r"the id is there twice in 2 rows \(row 1, 2\)"),
        (events(("bob", 2, 1)).drop("clicks"), r"lacks clicks; give all columns of stream clicks, user, at, clicks"),
        (events(("bob", 2, 1)).with_columns(clicks=pl.lit("many")), r"clicks is no Int64 in 1 row \(row 1\)"),
        (events(("bob", 2, 1)).with_columns(user=pl.lit(None, pl.String)), r"user is empty in 1 row \(row 1\)"),
    ],
)
def test_a_correction_that_cannot_be_says_why_and_changes_nothing(lake, tmp_path, rows, why):
    rows.write_parquet(tmp_path / "wrong.parquet")
    files = set(lake.lakehouse.home.rglob("*.parquet"))
    with pytest.raises(KeyfoldError, match=why):
        correct(lake.lakehouse, CLICKS, [JOB], str(tmp_path / "wrong.parquet"), BY, yes=True, runners=lake.session)
    assert set(lake.lakehouse.home.rglob("*.parquet")) == files
