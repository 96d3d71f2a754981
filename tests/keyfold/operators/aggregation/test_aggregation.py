"""Aggregations give what DuckDB, or plain Python, gives over all events, in any order, any split into runs, slices and parts."""

from builtins import sum as sum_of
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from keyfold import Misconfigured, Stream, TestHarness, Timeout, Upsert
from keyfold.keyed.job.inputs import Input
from keyfold.operators import (
    Calendar,
    First,
    Highest,
    Last,
    Lateness,
    Top,
    Until,
    While,
    count,
    count_distinct,
    first,
    last_n,
    max,
    mean,
    min,
    rows,
    running,
    sessions,
    sum,
    totals,
    windows,
)
from keyfold.testing import assert_same, play, verify
from tests.examples import examples
from tests.on_a_grid import many_of, moments, on_grid
from tests.shop import MINUTE, NOON

TIME = pa.timestamp("us", tz="UTC")
END = NOON + timedelta(days=2)
WHO, AT, POINTS = (
    pa.field(name, kind, nullable=False)
    for name, kind in (("who", pa.string()), ("moment", TIME), ("points", pa.int64()))
)
GOAL = pa.schema([WHO, AT, ("team", pa.string()), POINTS])
SCORED = Input(Stream("goals", GOAL, event_time="moment"), columns=GOAL)

# Who, minutes after noon, of which team, how many points.
ROW = st.tuples(st.sampled_from("ab"), moments(45, 5, -45), st.sampled_from("xy"), st.integers(-9, 9))
RUNS = st.lists(many_of(ROW, 14, 0), min_size=1, max_size=4)
CUTS = st.lists(on_grid(45, 5, -45).map(lambda at: NOON + at * MINUTE), max_size=2)
PARTS = st.integers(1, 3)


def goals(run):
    rows = [(who, NOON + at * MINUTE, team, points) for who, at, team, points in run]
    kinds = {"who": pl.String, "moment": pl.Datetime("us", "UTC"), "team": pl.String, "points": pl.Int64}
    return pl.DataFrame(rows, schema=kinds, orient="row")


def watermarks(runs):
    """Where event time was when each run began."""
    reached, found = datetime(1, 1, 1, tzinfo=UTC), []
    for run in runs:
        found.append(reached)
        reached = sorted([reached, *(NOON + row[1] * MINUTE for row in run)])[-1]
    return found


def by_sql(runs, query, **values):
    """The answer of DuckDB over all goals; `began` is where event time was when a goal's run began."""
    both = zip(runs, watermarks(runs), strict=True)
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register(
        "goals", pl.concat([goals(run).with_columns(began=pl.lit(began)) for run, began in both]).to_arrow()
    )
    return connection.sql(query, params=values or None).pl()


def assert_rows(found, expected):
    assert sorted(found.select(expected.columns).rows(), key=repr) == sorted(expected.rows(), key=repr)


IN_WINDOWS = """
    SELECT *, unnest(generate_series(time_bucket($every, moment) + $every, time_bucket($every, moment) + $length, $every)) AS window_end
    FROM goals
"""
WINDOWS = f"""
    SELECT who, window_end, sum(points)::BIGINT AS points, min(moment) AS earliest,
        count(*) FILTER (window_end = time_bucket($every, moment) + $length) AS goals
    FROM ({IN_WINDOWS}) WHERE window_end + $lateness > began GROUP BY who, window_end
"""  # noqa: S608 - of this page alone


@examples(200)
@given(RUNS, CUTS, PARTS, st.sampled_from([1, 2, 4]), st.sampled_from([0, 0, 5, 20, 33]))
def test_windows_have_the_events_that_came_before_they_were_final(runs, cuts, parts, overlapping, late_by):
    length, lateness = timedelta(minutes=20), late_by * MINUTE
    job = windows(
        "points_of_windows",
        SCORED,
        {"points": sum("points"), "earliest": min("moment")},
        length=length,
        every=length / overlapping,
        counted="goals",
        key="who",
        lateness=Lateness(allowed=lateness) if lateness else None,
    )
    harness = play(job, map(goals, runs), END, parts, cuts)
    values = {"length": length, "every": length / overlapping, "lateness": lateness}
    written = harness.written["points_of_windows"]
    assert_rows(written, by_sql(runs, WINDOWS, **values))
    assert harness.state.is_empty()
    late = by_sql(
        runs, "SELECT count(*) FROM goals WHERE time_bucket($every, moment) + $length + $lateness <= began", **values
    ).item()
    assert harness.written["late.points_of_windows"]["goals"].sum() == late


