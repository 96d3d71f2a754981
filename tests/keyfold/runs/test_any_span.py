"""Whatever has come, in whatever order and runs: the rows of a span are those of plain Python after a reprocess, and no others changed."""

from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold import Input, read_table
from keyfold.keyed.conservation import assert_nothing_lost
from keyfold.keyed.generation.run_mode import Incremental
from keyfold.keyed.job_run import RunOptions, watermark
from keyfold.operators import Calendar, Lateness, count, sum, windows
from keyfold.runners import Runners
from keyfold.runs.reprocess import reprocess
from keyfold.state.changing.trying import try_job
from tests.examples import examples
from tests.keyfold.runs.spans import EDGES, MOMENT, WHY, in_span, right, stored, wrong
from tests.lake import Lake
from tests.shop import CLICKS, HOUR, MINUTE

# Clocks go forward on 29 March in Berlin, at 01:00 UTC.
START = datetime(2026, 3, 27, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")


def spans_of(length, every):
    """The windows of a time, each with its end."""

    def of(time):
        last = EPOCH + (time - EPOCH) // every * every
        starts = (last - number * every for number in range(length // every))
        return [(start, start + length) for start in starts]

    return of


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def days_of(time):
    day = time.astimezone(BERLIN).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    ends = (day.replace(tzinfo=BERLIN), (day + timedelta(days=1)).replace(tzinfo=BERLIN))
    return [tuple(end.astimezone(UTC) for end in ends)]


SHAPES = {
    "windows": ({"length": "10m"}, spans_of(10 * MINUTE, 10 * MINUTE), MINUTE),
    "overlapping": ({"length": "20m", "every": "10m"}, spans_of(20 * MINUTE, 10 * MINUTE), MINUTE),
    "days": ({"length": Calendar("day", "Europe/Berlin")}, days_of, HOUR),
    "corrected": ({"length": "10m", "lateness": Lateness(allowed="15m")}, spans_of(10 * MINUTE, 10 * MINUTE), MINUTE),
    "shown while open": (
        {"length": "10m", "lateness": Lateness(while_open=True)},
        spans_of(10 * MINUTE, 10 * MINUTE),
        MINUTE,
    ),
}


def job_of(settings, price, *, is_code=True):
    # Of an expression, another one is another declaration; of a function, another one is other code.
    worth = pl.col("clicks").map_batches(price, return_dtype=pl.Int64) if is_code else price(pl.col("clicks"))
    source = Input(CLICKS.derive(worth=worth), columns=["user", "at", "worth"], delay="3m")
    return windows("sales", source, {"worth": sum("worth"), "n": count()}, key="user", **settings)


EVENTS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 59)), min_size=1, max_size=10)


def put(lake, events, unit):
    rows = [(user, START + at * unit, 1) for user, at in events]
    schema = {"user": pl.String, "at": pl.Datetime("us", "UTC"), "clicks": pl.Int64}
    lake.put(pl.DataFrame(rows, schema, orient="row"))


def expected(events, shape, unit, reached, price):
    """The rows of all windows that have ended, by user and start."""
    rows = defaultdict[Any, Any](lambda: (None, 0, 0))
    for user, at in events:
        for start, end in shape(START + at * unit):
            _, worth, n = rows[user, start]
            rows[user, start] = end, worth + price(1), n + 1
    return {key: row for key, row in rows.items() if row[0] <= reached}


@pytest.mark.parametrize("kind", SHAPES)
@examples(40, shrinks=False)
@given(
    parts=st.lists(EVENTS, min_size=1, max_size=4),
    more=EVENTS,
    since=EDGES,
    until=EDGES,
    tiny=st.booleans(),
    unread=EVENTS,
)
def test_a_span_is_what_plain_python_says_and_all_else_stays(
    tmp_path_factory, kind, parts, more, since, until, tiny, unread
):
    settings, shape, unit = SHAPES[kind]
    check(
        Lake(tmp_path_factory.mktemp("home") / "home", Runners("local")),
        settings,
        shape,
        unit,
        parts,
        more,
        (since, until),
        tiny=tiny,
        unread=unread,
    )


def bounds_of(since, until, unit):
    since, until = (None if edge is None else START + edge[0] * 10 * unit + edge[1] for edge in (since, until))
    if since is not None and until is not None and since >= until:
        return until, since + MOMENT
    return since, until


