"""A span that is computed again: what is told, refused and left alone, who reads the rows, and power that fails at any point."""

import shutil
from datetime import timedelta

import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable

import keyfold
from keyfold import Append, Input, KeyedJob, Lakehouse, RowTimes, State, Step, Stream, Upsert, required
from keyfold.errors import IncompatibleState, InvalidData, KeyfoldError, Misconfigured, NotFound
from keyfold.ingestion.event_rewrites import rewrites
from keyfold.keyed.conservation import assert_nothing_lost
from keyfold.keyed.generation.run_mode import Incremental
from keyfold.lakehouse.reading import scan_table
from keyfold.operators import Lateness, Top, count, running, sessions, sum, totals, windows
from keyfold.runs.reprocess import reprocess
from keyfold.stream import TIMESTAMP
from tests.keyfold.runs.spans import WHY, right, wrong
from tests.lake import LOCAL, Lake, minutes
from tests.power_cuts import points_of
from tests.shop import CLICK, CLICKS, USER

SPAN = (minutes(0), minutes(20))
ENDS = [USER, required("window_end", TIMESTAMP, "E"), ("worth", pl.Int64), ("n", pl.Int64)]


def sales(price=right, **settings):
    worth = pl.col("clicks").map_batches(price, return_dtype=pl.Int64)
    source = Input(CLICKS.derive(worth=worth), columns=["user", "at", "worth"])
    return windows(
        "sales", source, {"worth": sum("worth"), "n": count()}, **{"key": "user", "length": "10m", **settings}
    )


def hours(price=right):
    """A reader of the windows' table."""
    source = Input(sales(price).table(), "window_start", delay="10m")
    return windows("hours", source, {"worth": sum("worth"), "n": count()}, key="user", length="1h")


def again(lake, job, *span, **options):
    options = {"author": WHY, "yes": True, "runners": lake.session, **options}
    return reprocess(lake.lakehouse, job, *(span or SPAN), **options)


@pytest.fixture
def sold(lake):
    """Windows of ten minutes: the first three in one file, another one in its own; and an event that came late."""
    lake.click(("ann", 1), ("bob", 12), ("ann", 25), ("ann", 44))
    lake.run(sales(wrong))
    lake.click(("ann", 2), ("bob", 75))
    lake.run(sales(wrong))
    return lake


def worth(lake):
    return lake.rows("sales", "user", "window_start", "worth")


OLD = [("ann", minutes(0), 2), ("ann", minutes(20), 2), ("ann", minutes(40), 2), ("bob", minutes(10), 2)]
NEW = [("ann", minutes(0), 6), ("ann", minutes(20), 2), ("ann", minutes(40), 2), ("bob", minutes(10), 3)]


def test_a_span_is_replaced_in_one_version_and_the_history_says_by_whom(sold):
    table = sold.lakehouse.live_table("sales")
    version, files = DeltaTable(str(table)).version(), set(DeltaTable(str(table)).file_uris())
    told = again(sold, sales(), yes=False)
    assert (told.batch, worth(sold), told.consumers) == (None, OLD, ())
    counts = {
        name: (table.counts.added, table.counts.removed, table.counts.changed) for name, table in told.tables.items()
    }
    assert counts == {"sales": (0, 0, 2), "late.sales": (0, 1, 0)}
    done = again(sold, sales())
    assert (done.batch, worth(sold), sold.rows("late.sales")) == (2, NEW, [])
    delta = DeltaTable(str(table))
    note = "rows since 2026-01-01T00:00:00.000000Z until 2026-01-01T00:20:00.000000Z computed again by ann: the prices were wrong"
    assert (delta.version(), delta.history(1)[0]["keyfold"]) == (version + 1, note)
    # The version before is there as it was, and the file of the last window was not written again.
    before = pl.read_delta(str(table), version=version).select("user", "window_start", "worth")
    assert sorted(before.rows()) == OLD
    last = {path for path in files if (pl.read_parquet(path)["window_start"] >= SPAN[1]).all()}
    assert len(last) == 1
    assert last <= set(delta.file_uris())
    past = sold.live("sales").journal.history(1)[0]
    assert past.read.startswith(f"{note}; derive: worth: code changed")
    assert past.made == "2 in place of 2 sales, 0 in place of 1 late.sales; 1 open"
    edit = scan_table(sold.lakehouse.monitoring("edits")).collect().row(0, named=True)
    assert (edit["who"], edit["what"], edit["of"], edit["rows"]) == (
        "ann",
        "reprocessed",
        "sales",
        '{"sales": 0, "late.sales": -1}',
    )
    assert_nothing_lost(sold.lakehouse, sales())


