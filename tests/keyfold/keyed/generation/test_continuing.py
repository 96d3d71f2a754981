"""A run that is declared otherwise is refused and changes nothing; one with other code of its step goes on, and the journal says so."""

import json
from dataclasses import replace
from datetime import timedelta

import polars as pl
import pytest

from keyfold import Damaged, IncompatibleState, Input, build_job, with_parameters
from keyfold.keyed.generation.configured import configured_job
from keyfold.keyed.generation.continuing import code_of_generation
from keyfold.keyed.generation.run_mode import FullRefresh
from keyfold.keyed.job.parameters import JobParameters, parameter
from keyfold.operators import count, max, min, windows
from keyfold.state.changing.moving import move, plan_change
from tests.keyfold.keyed import toy_jobs
from tests.keyfold.keyed.toy_jobs import windows_step
from tests.shop import clicks

CLICKS = toy_jobs.windows().only_input.stream
BIG, SMALL = pl.col("user").is_in(["ann", "bob"]), pl.col("user").is_in(["ann", "cid"])


def clicks_in_windows(condition=BIG, of=None, **given):
    return windows(
        "hours",
        Input(CLICKS.where(condition & pl.col("at").is_not_null())),
        of or {"n": count(), "most": max("clicks")},
        key="user",
        length="1h",
        **given,
    )


@pytest.fixture
def clicked(lake):
    """A lakehouse whose stream has keys that are never NULL."""

    def click(*rows):
        lake.put(clicks(*rows))

    return click


def test_another_list_in_a_condition_and_another_aggregate_of_a_name_are_refused_and_change_nothing(lake, lakehouse):
    job = clicks_in_windows()
    lake.click(("ann", 0))
    lake.run(job)
    before = sorted(path for path in lakehouse.home.rglob("*") if path.name != "clock.json")
    lake.click(("bob", 1))
    changed = [
        (clicks_in_windows(SMALL), r"where: .*one of 2 → 2 values \(added cid; removed bob\)|added cid; removed bob"),
        (
            clicks_in_windows(of={"n": count(), "most": min("clicks")}),
            r"aggregates: most: max\(clicks\) → min\(clicks\)",
        ),
    ]
    for other, words in changed:
        with pytest.raises(IncompatibleState, match=words):
            lake.run(other)
        assert plan_change(lakehouse, other).verdict == "refresh"
    after = sorted(path for path in lakehouse.home.rglob("*") if path.name != "clock.json")
    assert [path for path in after if path not in before and "jobs" in str(path)] == []
    assert lake.run(job).counts.events == 1
    lake.run(changed[0][0], FullRefresh())


RATE = 1


def doubled_step(state, events, clock):
    return windows_step(state, events.with_columns(clicks=pl.col("clicks") * 2), clock)


def tripled_step(state, events, clock):
    return windows_step(state, events.with_columns(clicks=pl.col("clicks") * (RATE + 2)), clock)


def test_other_code_of_a_step_goes_on_and_the_journal_and_plan_say_from_which_batch_on(lake, lakehouse, monkeypatch):
    first, second = toy_jobs.windows(step=doubled_step), toy_jobs.windows(step=tripled_step)
    for job in (first, first):
        lake.click(("ann", 0))
        lake.run(job)
    plan = plan_change(lakehouse, second)
    assert [(change.setting, change.verdict) for change in plan.changes] == [("step", "judge")]
    assert (plan.verdict, plan.code_since) == ("judge", None)
    assert "lines in tripled_step" in plan.changes[0].change

    lake.click(("ann", 1))
    lake.run(second)
    live = lake.live("windows")
    assert code_of_generation(live).since == 2
    read = [batch.read for batch in live.journal.history(9)]
    assert [("step: code changed" in text) for text in read] == [False, False, True]
    plan = plan_change(lakehouse, second)
    assert (plan.changes, plan.verdict, plan.code_since) == ((), "free", 2)
    assert "tripled_step" in plan.code_change

    # A constant of the module that the step uses is its code.
    monkeypatch.setattr("tests.keyfold.keyed.generation.test_continuing.RATE", 5)
    assert [change.change for change in plan_change(lakehouse, second).changes] == ["code changed (RATE)"]
    lake.click(("ann", 2))
    lake.run(second)
    assert code_of_generation(live).since == 3
    assert live.journal.history(1)[0].read.endswith("step: code changed (RATE)")
    # The next runs have the same code.
    lake.click(("ann", 3))
    lake.run(second)
    assert code_of_generation(live).since == 3
    assert "code changed" not in live.journal.history(1)[0].read


def test_a_run_that_was_cut_off_before_its_first_batch_still_says_where_other_code_began(lake, monkeypatch):
    lake.click(("ann", 0))
    lake.run(toy_jobs.windows(step=doubled_step))
    lake.click(("ann", 1))
    other = toy_jobs.windows(step=tripled_step)
    monkeypatch.setattr("keyfold.keyed.job_run.plan_run", lambda *_: pytest.fail("cut off"))
    with pytest.raises(pytest.fail.Exception):
        lake.run(other)
    monkeypatch.undo()
    lake.run(other)
    assert "step: code changed" in lake.live("windows").journal.history(1)[0].read


