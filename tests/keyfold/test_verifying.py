"""`verify`: a job whose answer depends on how its events come is found, made small, and written as a test."""

import random
import runpy
from datetime import timedelta

import polars as pl
import pytest

from keyfold import DEADLINE, STEP_DECIDES, Input, KeyedJob, Step, Stream, required
from keyfold.keyed.calling import harness
from keyfold.keyed.calling.step_call import Called, call_once
from keyfold.operators import (
    Held,
    Pattern,
    Top,
    Until,
    alert,
    count,
    first,
    interval_join,
    pattern,
    running,
    sessions,
    windows,
)
from keyfold.operators import max as max_of
from keyfold.operators import sum as sum_of
from keyfold.operators import totals as totals_of
from keyfold.testing import Counterexample, assert_one_answer, verify
from keyfold.testing.made_events import made_events
from keyfold.testing.verifying import DIVISIONS
from spark_jobs.jobs.registry import JOBS
from tests.keyfold.keyed.handwritten_steps import CASES
from tests.keyfold.keyed.toy_jobs import TOTAL, totals
from tests.shop import CLICK


def first_click(state, events, clock):
    """The clicks of each user that came first, wherever they stand: by the order of arrival, and of ties."""
    new = events.join(state, on="user", how="anti").unique("user", keep="first", maintain_order=True)
    rows = new.select("user", clicks=pl.col("at").dt.minute().cast(pl.Int64))
    return Step(state=pl.concat([state, rows]), output=rows)


def lost_click(state, events, clock):
    """Loses an event of a batch of several."""
    kept = events.head(1)
    return Step(state=state, output=kept.select("user", "clicks"))


def faulty(step) -> KeyedJob:
    events = pl.lit(0) if step is first_click else pl.len()
    return totals(
        name="faulty", step=step, upsert_by=(), more=(), output=TOTAL, output_events=events, state_events=pl.len(),
        final_at=STEP_DECIDES,
    )  # fmt: skip


def test_what_depends_on_the_order_is_found_and_made_small():
    job = totals(
        name="faulty", step=first_click, upsert_by=(), more=(), output=TOTAL, output_events=pl.lit(0),
        state_events=pl.lit(0), final_at=STEP_DECIDES, event_count=pl.lit(0),
    )  # fmt: skip
    found = verify(job, rounds=20)
    assert found is not None
    assert sum(len(rows) for run in found.runs for rows in run.values()) == 2
    with pytest.raises(AssertionError, match="the answer differs when the events come"):
        assert_one_answer(job, found.runs, found.way)


def test_an_event_that_is_lost_is_found():
    with pytest.raises(AssertionError, match="events were passed in"):
        verify(faulty(lost_click), rounds=20)


def test_the_written_test_plays_the_same_events_on_the_job_of_the_project(tmp_path, monkeypatch):
    runs, played = [made_events(JOBS["model_totals"], {}, random.Random(1))], []
    path = tmp_path / "test_counterexample.py"
    path.write_text(Counterexample("model_totals", "in any order", runs, "").as_test())
    monkeypatch.setattr("keyfold.testing.assert_one_answer", lambda *given: played.append(given))
    runpy.run_path(str(path))["test_model_totals_gives_one_answer"]()
    assert played == [(JOBS["model_totals"], runs, "in any order", timedelta(hours=1))]
    assert_one_answer(*played[0])


def expired_first(job, state, events, clock):
    """The rule as it was: what is due by the batch's watermark comes before all of its events."""
    due = state.filter(pl.col(DEADLINE) <= clock.watermark).select(job.key)
    before = state.join(due, on=job.key, how="semi")
    first = call_once(job, before, events.clear(), clock)
    rest = pl.concat([state.join(due, on=job.key, how="anti"), first.state_after(job, before)])
    second = call_once(job, rest, events, clock)
    tables = {
        name: pl.concat([one.tables[name] for one in (first, second) if name in one.tables])
        for name in {*first.tables, *second.tables}
    }
    return Called(second.state_after(job, rest), tables)