@pytest.mark.parametrize(
    ("length", "while_open"), [("1d", False), (Calendar("day", "Europe/Berlin"), False), ("1d", True)]
)
def test_a_row_is_corrected_until_its_window_is_final_and_every_goal_counts_once(length, while_open):
    lateness = Lateness(allowed="2h", while_open=while_open)
    job = windows("w", SCORED, {"goals": count()}, key="who", length=length, lateness=lateness)
    harness, started = TestHarness(job), NOON.replace(hour=0) - timedelta(hours=length != "1d")
    written, state = [], []
    for minute, hour in ((0, 24), (1, 25), (None, 25.5), (2, 26), (3, 26)):
        came = None if minute is None else goals([("a", minute, "x", 0)])
        tables = harness.batch(came, advance_to=started + timedelta(hours=hour)).tables
        written.append([row["goals"] for row in tables.get("w", pl.DataFrame()).to_dicts()])
        state.append(harness.state.height)
        harness.assert_nothing_lost()
    # The day ends at hour 24, and is final two hours later: what comes then is late, and nothing else is written twice.
    assert (written, state) == ([[1], [2], [], [3], []], [1, 1, 1, 0, 0])
    assert harness.written["late.w"].height == 1
    if while_open:
        assert not harness.written["w"]["is_open"].any()
        tomorrow = harness.batch(goals([("a", 24 * 60, "x", 0)])).tables["w"]
        assert tomorrow["is_open"].to_list() == [True]


CORRECTED = windows(
    "w", SCORED, {"points": sum("points")}, key="who", length="20m", every="10m", lateness=Lateness(allowed="15m")
)


@pytest.mark.parametrize(
    "job", [CORRECTED, rows("firsts", SCORED, keep=First("20m"), key="who")], ids=lambda one: one.name
)
def test_corrected_and_expiring_rows_are_the_same_in_files(job):
    assert verify(job, rounds=2) is None


@examples(60)
@given(RUNS, CUTS, PARTS)
def test_of_a_window_those_with_most_are_written_and_all_that_tie(runs, cuts, parts):
    length, every = timedelta(minutes=20), timedelta(minutes=10)
    shape: Any = {"key": "who", "length": length, "every": every}
    most = windows("teams", SCORED, {"goals": count()}, keep_max="goals", by="team", **shape)
    harness = play(most, map(goals, runs), END, parts, cuts)
    counts = f"""SELECT who, team, window_end, count(*) AS goals FROM ({IN_WINDOWS}) WHERE window_end > began
        GROUP BY who, team, window_end QUALIFY goals = max(goals) OVER (PARTITION BY who, window_end)"""  # noqa: S608
    assert_rows(harness.written["teams"], by_sql(runs, counts, length=length, every=every))
    # Of a column that tells rows apart: less than the most is left out before it is shuffled.
    dearest = windows("points", SCORED, {}, keep_max="points", by=("team", "points"), **shape)
    harness = play(dearest, map(goals, runs), END, parts, cuts)
    points = f"""SELECT DISTINCT who, team, points, window_end FROM ({IN_WINDOWS}) WHERE window_end > began
        QUALIFY points = max(points) OVER (PARTITION BY who, window_end)"""  # noqa: S608
    assert_rows(harness.written["points"], by_sql(runs, points, length=length, every=every))
    assert_same(dearest, harness, play(dearest, [goals(run[::-1]) for run in runs], END))


IN_TUMBLING = """
    FROM (SELECT *, time_bucket($length, moment) AS window_start, time_bucket($length, moment) + $length AS window_end FROM goals)
    WHERE window_end > began
"""
PLACE = [WHO, pa.field("window_start", TIME, nullable=False), pa.field("rank", pa.int64(), nullable=False)]
RANK_SO_FAR = [("team", pa.string()), ("points", pa.int64()), ("is_open", pa.bool_())]


def ranked(key):
    """A job that ranks the teams of each window of twenty minutes, of a player or of all."""
    place = PLACE[not key :]
    latest = Upsert(pa.schema([*place, *RANK_SO_FAR]), [field.name for field in place], name="now", events=pl.lit(0))
    top = Top(n=2, highest="points", latest=latest)
    return windows("best", SCORED, {"points": sum("points")}, length="20m", key=key, by="team", top=top)


