"""Nexmark in small: every query's answer is DuckDB's over the same files, however they come and whatever breaks."""

import sys
import tempfile
from datetime import timedelta

import polars as pl
import pytest

import keyfold
from benchmarks.nexmark.__main__ import main
from benchmarks.nexmark.answers import Expected, answer, assert_right
from benchmarks.nexmark.events import KINDS, LATEST, Events, arriving, write_events
from benchmarks.nexmark.queries import QUERIES, Query
from benchmarks.nexmark.spark_worker import run_query, take_in
from keyfold.lakehouse import fail_points
from keyfold.runners import Runners

IN_ORDER = Events(50_000, rate=1_000, chunk=16_700)
OUT_OF_ORDER = Events(50_000, rate=1_000, chunk=25_100, seed=2, disorder=True)
"""Fifty seconds, in two or three files of each kind."""

numbered = pytest.mark.parametrize("query", [pytest.param(query, id=f"q{number}") for number, query in QUERIES.items()])


class Play:
    """A lakehouse, the files that come to it, and the answers that are right."""

    def __init__(self, folder, events: Events) -> None:
        self.events, self.files, self.spark = events, write_events(folder / "files", events), Runners("local")
        (folder / "home").mkdir()
        self.lakehouse = keyfold.Lakehouse(folder / "home")
        self.expected = Expected(self.files, self.lakehouse)

    @property
    def end(self):
        return self.events.time(self.events.count) + timedelta(hours=1)

    def assert_right(self, query: Query) -> None:
        assert_right(query, answer(self.lakehouse, query), self.expected.of(query))


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Play:
    """All files are there."""
    play = Play(tmp_path_factory.mktemp("whole"), IN_ORDER)
    assert take_in(play.spark, play.lakehouse, play.files) == IN_ORDER.count
    return play


@pytest.fixture(scope="module")
def piecemeal(tmp_path_factory) -> Play:
    """Events out of order came file by file; all queries ran after each, and were cut off in the second run."""
    folder = tmp_path_factory.mktemp("piecemeal")
    play = Play(folder, OUT_OF_ORDER)
    for run, name in enumerate(sorted(path.name for path in (play.files / "bid").iterdir())):
        for kind in KINDS:
            (folder / "landing" / kind).mkdir(parents=True, exist_ok=True)
            (play.files / kind / name).rename(folder / "landing" / kind / name)
        take_in(play.spark, play.lakehouse, folder / "landing")
        for query in QUERIES.values():
            if run == 1:
                cut_off(play, query)
            run_query(play.spark, play.lakehouse, query)
    for query in QUERIES.values():
        run_query(play.spark, play.lakehouse, query, close=play.end)
    return play


class PowerCut(BaseException):
    pass


def cut_off(play: Play, query: Query) -> None:
    """End a run where its work is done and nothing of it is written down, or before its tables have it."""

    def act(point: str) -> None:
        if point == ("work: after", "done: after", "commit: before")[query.number % 3]:
            raise PowerCut

    before, fail_points.act = fail_points.act, act
    try:
        with pytest.raises(PowerCut):
            run_query(play.spark, play.lakehouse, query)
    finally:
        fail_points.act = before


@numbered
def test_in_many_runs_over_events_out_of_order_and_after_a_power_cut_the_answer_is_duckdbs(piecemeal, query):
    piecemeal.assert_right(query)


# A join whose rows are another job's events, and a top N with a combiner.
@pytest.mark.one_machine
@pytest.mark.parametrize("number", [4, pytest.param(19, marks=pytest.mark.slow)])
def test_on_spark_the_answer_is_duckdbs(spark, whole, number, tmp_path):
    (tmp_path / "events").symlink_to(whole.lakehouse.home / "events")
    lakehouse, query = keyfold.Lakehouse(tmp_path), QUERIES[number]
    run_query(spark, lakehouse, query, close=whole.end)
    assert_right(query, answer(lakehouse, query), whole.expected.of(query))


def test_of_fifty_events_one_is_a_person_three_are_auctions_and_the_rest_bids():
    found = next(arriving(Events(5_000)))
    assert {kind: rows.height for kind, rows in found.items()} == {"person": 100, "auction": 300, "bid": 4_600}
    hot = found["bid"].filter(pl.col("bidder") % 100 == 1)
    assert 0.7 < hot.height / 4_600 < 0.8


def test_disorder_delays_events_and_changes_none():
    def all_of(events):
        parts = list(arriving(events))
        return {kind: pl.concat([part[kind] for part in parts]) for kind in KINDS}

    one, other = (all_of(Events(10_000, rate=1_000, chunk=2_500, disorder=disorder)) for disorder in (False, True))
    for kind in KINDS:
        assert one[kind].equals(other[kind].sort("dateTime"))
    behind = other["bid"].select(pl.col("dateTime").cum_max() - pl.col("dateTime")).to_series().dt.total_microseconds()
    assert 1_000_000 < max(behind) < LATEST / timedelta(microseconds=1)
    assert 0.08 < behind.filter(behind > 0).len() / behind.len() < 0.12


@pytest.mark.slow
def test_the_race_measures_keyfold_and_stock_spark_and_finds_both_right(tmp_path, capfd):
    arguments = ["--queries", "3,20", "--events", "4000", "20000", "--engines", "keyfold", "spark"]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(tempfile, "tempdir", str(tmp_path))
        patched.setattr(sys, "argv", ["nexmark", *arguments])
        main()
    printed = capfd.readouterr().out
    assert "All answers are DuckDB's." in printed
    assert "failed" not in printed
    assert all(
        f"query {number}, {engine}, 20,000 events" in printed for number in (3, 20) for engine in ("keyfold", "spark")
    )
