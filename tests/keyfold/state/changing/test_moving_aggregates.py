"""A move of a job's state and tables to other aggregates, in a lakehouse."""

import polars as pl
import pytest

from keyfold import Input, Stream, required
from keyfold import operators as op
from keyfold.errors import IncompatibleState, KeyfoldError
from keyfold.journal.audit import Author
from keyfold.keyed.conservation import assert_nothing_lost
from keyfold.keyed.generation.run_mode import Incremental
from keyfold.state.changing.editing import Edit, edit_state
from keyfold.state.changing.moving import move
from tests.lake import LOCAL, Lake
from tests.shop import HOUR, MINUTE, NOON

SALES = Stream(
    "sales",
    [required("item", pl.String, "What"), required("at", pl.Datetime("us", "UTC"), "When"), ("price", pl.Int64)],
    event_time="at",
)
BEFORE = {"n": op.count(), "revenue": op.sum("price")}
AFTER = {"n": op.count(), "dearest": op.max("price"), "prices": op.collect("price")}
JOBS = {
    "windows": lambda of: op.windows("w", Input(SALES, delay="5m"), of, key="item", length="1h"),
    "sessions": lambda of: op.sessions("w", Input(SALES, delay="5m"), of, key="item", gap="20m"),
    "totals": lambda of: op.totals("w", SALES, of, key="item"),
    "changing totals": lambda of: op.totals("w", SALES, of, key="item", changes=True),
}


@pytest.fixture
def lake(tmp_path):
    return Lake(tmp_path)


def sold(lake, *sales):
    kinds = {"item": pl.String, "at": pl.Datetime("us", "UTC"), "price": pl.Int64}
    lake.land(
        SALES,
        pl.DataFrame([(item, NOON + minute * MINUTE, price) for item, minute, price in sales], kinds, orient="row"),
    )


def moved(lake, job, **options):
    return move(lake.lakehouse, job, yes=True, runners=LOCAL, **options)


@pytest.mark.parametrize("name", JOBS)
def test_rows_that_are_written_have_null_and_what_is_gone_is_left_out(lake, name):
    before, after = JOBS[name](BEFORE), JOBS[name](AFTER)
    sold(lake, ("tea", 0, 3), ("tea", 1, 5), ("tea", 70, 4), ("cup", 70, 1))
    lake.run(before)
    moved(lake, after)
    table = after.tables[0].name
    assert set(lake.rows(table, "dearest")) <= {(None,)}
    assert "revenue" not in pl.read_delta(str(lake.lakehouse.table(table))).columns
    sold(lake, ("tea", 71, 7), ("pot", 72, 9), ("cup", 200, 2), ("cup", 201, 6))
    lake.run(after)
    lake.run(after, Incremental(advance_to=NOON + 9 * HOUR))
    assert_nothing_lost(lake.lakehouse, after)
    rows = {
        (item, n): (dearest, prices) for item, n, dearest, prices in lake.rows(table, "item", "n", "dearest", "prices")
    }
    if "totals" in name:
        # They count from the move on.
        assert rows == {("tea", 4): (7, [7]), ("cup", 3): (6, [2, 6]), ("pot", 1): (9, [9])}
    else:
        # Two of tea: the row of noon, and that of an hour later, which was open.
        assert rows == {
            ("tea", 2): (None, None), ("cup", 1): (None, None), ("cup", 2): (6, [2, 6]), ("pot", 1): (9, [9]),
        }  # fmt: skip


def test_a_column_that_was_left_out_does_not_come_back_with_its_old_values(lake):
    before, without = JOBS["windows"](BEFORE), JOBS["windows"]({"n": op.count()})
    again = JOBS["windows"]({"n": op.count(), "revenue": op.sum(pl.col("price") * 100)})
    sold(lake, ("tea", 0, 3), ("tea", 70, 4))
    lake.run(before)
    moved(lake, without)
    with pytest.raises(IncompatibleState, match=r"still have revenue from before it was left out, .* another name"):
        moved(lake, again)
    assert lake.rows("w") == [("tea", NOON, NOON + HOUR, 1)]
    moved(lake, JOBS["windows"]({"n": op.count(), "hundredfold": op.sum(pl.col("price") * 100)}))
    assert lake.rows("w", "hundredfold") == [(None,)]


def test_a_run_with_other_aggregates_names_them_and_the_move(lake):
    sold(lake, ("tea", 0, 3))
    lake.run(JOBS["totals"](BEFORE))
    with pytest.raises(IncompatibleState, match=r"aggregates: dearest.*keyfold plan w"):
        lake.run(JOBS["totals"](AFTER))


@pytest.mark.parametrize("partitions", [None, 3])
@pytest.mark.parametrize("name", JOBS)
def test_history_gives_to_what_is_open_what_it_would_have_been(lake, name, partitions):
    before, after = JOBS[name](BEFORE), JOBS[name](AFTER)
    sold(lake, ("tea", 0, 3), ("tea", 1, 5), ("tea", 3, 6), ("tea", 70, 4), ("cup", 70, 1))
    lake.run(before)
    # Late for all but totals; and not read yet by the move.
    sold(lake, ("tea", 2, 50))
    lake.run(before)
    sold(lake, ("tea", 71, 7), ("cup", 72, 2))
    moved(lake, after, partitions=partitions, from_history=True)
    assert not (lake.lakehouse.job("w") / "branches" / "from-history").exists()
    lake.run(after)
    lake.run(after, Incremental(advance_to=NOON + 9 * HOUR))
    assert_nothing_lost(lake.lakehouse, after)
    rows = {
        (item, n): (dearest, prices) for item, n, dearest, prices in lake.rows("w", "item", "n", "dearest", "prices")
    }
    if "totals" in name:
        assert rows == {("tea", 6): (50, [3, 5, 50, 6, 4, 7]), ("cup", 2): (2, [1, 2])}
    else:
        assert rows == {("tea", 3): (None, None), ("tea", 2): (7, [4, 7]), ("cup", 2): (2, [1, 2])}


def test_history_gives_nothing_to_a_row_that_it_would_make_otherwise(lake):
    before, after = JOBS["totals"](BEFORE), JOBS["totals"](AFTER)
    sold(lake, ("tea", 0, 3), ("cup", 1, 5))
    lake.run(before)
    edit_state(
        lake.lakehouse, before, Edit(("tea",), {"n": "n + 1"}, Author("ann", "one was lost")), yes=True, runners=LOCAL
    )
    moved(lake, after, from_history=True)
    sold(lake, ("tea", 2, 1), ("cup", 3, 1))
    lake.run(after)
    assert lake.rows("w", "item", "n", "dearest") == [("cup", 2, 5), ("tea", 3, 1)]


def test_history_is_of_aggregates_that_are_new(lake):
    sold(lake, ("tea", 0, 3))
    lake.run(JOBS["totals"](BEFORE))
    with pytest.raises(KeyfoldError, match="no aggregate is new"):
        moved(lake, JOBS["totals"]({"n": op.count()}), from_history=True)