@examples(60)
@given(RUNS, CUTS, PARTS, st.sampled_from([[], ["who"]]))
def test_the_top_of_a_window_is_ranked_within_its_key_and_all_its_groups_are_counted(runs, cuts, parts, key):
    harness, length = play(ranked(key), map(goals, runs), END, parts, cuts), timedelta(minutes=20)
    window = ", ".join([*key, "window_start", "window_end"])
    ranks = f"""SELECT {window}, team, sum(points)::BIGINT AS points, row_number() OVER (
        PARTITION BY {window} ORDER BY sum(points) DESC, team) AS rank {IN_TUMBLING} GROUP BY {window}, team QUALIFY rank <= 2"""
    expected = by_sql(runs, ranks, length=length)
    assert_rows(harness.written["best"], expected)
    # All windows have ended.
    assert_rows(harness.written["now"], expected.drop("window_end").with_columns(is_open=pl.lit(value=False)))
    whole = f"""SELECT {window}, sum(points)::BIGINT AS points, count(DISTINCT team) AS n_groups, count(*) AS n_events
        {IN_TUMBLING} GROUP BY {window}"""
    assert_rows(harness.written["best_windows"], by_sql(runs, whole, length=length))


def test_ranks_so_far_are_written_of_the_windows_alone_that_have_new_events():
    harness = TestHarness(ranked(["who"]))
    harness.batch(goals([("a", 0, "x", 1), ("b", 0, "x", 2)]))
    changed = harness.batch(goals([("a", 1, "y", 5)])).tables
    assert changed["now"].select("who", "team", "rank", "is_open").rows() == [("a", "y", 1, True), ("a", "x", 2, True)]
    ended = harness.batch(goals([("b", 25, "x", 1)])).tables
    assert sorted(ended["now"].select("who", "team", "is_open").rows()) == [
        ("a", "x", False),
        ("a", "y", False),
        ("b", "x", False),
        ("b", "x", True),
    ]


def sessions_of(runs, gap):
    """Sessions as (who, first, last, number of goals, points), and how many goals are late, by definition, goal by goal."""
    found, late, open_ones = [], 0, defaultdict(list)
    for run, began, ended in zip(runs, watermarks(runs), [*watermarks(runs)[1:], END], strict=True):
        for who in "ab":
            events = sorted(
                [(NOON + at * MINUTE, points, True) for one, at, _, points in run if one == who]
                + open_ones.pop(who, [])
            )
            while events:
                session = [events.pop(0)]
                while events and events[0][0] - session[-1][0] <= gap:
                    session.append(events.pop(0))
                over = session[-1][0] + gap
                if over <= began and all(is_new for _, _, is_new in session):
                    late += len(session)
                elif over <= ended:
                    found.append(
                        (who, session[0][0], over, len(session), int(np.sum([points for _, points, _ in session])))
                    )
                else:
                    open_ones[who] += [(at, points, False) for at, points, _ in session]
    return found, late


@examples(100)
@given(RUNS, CUTS, PARTS)
def test_sessions_are_those_of_plain_python(runs, cuts, parts):
    gap = timedelta(minutes=15)
    job = sessions("spells", SCORED, {"points": sum("points")}, gap=gap, counted="goals", key="who")
    harness = play(job, map(goals, runs), END, parts, cuts)
    expected, late = sessions_of(runs, gap)
    found = harness.written["spells"].select("who", "window_start", "window_end", "goals", "points")
    assert sorted(found.rows()) == sorted(expected)
    assert harness.written["late.spells"]["goals"].sum() == late


@examples(40)
@given(RUNS, CUTS, PARTS, st.integers(1, 3))
def test_the_highest_rows_are_ranked_and_only_those_that_change_are_written(runs, cuts, parts, n):
    job = rows("best", SCORED, keep=Highest("points", n=n, ties=("moment",)), key="who")
    harness = play(job, map(goals, runs), None, parts, cuts)
    query = """SELECT who, moment, team, points, row_number() OVER (PARTITION BY who ORDER BY points DESC, moment, team) AS rank
        FROM goals QUALIFY rank <= $n"""
    assert_rows(harness.written["best"], by_sql(runs, query, n=n))
    written = harness.written["best"]
    assert written.n_unique() == written.height