class Least(JobParameters):
    """Parameters of `declared`."""

    least: int = parameter(1, change="migrate")
    most: int = parameter(100, change="free")


def build(parameters: Least):
    """Clicks of at least so many."""
    condition = BIG & (pl.col("clicks") >= parameters.least) & (pl.col("clicks") <= parameters.most)
    return clicks_in_windows(condition, parameters=parameters)


def test_an_argument_that_follows_from_a_parameter_needs_what_the_parameter_needs(lake, lakehouse):
    declared = with_parameters(build)
    lake.click(("ann", 0))
    lake.run(declared)
    lake.click(("ann", 1))
    free = configured_job(lakehouse, declared, parameters={"most": 50})
    assert [change.setting for change in plan_change(lakehouse, free).changes] == ["parameter most"]
    assert lake.run(free).counts.events == 1
    other = build_job(declared, {"least": 2})
    assert [(change.setting, change.verdict) for change in plan_change(lakehouse, other).changes] == [
        ("parameter least", "move")
    ]
    with pytest.raises(IncompatibleState, match="parameter least: 1 → 2"):
        lake.run(other)
    move(lakehouse, other, yes=True, runners=lake.session)
    assert lake.run(other).counts.events == 0


def test_a_parameter_that_is_called_free_and_decides_how_an_input_is_read_is_refused(lake, lakehouse):
    def delayed(parameters: Least):
        """Clicks that may be late."""
        source = Input(CLICKS.where(BIG & pl.col("at").is_not_null()), delay=timedelta(minutes=parameters.most))
        return windows("hours", source, {"n": count()}, key="user", length="1h", parameters=parameters)

    declared = with_parameters(delayed)
    lake.click(("ann", 0))
    lake.run(declared)
    other = build_job(declared, {"most": 50})
    plan = plan_change(lakehouse, other)
    assert [(change.setting, change.verdict) for change in plan.changes] == [("parameter most", "free")]
    assert [(change.setting, change.verdict) for change in plan.effects] == [("input clicks: delay", "move")]
    assert plan.verdict == "move"
    with pytest.raises(IncompatibleState, match=r"created with: input clicks: delay: \S+ → 50m"):
        lake.run(other)


def test_a_parameter_does_not_hide_a_change_of_the_code_beside_it(lake, lakehouse):
    lake.click(("ann", 0))
    lake.run(with_parameters(build))

    def rebuilt(parameters: Least):
        """Clicks of at least so many."""
        return clicks_in_windows(SMALL & (pl.col("clicks") >= parameters.least), parameters=parameters)

    other = build_job(with_parameters(rebuilt), {"least": 2})
    assert {change.setting: change.verdict for change in plan_change(lakehouse, other).changes} == {
        "where": "refresh",
        "parameter least": "move",
    }


def test_a_generation_of_another_format_is_refused_with_the_command(lake, lakehouse):
    lake.click(("ann", 0))
    lake.run(toy_jobs.windows())
    record = lake.live("windows").folder / "generation.json"
    old = {**json.loads(record.read_text()), "format": 8, "fixed": {"key": ["user"]}}
    del old["declaration"], old["created_at"]
    record.write_text(json.dumps(old))
    with pytest.raises(IncompatibleState, match=r"an earlier version of Keyfold.*`keyfold run windows --full-refresh"):
        lake.run(toy_jobs.windows())
    lake.run(toy_jobs.windows(), FullRefresh())


def test_a_damaged_record_of_code_says_what_to_do(lake):
    lake.click(("ann", 0))
    lake.run(toy_jobs.windows(step=doubled_step))
    lake.run(toy_jobs.windows(step=tripled_step))
    file = lake.live("windows").folder / "code.json"
    for content in ("{", '{"since": "x"}'):
        file.write_text(content)
        with pytest.raises(Damaged, match=r"code\.json is damaged.*remove"):
            lake.run(toy_jobs.windows(step=tripled_step))
    file.unlink()
    lake.run(toy_jobs.windows(step=tripled_step))
    assert code_of_generation(lake.live("windows")).since == 1


def test_an_expression_with_a_function_goes_on_with_its_code_and_not_with_another_type(lake, lakehouse):
    def job(function, kind):
        condition = BIG & (pl.col("clicks").map_elements(function, return_dtype=kind) > 0)
        return clicks_in_windows(condition)

    lake.click(("ann", 0))
    lake.run(job(lambda value: value + 7 - 1, pl.Int64))
    plan = plan_change(lakehouse, job(lambda value: value + 7 - 2, pl.Int64))
    assert [(change.setting, change.verdict) for change in plan.changes] == [("where", "judge")]
    assert plan_change(lakehouse, job(lambda value: value + 7 - 1, pl.Int32)).verdict == "refresh"


def test_a_copy_with_another_description_goes_on(lake):
    lake.click(("ann", 0))
    lake.run(toy_jobs.windows())
    assert lake.run(replace(toy_jobs.windows(), description="Clicks")).counts.events == 0
