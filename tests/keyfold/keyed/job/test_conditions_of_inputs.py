"""Conditions on what a job reads: rows that one leaves out reach no step, and are accounted for. Without Spark but where counted."""

from datetime import timedelta
from functools import partial

import polars as pl
import pyarrow as pa
import pytest

from keyfold import TestHarness
from keyfold.errors import KeyfoldError
from keyfold.journal.audit import Author
from keyfold.keyed.conservation import check_conservation
from keyfold.keyed.generation.run_mode import FullRefresh, Incremental
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.inputs import STEP_DECIDES, Input
from keyfold.keyed.job.state import State
from keyfold.keyed.job.step import Step
from keyfold.keyed.job.tables import Append
from keyfold.operators import Last, Lateness, count, rows, totals
from keyfold.operators import windows as windows_of
from keyfold.runs.event_changes import erase
from keyfold.state.changing.moving import plan_change
from keyfold.state.making.seeding import SeedSource, seed_job
from keyfold.stream import Stream
from tests.keyfold.keyed.toy_jobs import windows
from tests.shop import CLICK, START

KINDS = pa.schema([*CLICK, ("kind", pa.string())])
CLICKS = Stream("clicks", KINDS, event_time="at")
COUNTED = {"n": count()}
of_hours = partial(windows_of, length="1h", lateness=Lateness(allowed="1h"))
BUY = pl.col("kind") == "buy"
SEEN = pa.schema([CLICK.field("user"), pa.field("at", CLICK.field("at").type, nullable=False)])


def buys(where: pl.Expr | None = BUY, **changes) -> KeyedJob:
    """Purchases among the clicks of a user, in each ten minutes; the step does not see the kind."""
    return windows(stream=CLICKS if where is None else CLICKS.where(where), **changes)


def of_kinds(*rows) -> pl.DataFrame:
    """Clicks of (user, minutes after START, kind)."""
    return pl.DataFrame(
        [(user, START + timedelta(minutes=at), 1, kind) for user, at, kind in rows],
        schema={"user": pl.String, "at": pl.Datetime("us", "UTC"), "clicks": pl.Int64, "kind": pl.String},
        orient="row",
    )


@pytest.fixture
def land(lake):
    """Put clicks into the event table, one file a call; of some there is no column `kind` yet."""
    options = {"delta_write_options": {"schema_mode": "merge"}}
    return lambda *rows, old=False: lake.put(of_kinds(*rows).drop(["kind"] if old else []), **options)


def test_rows_that_a_condition_leaves_out_reach_no_step_and_move_event_time(lake, land):
    land(("ann", 0, "buy"), old=True)
    land(("ann", 1, "buy"), ("ann", 2, "look"), ("ann", 3, None), ("bob", 4, "look"), ("cid", 40, "look"))
    summary = lake.run(buys())
    # Of the old file nothing is known, so the condition is NULL; and nobody bought at 00:40, which closes the window.
    assert lake.rows("windows") == [("ann", START, 1)]
    assert summary.counts.events == 1
    assert lake.rows("late.windows") == []


def two_inputs(**conditions) -> KeyedJob:
    """The first look and the first purchase of each user, of one stream; rows as they come."""
    inputs = {
        kind: Input(CLICKS.where(where), columns=SEEN, final_at=STEP_DECIDES)
        for kind, where in ({kind: pl.col("kind") == kind for kind in ("look", "buy")} | conditions).items()
    }
    output = pa.schema([SEEN.field("user"), ("what", pa.string())])

    def step(state, events, clock):
        return Step(state=state, output=pl.concat([events[what].select("user", what=pl.lit(what)) for what in inputs]))

    state = State(pa.schema([SEEN.field("user")]), events=pl.lit(0))
    return KeyedJob("steps", inputs, "user", state, step, Append(output), key_groups=2)


def test_two_inputs_may_be_parts_of_one_stream(lake, land):
    land(("ann", 0, "look"), ("ann", 1, "buy"), ("bob", 2, "look"), ("cid", 3, None))
    lake.run(two_inputs())
    assert lake.rows("steps") == [("ann", "buy"), ("ann", "look"), ("bob", "look")]
    done = lake.done("steps")
    assert (done.total_events, done.total_by_input) == (3, {"look": 2, "buy": 1})


def test_a_condition_goes_before_the_copies_of_an_event(lake, lakehouse, minutes):
    names = pa.field("names", pa.list_(pa.string()))
    stream = Stream("clicks", pa.schema([*KINDS, names]), event_time="at")
    # A list that has no key, which a run would refuse, is left out.
    came = of_kinds(("-", 0, "buy"), ("-", 1, "look"), ("-", 2, "buy")).drop("user")
    came = came.with_columns(names=pl.Series([["ann", "bob"], None, ["ann"]]))
    lake.put(came)
    job = windows(stream=stream.explode("user", pl.col("names")).where(BUY))
    lake.run(job, Incremental(advance_to=minutes(60)))
    assert lake.rows("windows") == [("ann", START, 2), ("bob", START, 1)]
    assert came.select(job.inputs["clicks"].taken).item() == 3