def test_a_span_without_rows_or_differences_makes_no_batch(sold):
    assert again(sold, sales(), minutes(50), minutes(60)).batch is None
    assert again(sold, sales(wrong), minutes(10), minutes(20)).batch is None
    assert again(sold, sales(), minutes(9000), None).batch is None
    with pytest.raises(Misconfigured, match=r"since, .*, is not before until"):
        again(sold, sales(), minutes(20), minutes(20))


def test_times_without_a_zone_are_of_utc(sold):
    again(sold, sales(), *(time.replace(tzinfo=None) for time in SPAN))
    assert worth(sold) == NEW


PAST = {
    "totals": (lambda: totals("t", CLICKS, {"n": count()}, key="user"), r"\(totals\)"),
    "running": (lambda: running("t", CLICKS, {"n": count()}, key="user"), r"\(running\)"),
    "sessions": (
        lambda: sessions("t", CLICKS, {"n": count()}, key="user", gap="5m"),
        "may have begun at any time before",
    ),
}


@pytest.mark.parametrize("kind", PAST)
def test_a_job_whose_rows_depend_on_all_of_the_past_names_what_to_do_instead(lake, kind):
    job, reason = PAST[kind]
    lake.click(("ann", 1))
    lake.run(job())
    with pytest.raises(IncompatibleState, match=f"{reason}.*`keyfold try t BRANCH .*`keyfold promote t BRANCH "):
        again(lake, job())


def test_a_table_without_the_time_of_its_rows_is_named(lake):
    job = sales(output=[USER, ("n", pl.Int64)])
    lake.click(("ann", 1))
    lake.run(job)
    with pytest.raises(IncompatibleState, match=r"its table sales has no time of a row \(window_start or window_end\)"):
        again(lake, job)


def test_a_job_that_has_not_run_or_is_declared_otherwise_is_refused(lake, sold):
    with pytest.raises(NotFound, match="has never run"):
        again(lake, windows("other", CLICKS, {"n": count()}, key="user", length="10m"))
    with pytest.raises(IncompatibleState, match="declared otherwise"):
        again(sold, sales(length="5m"))


def test_the_end_of_a_window_is_enough(sold, tmp_path):
    job = sales(output=ENDS)
    lake = Lake(tmp_path / "ends", LOCAL)
    lake.click(("ann", 1), ("bob", 12), ("ann", 44))
    lake.run(sales(wrong, output=ENDS))
    again(lake, job, minutes(0), minutes(10))
    assert lake.rows("sales", "user", "window_end", "worth") == [("ann", minutes(10), 3), ("bob", minutes(20), 2)]


def test_the_ranks_of_windows_are_replaced_in_all_tables(lake):
    def best(price):
        latest = Upsert(
            [required("window_start", TIMESTAMP, "W"), required("rank", pa.int64(), "R"), ("user", pa.string()), ("worth", pa.int64())],
            ("window_start", "rank"), name="now", events=pl.lit(0),
        )  # fmt: skip
        return sales(price, key=(), by="user", top=Top(n=1, highest="worth", latest=latest))

    lake.click(("ann", 1), ("bob", 2), ("bob", 3), ("cat", 14), ("ann", 29))
    lake.run(best(wrong))
    lake.click(("ann", 2), ("ann", 4))
    lake.run(best(wrong))
    again(lake, best(right), minutes(0), minutes(10))
    assert lake.rows("sales", "window_start", "rank", "user", "worth") == [
        (minutes(0), 1, "ann", 9), (minutes(10), 1, "cat", 2)
    ]  # fmt: skip
    assert lake.rows("now", "window_start", "user", "worth") == [
        (minutes(0), "ann", 9), (minutes(10), "cat", 2), (minutes(20), "ann", 2)
    ]  # fmt: skip
    assert lake.rows("sales_windows", "window_start", "worth", "n_groups")[0] == (minutes(0), 15, 2)
    assert lake.rows("late.sales") == []
    assert_nothing_lost(lake.lakehouse, best(right))