@examples(40)
@given(RUNS, CUTS, PARTS)
def test_the_last_row_stays_and_is_written_when_it_changes(runs, cuts, parts):
    job = rows("latest", SCORED, keep=Last(), key="who")
    harness = play(job, map(goals, runs), None, parts, cuts)
    query = "FROM goals SELECT who, moment, team, points QUALIFY row_number() OVER (PARTITION BY who ORDER BY moment DESC, team DESC, points DESC) = 1"
    assert_rows(harness.written["latest"], by_sql(runs, query))
    earlier = goals([("a", -91, "x", 0), ("b", -91, "x", 0)]).join(
        goals([row for run in runs for row in run]), on="who", how="semi"
    )
    before = harness.written["latest"].height
    harness.batch(earlier)
    assert harness.written["latest"].height == before


@examples(100)
@given(RUNS, CUTS, PARTS, st.sampled_from([5, 20, 45]))
@example([[("a", 0, "x", 1)], [("b", -5, "x", 1)]], [], 1, 5)  # late to the minute
@example([[("a", -9, "x", 1), ("a", 9, "x", 1)]], [], 1, 5)  # twice in a batch
def test_last_rows_that_expire_are_those_of_all_that_is_not_late_and_every_goal_is_counted(runs, cuts, parts, expires):
    after = expires * MINUTE
    job = rows("latest", SCORED, keep=Last(after), key="who")
    harness = play(job, map(goals, runs), END, parts, cuts)
    assert harness.state.is_empty()
    in_time, late, lives = defaultdict(list), [], defaultdict(int)
    for run, began in zip(runs, watermarks(runs), strict=True):
        for row in goals(run).rows():
            late.append(row) if row[1] + after <= began else in_time[row[0]].append(row)
    assert sorted(harness.written["latest"].rows()) == sorted(
        sorted(times, key=lambda one: one[1:])[-1] for times in in_time.values()
    )
    assert sorted(harness.written["late.latest"].select(GOAL.names).rows()) == sorted(late)
    assert harness.written["latest_expired"]["n_events"].sum() == sum_of(map(len, in_time.values()))
    if not cuts:
        assert harness.written["latest"].height <= sum_of(len({row[0] for row in run}) for run in runs)
    if len(runs) == 1:
        for who, came in in_time.items():
            times = sorted(row[1] for row in came)
            lives[who] = 1 + sum_of(later - before > after for before, later in pairwise(times))
        assert harness.written["latest_expired"]["who"].value_counts().sort("who").rows() == sorted(lives.items())


def test_a_key_has_one_row_of_state_though_the_watermark_has_not_passed_the_silence_before_it():
    harness = TestHarness(rows("latest", replace(SCORED, delay="1h"), keep=Last("5m"), key="who"))
    written = harness.batch(goals([("a", 0, "x", 1), ("a", 9, "x", 2)])).tables
    assert harness.state.select("points", "n_events").rows() == [(2, 1)]
    assert written["latest_expired"]["n_events"].to_list() == [1]


def firsts_of(runs, expires):
    """The first goals, how many duplicates each has, and how many goals are late, by definition, goal by goal."""
    written, duplicates, late, waiting = [], defaultdict(int), 0, []
    for run, began, ended in zip(runs, watermarks(runs), [*watermarks(runs)[1:], END], strict=True):
        known = {who: [row for row in written if row[0] == who] for who in "ab"}
        for row in goals(run).rows():
            if row[1] > began:
                waiting.append(row)
            elif known[row[0]] and timedelta(0) <= row[1] - (first := known[row[0]][-1])[1] < (expires or END - NOON):
                # A row is known for as long as it has not expired.
                is_there = expires is None or first[1] + expires > began
                duplicates[first] += is_there
                late += not is_there
            else:
                late += 1
        for row in sorted(waiting, key=lambda one: one[1:]):
            if row[1] <= ended:
                waiting.remove(row)
                before = [one for one in written if one[0] == row[0]]
                if before and (expires is None or row[1] - before[-1][1] < expires):
                    duplicates[before[-1]] += 1
                else:
                    written.append(row)
    return written, duplicates, late