@pytest.mark.parametrize(
    ("where", "why"),
    [
        (pl.col("knid") == "buy", r"names knid; events.clicks has user, at, clicks, kind, ingested_at"),
        (pl.col("kind"), "it must be true or false by columns of events.clicks"),
        (pl.lit(value=True), "it must be true or false by columns of events.clicks"),
        (pl.col("kind") > 3, "does not fit events.clicks: cannot compare string with numeric"),
    ],
)
def test_what_is_no_condition_on_the_table_is_refused_where_the_job_is_made(where, why):
    with pytest.raises(KeyfoldError, match=f"job windows: input clicks: where.*{why}"):
        buys(where)
    with pytest.raises(KeyfoldError, match=f"job steps: input buy: where.*{why}"):
        two_inputs(buy=where)


def test_another_condition_needs_a_refresh(lake, lakehouse, land):
    land(("ann", 0, "buy"), ("bob", 1, "look"), ("cid", 40, "look"))
    lake.run(buys())
    with pytest.raises(KeyfoldError, match=r"where: kind == 'buy' → kind == 'look'.*--full-refresh"):
        lake.run(buys(pl.col("kind") == "look"))
    assert plan_change(lakehouse, buys(None)).verdict == "refresh"
    lake.run(buys(None), FullRefresh())
    assert lake.rows("windows") == [("ann", START, 1), ("bob", START, 1)]


def test_an_error_quotes_no_private_column_that_a_condition_asks_for():
    private = Stream("clicks", KINDS, event_time="at", private=("kind",))
    assert windows(stream=private.where(BUY)).private == {"kind"}


def test_what_a_condition_leaves_out_is_counted_and_a_lost_event_shows(lake, lakehouse, land, tmp_path):
    land(("ann", 0, "buy"), ("ann", 2, "look"), ("eva", 3, None), ("eva", 4, "buy"))
    land(("cid", 40, "look"), ("cid", 41, "buy"))
    lake.run(buys())
    # Not read yet: the job knows nothing of it.
    land(("dan", 50, "buy"), ("dan", 51, "look"))
    found = check_conservation(lakehouse, buys())
    assert found.balanced
    assert (found.events_read, found.in_outputs, found.open_events, found.left_out) == (3, 2, 1, 3)
    assert not check_conservation(lakehouse, buys(BUY | pl.col("kind").is_null())).balanced
    # The rows of a person that the condition leaves out are no events of the job, before and after.
    erase(
        lakehouse,
        CLICKS,
        [buys()],
        {"user": ["eva"]},
        Author("dpo@example.org", "request 17"),
        yes=True,
        runners=lake.session,
    )
    found = check_conservation(lakehouse, buys())
    assert found.balanced
    # The erasure's replay has read what had come since.
    assert (found.events_read, found.left_out) == (3, 3)
    lake.run(buys())
    assert check_conservation(lakehouse, buys()).balanced
    pl.DataFrame({"user": ["ann"], "window": [START], "clicks": [5], "deadline": [START]}).write_parquet(
        tmp_path / "state.parquet"
    )
    told = seed_job(
        lakehouse,
        buys(),
        SeedSource(str(tmp_path / "state.parquet"), read_from="latest"),
        yes=True,
        runners=lake.session,
    )
    live = lake.live("windows")
    assert live.origin is not None
    assert (live.origin.events_skipped, told.new_rows) == (3, 0)
    lake.run(buys())
    assert check_conservation(lakehouse, buys()).balanced


@pytest.mark.parametrize(
    "make", [partial(rows, keep=Last()), partial(totals, of=COUNTED), partial(of_hours, of=COUNTED)]
)
def test_a_column_that_may_be_null_is_a_key_where_a_condition_leaves_such_events_out(make):
    events = of_kinds(("ann", 0, "buy"), ("bob", 1, None), ("cid", 2, "look"))
    harness = TestHarness(make("kinds", CLICKS.where(pl.col("kind").is_not_null()), key="kind"))
    harness.batch(events)
    harness.batch(advance_to=START + timedelta(days=1))
    assert sorted(harness.written["kinds"]["kind"]) == ["buy", "look"]
    harness.assert_nothing_lost()
    with pytest.raises(KeyfoldError, match="key column kind may be NULL"):
        make("kinds", CLICKS, key="kind")
