"""A job that is declared otherwise goes on in its generation, once all that is open was computed by the new declaration."""

import shutil

import polars as pl
import pytest

from keyfold import Input, Lakehouse
from keyfold.errors import IncompatibleState
from keyfold.keyed.conservation import assert_nothing_lost
from keyfold.keyed.generation.run_mode import Incremental
from keyfold.operators import count, interval_join, sum, windows
from keyfold.runs.reprocess import reprocess
from keyfold.state.changing.moving import plan_change
from tests.keyfold.runs.spans import WHY
from tests.lake import Lake, minutes
from tests.power_cuts import points_of
from tests.shop import CLICKS, MINUTE, ORDERS, PAYMENTS, orders, payments

DOUBLE, TRIPLE = pl.col("clicks") * 2, pl.col("clicks") * 3


def sales(worth=TRIPLE, where=None, **settings):
    source = CLICKS.derive(worth=worth)
    source = source if where is None else source.where(where)
    settings = {"of": {"worth": sum("worth"), "n": count()}, "length": "10m", **settings}
    return windows("sales", Input(source, columns=["user", "at", "worth"]), key="user", **settings)


@pytest.fixture
def sold(lake):
    lake.click(("ann", 1), ("bob", 12), ("ann", 25), ("ann", 44), ("bob", 45))
    lake.run(sales(DOUBLE))
    return lake


def again(lake, job, *span, **options):
    return reprocess(lake.lakehouse, job, *span, author=WHY, runners=lake.session, **{"yes": True, **options})


def worth(lake):
    return [row[-1] for row in lake.rows("sales", "window_start", "user", "worth")]


def test_the_job_goes_on_with_the_new_declaration_and_rows_before_the_span_stay(sold):
    with pytest.raises(IncompatibleState, match="declared otherwise"):
        sold.run(sales())
    told = again(sold, sales(), minutes(20), yes=False)
    assert (told.tables["sales"].counts.changed, told.tables["state"].counts.changed) == (1, 2)
    again(sold, sales(), minutes(20))
    assert (
        sold.live("sales")
        .journal.history(1)[0]
        .read.endswith("by ann: the prices were wrong; derive: worth: clicks * 2 → clicks * 3")
    )
    assert plan_change(sold.lakehouse, sales()).verdict == "free"
    sold.click(("ann", 46), ("bob", 58))
    sold.run(sales(), Incremental(advance_to=minutes(90)))
    assert worth(sold) == [2, 2, 3, 6, 3, 3]
    assert_nothing_lost(sold.lakehouse, sales())
    # Once more there is nothing to do, and the declaration of before is another one now.
    assert again(sold, sales(), minutes(20)).batch is None
    with pytest.raises(IncompatibleState, match="declared otherwise"):
        sold.run(sales(DOUBLE))


def test_a_declaration_is_taken_over_also_where_no_row_differs(lake):
    lake.click(("ann", 1), ("ann", 44))
    lake.run(sales(DOUBLE))
    assert again(lake, sales(pl.col("clicks") * 2 + 0), minutes(40)).batch == 1
    assert lake.run(sales(pl.col("clicks") * 2 + 0)).counts.events == 0
    assert_nothing_lost(lake.lakehouse, sales())


@pytest.mark.parametrize("span", [(minutes(0), minutes(20)), (minutes(41), None), (None, minutes(9000))])
def test_a_span_that_leaves_open_rows_of_the_old_declaration_is_refused(sold, span):
    with pytest.raises(
        IncompatibleState, match=r"clicks \* 2 → clicks \* 3\): all rows that are open must be computed again"
    ):
        again(sold, sales(), *span)
    sold.run(sales(DOUBLE), Incremental(advance_to=minutes(90)))
    assert worth(sold) == [2] * 5


@pytest.mark.parametrize(
    "job",
    [
        lambda: sales(where=pl.col("clicks") > 0),
        lambda: sales(of={"worth": sum("worth"), "most": sum("worth"), "n": count()}),
        lambda: sales(every="5m"),
    ],
    ids=["events that count", "a column", "state"],
)
def test_what_is_stored_or_counted_takes_a_move_or_a_refresh(sold, job):
    with pytest.raises(IncompatibleState, match=r"declared otherwise .* --full-refresh"):
        again(sold, job(), None)


@pytest.mark.parametrize("settings", [{"length": "20m"}, {"of": {"worth": sum(pl.col("worth") + 1), "n": count()}}])
def test_windows_and_aggregates_may_be_others(sold, settings):
    job = sales(**settings)
    again(sold, job, minutes(20))
    sold.run(job, Incremental(advance_to=minutes(90)))
    assert_nothing_lost(sold.lakehouse, job)
    lengths = {
        (end - start) / MINUTE
        for start, end in sold.rows("sales", "window_start", "window_end")
        if start >= minutes(20)
    }
    assert lengths == {20 if "length" in settings else 10}


def test_an_interval_may_be_another(lake):
    def joined(latest):
        right = Input(PAYMENTS, columns=["card", "paid_at", "amount"])
        left = Input(ORDERS, columns=["card", "ordered_at", "item"])
        return interval_join("paid", left, right, "card", earliest="0m", latest=latest, how="left")

    lake.put(orders(("a", 0, "x"), ("a", 30, "y"), ("a", 60, "z")), "orders")
    lake.put(payments(("a", 8, 1), ("a", 38, 2), ("a", 68, 3)), "payments")
    lake.run(joined("5m"))
    assert lake.rows("paid", "item", "amount") == [("x", None), ("y", None)]
    again(lake, joined("10m"), None)
    lake.run(joined("10m"), Incremental(advance_to=minutes(900)))
    assert lake.rows("paid", "item", "amount") == [("x", 1), ("y", 2), ("z", 3)]


def test_wherever_the_power_fails_one_of_the_two_declarations_goes_on(sold, monkeypatch, cut_power, tmp_path):
    def copied(name):
        shutil.copytree(sold.lakehouse.home, tmp_path / name)
        return Lake(Lakehouse(tmp_path / name), sold.session)

    def ended(lake, job):
        lake.run(job, Incremental(advance_to=minutes(90)))
        assert_nothing_lost(lake.lakehouse, job)
        return worth(lake)

    points = points_of(monkeypatch, lambda: again(copied("uncut"), sales(), minutes(20)))
    for number, (point, time) in enumerate(points):
        killed = copied(f"killed-{number}")
        assert cut_power(point, lambda lake=killed: again(lake, sales(), minutes(20)), time)
        is_decided = (killed.done("sales").replaced) is not None
        if is_decided:
            shutil.copytree(str(killed.lakehouse.home), tmp_path / f"run-{number}")
            assert ended(Lake(tmp_path / f"run-{number}", sold.session), sales()) == [2, 2, 3, 3, 3]
            again(killed, sales(), minutes(20))
            assert ended(killed, sales()) == [2, 2, 3, 3, 3], point
        else:
            assert ended(killed, sales(DOUBLE)) == [2] * 5, point