@examples(200)
@given(RUNS, CUTS, PARTS, st.sampled_from([None, 5, 20, 45]))
def test_first_rows_and_their_duplicates_are_those_of_plain_python(runs, cuts, parts, expires):
    expires = None if expires is None else expires * MINUTE
    job = rows("firsts", SCORED, keep=First(expires), key="who")
    harness = play(job, map(goals, runs), END, parts, cuts)
    written, duplicates, late = firsts_of(runs, expires)
    assert sorted(harness.written["firsts"].rows()) == sorted(written)
    assert harness.written["late.firsts"].height == late
    if expires is None:
        assert harness.state.sort("who")["n_duplicates"].to_list() == [duplicates[one] for one in sorted(written)]
    else:
        told = {(row[0], row[1]): number for row, number in duplicates.items() if number}
        assert {row[:2]: row[2] for row in harness.written["firsts_duplicates"].rows()} == told
        assert harness.state.is_empty()


SECONDS, LAST_TWO = {"length": MINUTE}, {"n": 2, "gap": "1h"}
TO_FLOAT = {"output": pa.schema([WHO, ("sum", pa.float64())])}
LISTED = SCORED.stream.derive(all=pl.col("team").str.split(" "))
UNTIL = {"of": {"n": count()}, "until": Until(pl.lit(value=False), closed_for="1m"), "gap": "1m"}
SINCE = {"n": count(), "since": first("moment")}
WHILE = {"while_": While(pl.col("points") > 0, pause="1m"), "gap": "1m"}
NO_MAX = "keep_max and lateness cannot be combined; leave one of them out"
OPEN = Lateness(while_open=True)
REFUSED: list[tuple[Callable[..., Any], dict[str, Any], str]] = [
    (windows, {**SECONDS, "output": pa.schema([WHO])}, "output has no column n_events"),
    (windows, {**SECONDS, "every": 40 * MINUTE / 60}, "every is 0:00:40"),
    (windows, {**SECONDS, "every": MINUTE / 2, "lateness": OPEN}, "while_open is for windows that do not overlap"),
    (windows, {**SECONDS, "lateness": OPEN, "keep_max": "n_events"}, NO_MAX),
    (running, {"of": {"team": count_distinct("team")}}, "output: team is there twice"),
    (last_n, {**LAST_TWO, "n": 0}, "n is 0"),
    (last_n, {**LAST_TWO, "from_n": 3}, "from_n is 3; .* at most n, 2"),
    (last_n, {**LAST_TWO, "of": {"x": mean("team")}}, "x: String is no number"),
    (sessions, UNTIL, r"sessions need one count, and one first\('moment'\)"),
    (running, {"source": LISTED, "of": {"x": max("all")}}, r"x: List\(String\) has no order"),
    (sessions, {"source": LISTED, "of": {**SINCE, "x": min("all")}, **WHILE}, r"x: List\(String\) has no order"),
    (sessions, {"gap": timedelta(0)}, "gap is 0:00:00"),
    (sessions, {**UNTIL, **WHILE}, "until and while_ exclude each other; give one"),
    (sessions, {**UNTIL, "counted": "n"}, "counted is for sessions with a gap alone"),
    (
        sessions,
        {"gap": Timeout(MINUTE, "processing_time")},
        "gap is in processing time, which only sessions with until",
    ),
    (totals, {"output": [POINTS]}, "output: there is no column points to write; there are who, n_events"),
    (totals, {"output": {"n_events": pl.Int64}}, "output: there is no column who; there are n_events"),
    (totals, {"of": {"sum": sum("points")}, **TO_FLOAT}, "sum is int64, and declared as double: declare it as int64"),
    (
        sessions,
        {"gap": "1m", "lateness": Lateness(allowed="1h")},
        "sessions has no argument lateness, since .* longer delay",
    ),
    (rows, {"keep": Highest("team")}, "keep: team may be NULL, and has no rank then; .*never NULL"),
    (rows, {"keep": Highest("points", ties="tem")}, "keep: there is no column tem; did you mean team"),
    (rows, {"keep": First(), "changes": True}, "changes are of rows that are written again, which first rows are not"),
]


@pytest.mark.parametrize(("operator", "given", "why"), REFUSED)
def test_what_cannot_be_is_refused_where_the_job_is_made(operator, given, why):
    of = {} if operator is rows else {"of": {}}
    with pytest.raises(Misconfigured, match=f"job t: {why}"):
        operator(**{"name": "t", "source": SCORED, "key": "who", **of, **given})
