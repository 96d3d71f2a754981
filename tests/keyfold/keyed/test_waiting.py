"""Events that only wait: a job whose step is spared them gives what it gives without, and what plain Python gives."""

from dataclasses import replace
from datetime import timedelta

import polars as pl
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from keyfold.errors import Misconfigured
from keyfold.keyed.calling.harness import TestHarness
from keyfold.keyed.generation.generations import live_generation
from keyfold.keyed.job.step import Step, Waiting
from keyfold.keyed.parts.manifest import Manifest
from keyfold.keyed.parts.part_rows import Sizes
from keyfold.keyed.runner import run_job
from keyfold.keyed.running import operator
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.reading import scan_table
from keyfold.testing.local_batches import local_manifests
from tests.examples import examples
from tests.keyfold.keyed.cut_off_runs import POINTS, SIZES, clicks_of, run_cut_off
from tests.keyfold.keyed.toy_jobs import CLICK, LENGTH, NOTE, clicks, windows
from tests.keyfold.state.local_state import frames_of_state

USERS = [f"user-{number}" for number in range(5)]
RUN = clicks_of(USERS)


def visits_step(state, events, clock):
    """A user's clicks are given out ten minutes of event time after the first of them, or at a minute that ends in 7."""
    rows = pl.concat([state.drop("deadline"), events])
    visits = rows.group_by("user").agg(
        deadline=pl.col("at").min() + LENGTH, ends=(pl.col("at").dt.minute() % 10 == 7).any()
    )
    rows = rows.join(visits, on="user").sort("user", "at", "clicks")
    is_over = pl.col("ends") | (pl.col("deadline") <= clock.watermark)
    is_first = pl.col("user").is_first_distinct()
    kept = rows.filter(~is_over).with_columns(deadline=pl.when(is_first).then("deadline"))
    return Step(state=kept.select(NOTE.names), output=rows.filter(is_over).select(CLICK.names))


def only_waits(first, events, clock):
    return (events["at"] >= first["at"]) & (events["at"].dt.minute() % 10 != 7)


WAITING = Waiting(pl.col("deadline").is_null(), only_waits, lambda events: events)


def visits(**changes):
    settings = {"name": "visits", "step": visits_step, "state": NOTE, "output": CLICK, "waiting": WAITING}
    counts = {"step_decides_late": True, "output_events": pl.len(), "state_events": pl.len()}
    return windows(**{**settings, **counts, **changes})


def as_expected(kept, events, watermark):
    """The times of the clicks of users, and those that are given out, in plain Python."""
    after, given_out = {user: list(times) for user, times in kept.items()}, []
    for user, at, _ in events.iter_rows():
        after.setdefault(user, []).append(at)
    for user, times in list(after.items()):
        if any(at.minute % 10 == 7 for at in times) or min(times) + timedelta(minutes=10) <= watermark:
            given_out += [(user, at) for at in after.pop(user)]
    return after, given_out


def by_user(frames):
    rows = pl.concat(frames).select("user", "at") if frames else pl.DataFrame(schema={"user": pl.String})
    found = {}
    for user, at in rows.iter_rows():
        found.setdefault(user, []).append(at)
    return {user: sorted(times) for user, times in found.items()}


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    runs=st.lists(st.tuples(RUN, st.none() | st.sampled_from(POINTS), st.booleans()), min_size=1, max_size=8),
    sizes=SIZES,
)
def test_runs_that_are_cut_off_anywhere_keep_and_give_out_what_a_dictionary_does(
    tmp_path_factory, without_spark, monkeypatch, runs, sizes
):
    monkeypatch.setattr(operator, "SIZES", sizes)
    lakehouse, harness = Lakehouse(tmp_path_factory.mktemp("home")), TestHarness(visits())
    plain, expected, given_out = TestHarness(visits(waiting=None)), {}, []
    table = lakehouse.events("clicks")
    table.parent.mkdir(parents=True)
    for rows, point, knows in runs:
        # A version of the job that knows of no rows that wait goes on from those that do, and the other way round.
        job = visits() if knows else visits(waiting=None)
        events = clicks(*rows)
        events.write_delta(str(table), mode="append")
        summary, generation, last = run_cut_off(without_spark, lakehouse, job, point, monkeypatch)
        harness.batch(events)
        plain.batch(events)
        expected, out = as_expected(expected, events, harness.watermark)
        given_out += out
        assert by_user([harness.state]) == by_user([plain.state]) == {user: sorted(expected[user]) for user in expected}
        assert summary.totals.open_events == sum(map(len, expected.values()))
        assert by_user(frames_of_state(generation, last)) == by_user([harness.state])
    generation = live_generation(lakehouse, "visits")
    assert generation is not None
    written = scan_table(generation.table("visits")).select("user", "at").collect()
    assert sorted(written.iter_rows()) == sorted(given_out)
    assert sorted(harness.written["visits"].select("user", "at").iter_rows()) == sorted(given_out)
    harness.assert_nothing_lost()


def test_the_step_is_spared_events_that_wait_and_sees_them_when_their_key_is_due():
    seen = []

    def step(state, events, clock):
        seen.append((state.height, events.height))
        return visits_step(state, events, clock)

    harness = TestHarness(visits(step=step))
    for minute in (1, 2, 3, 4):
        harness.batch(clicks(("ann", minute)))
    harness.batch(clicks(("bob", 18)))
    assert seen == [(0, 1), (0, 0), (0, 0), (0, 0), (4, 1)]


def test_an_event_waits_neither_where_it_is_late_nor_beside_one_that_does_not():
    harness = TestHarness(visits())
    harness.batch(clicks(("ann", 20), ("bob", 21)))
    harness.batch(clicks(("ann", 21), ("ann", 27), ("bob", 22)))
    assert harness.state.select("user", "deadline").rows()[1:] == [("bob", None)]
    assert harness.written["visits"]["user"].to_list() == ["ann"] * 3


def test_state_that_waits_is_in_parts_of_its_own(tmp_path, without_spark, monkeypatch):
    monkeypatch.setattr(operator, "SIZES", Sizes(small_bytes=0, inline_bytes=0))
    lakehouse, table = Lakehouse(tmp_path), Lakehouse(tmp_path).events("clicks")
    table.parent.mkdir(parents=True)
    for minute in (1, 2, 3):
        clicks(*[(user, minute) for user in USERS]).write_delta(str(table), mode="append")
        run_job(without_spark, lakehouse, visits())
    generation = live_generation(lakehouse, "visits")
    assert generation is not None
    for packed in local_manifests(generation, 2).values():
        manifest = Manifest.unpack(packed)
        assert {part.batch for part in (*manifest.base, *manifest.changes)} == {0}
        assert manifest.waiting is not None
        assert {part.batch for part in manifest.waiting.parts} == {1, 2}


def test_what_waits_is_told_by_columns_of_state():
    with pytest.raises(Misconfigured, match=r"state \(waiting\) has no column due"):
        visits(waiting=replace(WAITING, rows=pl.col("due").is_null()))


def test_rows_that_wait_are_held_to_the_columns_of_state():
    job = visits(waiting=replace(WAITING, kept_as=lambda events: events.with_columns(clicks=pl.lit("many"))))
    harness = TestHarness(job)
    harness.batch(clicks(("ann", 1)))
    with pytest.raises(ValueError, match="rows that wait"):
        harness.batch(clicks(("ann", 2)))