def test_changes_say_what_became_of_each_row(lake):
    def corrected(price):
        return sales(price, lateness=Lateness(allowed="30m", changes=True))

    lake.click(("ann", 1), ("bob", 12), ("ann", 44))
    lake.run(corrected(wrong))
    done = again(lake, corrected(right), minutes(0), minutes(10))
    changes = scan_table(lake.lakehouse.table("changes.sales")).filter(change=done.batch).collect()
    assert changes.select("user", "worth", "worth_before", "is_new").rows() == [("ann", 3, 2, False)]
    assert_nothing_lost(lake.lakehouse, corrected(right))


def handwritten(factor=1, **settings):
    """Clicks of each hour by a step of one's own; `odd` lets the rows count more events than there are."""

    def step(state, events, clock):
        new = events.select(
            "user", hour=pl.col("at").dt.truncate("1h"), clicks=pl.col("clicks") * factor, n=pl.lit(1, pl.Int64)
        )
        rows = pl.concat([state.drop("deadline"), new]).group_by("user", "hour").agg(pl.col("clicks", "n").sum())
        rows = rows.with_columns(deadline=pl.col("hour") + timedelta(hours=1))
        over = pl.col("deadline") <= clock.watermark
        return Step(state=rows.filter(~over), output=rows.filter(over).drop("deadline"))

    hour = [USER, required("hour", TIMESTAMP, "Hour"), ("clicks", pl.Int64), ("n", pl.Int64)]
    source = Input(CLICKS, columns=CLICK, final_at=pl.col("at").dt.truncate("1h") + timedelta(hours=1))
    counted = pl.col(settings.pop("counted", "n")).sum()
    times = {"of_state": pl.col("hour"), "of_late": pl.col("at").dt.truncate("1h"), "after": "1h"}
    row_times = RowTimes(settings.pop("time", "hour"), **times)
    state = State([*hour, ("deadline", TIMESTAMP)], events=pl.col("n").sum())
    return KeyedJob("hourly", source, "user", state, step, Append(hour, events=counted), row_times=row_times)


def test_a_step_of_ones_own_says_to_which_time_its_rows_belong(lake):
    lake.click(("ann", 1), ("bob", 62), ("ann", 130), ("ann", 131))
    lake.run(handwritten())
    lake.click(("ann", 2))
    lake.run(handwritten())
    again(lake, handwritten(10), minutes(60), None)
    assert lake.rows("hourly", "user", "hour", "clicks") == [("ann", minutes(0), 1), ("bob", minutes(60), 10)]
    lake.run(handwritten(10), Incremental(advance_to=minutes(200)))
    assert lake.rows("hourly", "user", "hour", "clicks")[1] == ("ann", minutes(120), 20)
    assert_nothing_lost(lake.lakehouse, handwritten(10))
    with pytest.raises(Misconfigured, match="row_times: day is not in table hourly"):
        handwritten(time="day")
    with pytest.raises(Misconfigured, match="of_rows, in table hourly is Int64; it must be a time"):
        handwritten(time="clicks")


def test_rows_that_would_stand_for_other_events_are_refused(lake):
    lake.click(("ann", 1), ("ann", 130))
    lake.run(handwritten(counted="clicks"))
    with pytest.raises(InvalidData, match="stand for 1 events, and would for 10"):
        again(lake, handwritten(10, counted="clicks"), minutes(0), minutes(60))
    assert lake.rows("hourly", "clicks") == [(1,)]


def test_private_values_are_masked(lake):
    secret = Stream("clicks", CLICK, event_time="at", private=("user",))

    def job(price):
        derived = secret.derive(worth=pl.col("clicks").map_batches(price, return_dtype=pl.Int64))
        source = Input(derived, columns=["user", "at", "worth"])
        return windows("sales", source, {"worth": sum("worth")}, key="user", length="10m")

    lake.click(("ann", 1), ("bob", 44))
    lake.run(job(wrong))
    told = again(lake, job(right), None, None, yes=False)
    for name in ("sales", "state"):
        assert told.tables[name].counts.changed == 1
        assert set(told.tables[name].rows["user"]) == {"(private)"}
    assert "ann" not in repr(told.tables["sales"].rows.to_dicts())