@pytest.mark.parametrize("name", ["count with timeout", "first of each"])
def test_a_step_that_depends_on_how_runs_are_cut_is_found_and_made_small(name, monkeypatch):
    job = CASES[name].job(timedelta(minutes=2))
    assert verify(job, rounds=16) is None
    monkeypatch.setattr(harness, "call_step", expired_first)
    found = verify(job, rounds=60)
    assert found is not None
    assert found.way in DIVISIONS or found.way == "in slices of event time"
    assert sum(len(rows) for run in found.runs for rows in run.values()) <= 3
    with pytest.raises(AssertionError, match="the answer differs when the events come"):
        assert_one_answer(job, found.runs, found.way, found.between)
    monkeypatch.undo()
    assert_one_answer(job, found.runs, found.way, found.between)


@pytest.mark.parametrize("name", CASES)
def test_a_hand_written_step_gives_one_answer_in_memory_and_in_files(name):
    found = verify(CASES[name].job(timedelta(minutes=2)), rounds=11)
    assert found is None, found and (found.way, found.runs, found.difference)


def test_a_stream_is_joined_with_itself():
    stream = Stream("clicks", CLICK, event_time="at")
    shown = stream.derive(shown_at=pl.col("at"), shown=pl.col("clicks"))
    right = Input(shown, "shown_at", columns=("user", "shown_at", "shown"), delay="5m")
    job = interval_join("pairs", ("left", stream), ("right", right), "user", earliest="-10m", latest="10m")
    assert verify(job, rounds=2) is None


VISITS = Stream(
    "visits",
    [
        *(required(name, kind, name) for name, kind in (("user", pl.String), ("at", pl.Datetime("us", "UTC")))),
        *(
            (name, kind)
            for name, kind in (("cents", pl.Int64), ("tags", pl.List(pl.String)), ("paid", pl.Decimal(9, 2)))
        ),
        *(
            (name, kind)
            for name, kind in (("on", pl.Date), ("place", pl.Struct({"x": pl.Int64})), ("share", pl.Float32))
        ),
    ],
    event_time="at",
)
CENTS = pl.col("cents")
SINCE = {"n": count(), "since": first("at"), "first_tags": first("tags"), "from": first("place")}
BY_TAG = VISITS.derive(tag=pl.col("tags").list.join(",").fill_null("none"), cents=CENTS * 2)
MADE_OF_VISITS = {
    "where": lambda name: windows(
        name, VISITS.where(CENTS < 3), {"cents": sum_of("cents"), "n": count()}, key="user", length="1h"
    ),
    "a name of the stream": lambda name: totals_of(
        name, VISITS, {"cents": sum_of(CENTS * 2), "on": count()}, key="user"
    ),
    "float32": lambda name: windows(name, VISITS, {"sum": sum_of("share"), "n": count()}, key="user", length="1h"),
    "most of nothing": lambda name: windows(
        name,
        VISITS.where(pl.col("user") != "c"),
        {"on": max_of("on")},
        key="user",
        length="1h",
        by="tags",
        keep_max="on",
    ),
    "a key of what may be NULL": lambda name: running(name, BY_TAG, {"sum": sum_of("cents")}, key="tag"),
    "alert": lambda name: alert(name, BY_TAG, {"high": Held(CENTS > 7, CENTS < 4)}, key=("user", "tag")),
    "pattern": lambda name: pattern(
        name, BY_TAG, {"up": Pattern({"low": CENTS < 4, "high": CENTS > 5}, within="1h")}, key="tag", keep=["cents"]
    ),
    "top": lambda name: windows(name, BY_TAG, {"n": count()}, length="1h", by="tag", top=Top(n=1, highest="n")),
    "lists": lambda name: sessions(name, VISITS, SINCE, until=Until(CENTS > 3, closed_for="1h"), key="user", gap="1h"),
}


@pytest.mark.parametrize("kind", MADE_OF_VISITS)
def test_a_refined_stream_of_all_types_gives_one_answer_in_memory_and_in_files(kind):
    found = verify(MADE_OF_VISITS[kind]("made"), rounds=6)
    assert found is None, found and found.difference