def check(lake, settings, shape, unit, parts, more, edges, *, tiny, unread, is_code=True):
    since, until = bounds_of(edges[0], edges[1], unit)
    options = RunOptions(max_bytes_per_batch=1 if tiny else 128 << 20)
    old, new = (job_of(settings, price, is_code=is_code) for price in (wrong, right))
    for part in parts:
        put(lake, part, unit)
        lake.run(old, options=options)
    put(lake, unread, unit)
    before, reached = stored(lake, old), watermark(lake.live("sales"))
    read = [event for part in parts for event in part]
    result = reprocess(lake.lakehouse, new, since, until, author=WHY, runners=lake.session, options=options)
    assert (result.batch, stored(lake, new)) == (None, before)
    result = reprocess(lake.lakehouse, new, since, until, author=WHY, runners=lake.session, options=options, yes=True)
    after = stored(lake, new)
    # The last column says whether a window is open, where that is shown.
    rows = {(row[0], row[1]): row[2:5] for row in after["sales"] if row[-1] is not True}
    span = {key: row for key, row in rows.items() if in_span(key[1], since, until)}
    wanted = expected(read, shape, unit, reached, right)
    assert span == {key: row for key, row in wanted.items() if in_span(key[1], since, until)}
    for name, place in (("sales", 1), ("late.sales", 2)):
        outside = [[row for row in table[name] if not in_span(row[place], since, until)] for table in (before, after)]
        assert outside[0] == outside[1], name
    assert not [row for row in after["late.sales"] if in_span(row[2], since, until)]
    assert_nothing_lost(lake.lakehouse, new)
    # Once more there is nothing to do.
    assert reprocess(lake.lakehouse, new, since, until, author=WHY, runners=lake.session, yes=True).batch is None
    assert stored(lake, new) == after
    # The job goes on: what was open in the span is of the new code alone.
    put(lake, more, unit)
    lake.run(new, options=options)
    lake.run(new, Incremental(advance_to=START + 500 * unit))
    assert_nothing_lost(lake.lakehouse, new)
    late = Counter()
    for user, _, start, *_, n in lake.rows("late.sales"):
        late[user, start] += n
    # Of windows that overlap, the last one of an event counts it.
    counted = "n_events" if "every" in settings else "n"
    table = read_table(lake.lakehouse, "sales").collect()
    rows = {(row["user"], row["window_start"]): (row["worth"], row["n"], row[counted]) for row in table.to_dicts()}
    came = Counter((user, max(start for start, _ in shape(START + at * unit))) for user, at in [*read, *unread, *more])
    for key, number in came.items():
        worth, n, events = rows.get(key, (0, 0, 0))
        assert events + late[key] == number, key
        if in_span(key[1], since, until) and "every" not in settings:
            assert worth == n * right(1), key
    return result


@pytest.mark.parametrize("kind", SHAPES)
@examples(40, shrinks=False)
@given(events=EVENTS, since=EDGES, until=EDGES)
def test_a_branch_of_a_span_differs_in_the_windows_of_its_events_alone(tmp_path_factory, kind, events, since, until):
    settings, shape, unit = SHAPES[kind]
    lake = Lake(tmp_path_factory.mktemp("home") / "home", Runners("local"))
    since, until = bounds_of(since, until, unit)
    put(lake, events, unit)
    lake.run(job_of(settings, wrong))
    trials = [
        try_job(lake.lakehouse, job_of(settings, price), price.__name__, since=since, until=until, runners=lake.session)
        for price in (wrong, right)
    ]
    same, other = ({name: table.summary() for name, table in trial.tables.items()} for trial in trials)
    assert all(counts.is_equal for counts in same.values())
    reached = trials[0].run.watermark
    windows_over = expected(events, shape, unit, reached or START, right)
    inside = [
        key
        for key, (end, *_) in windows_over.items()
        if in_span(key[1], since, None) and (until is None or end <= until)
    ]
    assert (other["sales"].added, other["sales"].removed) == (0, 0)
    # Open windows are shown too, where they are.
    assert (
        other["sales"].changed >= len(inside) if kind == "shown while open" else other["sales"].changed == len(inside)
    )


@pytest.mark.parametrize("kind", ["overlapping", "corrected"])
def test_a_span_is_the_same_on_spark(spark, tmp_path, kind):
    settings, shape, unit = SHAPES[kind]
    parts = [[("a", 1), ("b", 12), ("c", 25), ("a", 44)], [("b", 13), ("a", 2), ("c", 58)]]
    done = check(
        Lake(tmp_path / "home", spark), settings, shape, unit, parts, [("a", 59)], ((1, 0 * MOMENT), None),
        tiny=False, unread=[("b", 57)], is_code=False,
    )  # fmt: skip
    assert done.tables["state"].counts.changed > 0