def test_events_that_the_job_has_not_read_do_not_count_yet(sold):
    sold.click(("ann", 3))
    again(sold, sales())
    assert worth(sold) == NEW
    sold.run(sales())
    assert len(sold.rows("late.sales")) == 1
    assert_nothing_lost(sold.lakehouse, sales())
    sold.click(("ann", 4))
    DeltaTable(str(sold.lakehouse.events("clicks"))).optimize.compact()
    with pytest.raises(KeyfoldError, match="compacted since: run it first"):
        again(sold, sales())


@pytest.fixture
def chained(sold):
    sold.run(hours(wrong))
    sold.click(("ann", 200))
    for job in (sales(wrong), hours(wrong)):
        sold.run(job)
    return sold


def of_hours(lake):
    return lake.rows("hours", "user", "window_start", "worth")


def test_a_reader_of_the_rows_reads_them_again(chained):
    with pytest.raises(KeyfoldError, match=r"job hours reads tables of sales, .*give its declaration"):
        again(chained, sales())
    assert of_hours(chained) == [("ann", minutes(0), 6), ("bob", minutes(0), 2), ("bob", minutes(60), 2)]
    done = again(chained, sales(), jobs=[sales(), hours()])
    assert ([run.job for run in done.runs], done.consumers) == (["hours"], ("hours",))
    assert of_hours(chained) == [("ann", minutes(0), 10), ("bob", minutes(0), 3), ("bob", minutes(60), 2)]
    for job in (sales(), hours()):
        assert chained.run(job).counts.events == 0
        assert_nothing_lost(chained.lakehouse, job)


def test_a_reader_that_has_not_read_the_rows_goes_on(sold):
    sold.click(("ann", 500))
    sold.run(hours(wrong))
    before = sold.live("hours").identity
    sold.click(("ann", 600))
    sold.run(sales(wrong))
    done = again(sold, sales(), minutes(490), minutes(510), jobs=[hours()])
    assert (done.consumers, sold.live("hours").identity) == ((), before)
    sold.run(hours())
    assert_nothing_lost(sold.lakehouse, hours())


def test_a_producer_that_is_ahead_closes_no_window(sold):
    sold.click(("bob", 100))
    for job in (sales(wrong), hours(wrong)):
        sold.run(job)
    assert sold.done("hours").open_events == 1
    before = of_hours(sold)
    sold.click(("ann", 300))
    sold.run(sales(wrong))
    assert again(sold, hours(wrong), minutes(0), None).batch is None
    assert of_hours(sold) == before
    sold.run(hours(wrong))
    assert_nothing_lost(sold.lakehouse, hours(wrong))


def test_wherever_the_power_fails_all_rows_are_old_or_new_and_the_call_can_be_repeated(
    chained, monkeypatch, cut_power, tmp_path
):
    def copied(name, lake=chained):
        shutil.copytree(lake.lakehouse.home, tmp_path / name)
        return Lake(Lakehouse(tmp_path / name), lake.session)

    def rows(lake):
        return {name: lake.rows(name) for name in ("sales", "late.sales", "hours", "late.hours")}

    def go_on(lake):
        for job in (sales(), hours()):
            keyfold.run(lake.lakehouse, job, runners=lake.session)
            keyfold.assert_nothing_lost(lake.lakehouse, job)
        assert not rewrites(lake.lakehouse)
        return rows(lake)

    uncut = copied("uncut")
    points = points_of(monkeypatch, lambda: again(uncut, sales(), jobs=[hours()]))
    old, new = rows(chained), go_on(uncut)
    assert old != new
    for number, (point, time) in enumerate(points):
        killed = copied(f"killed-{number}")
        assert cut_power(point, lambda lake=killed: again(lake, sales(), jobs=[hours()]), time)
        assert killed.rows("sales") in (old["sales"], new["sales"])
        # The next runs finish it, or nothing of it is there.
        assert go_on(copied(f"run-{number}", killed)) in (old, new), f"{point} {time}"
        again(killed, sales(), jobs=[hours()])
        assert go_on(killed) == new, f"called again after {point} {time}"
