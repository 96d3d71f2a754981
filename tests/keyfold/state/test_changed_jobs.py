"""What a changed parameter means to each shipped job: free, a move, or a refresh; and that such a move loses nothing."""

import pytest

from keyfold.errors import KeyfoldError
from keyfold.keyed.generation.run_mode import Incremental
from keyfold.keyed.job.building import build_job
from keyfold.keyed.runner import run_job
from keyfold.lakehouse import Lakehouse
from keyfold.state.changing.moving import move, plan_change
from spark_jobs.jobs.registry import JOBS, SHIPPED
from spark_jobs.simulation.telemetry import GEOFENCES
from tests.keyfold.keyed.without_spark import SPARK
from tests.keyfold.state.job_histories import END, History, put
from tests.keyfold.state.test_round_trip import accounted_for, copies_of, counted

ENGINE = {"key_groups": (7, "move"), "watermark_delay": ("0s", "move"), "idle_timeout": ("9h", "move")}

MEANING = {
    "ride_summaries": {
        **ENGINE,
        "close": ("complete", "move"),
        "timeout": ("7m", "move"),
        "timeout_in": ("processing_time", "move"),
        "long_ride_threshold": ("10m", "move"),
        "closed_for": ("2h", "move"),
    },
    "moving_averages": {
        **ENGINE,
        "n_readings": (4, "refresh"),
        "columns": ("temp", "refresh"),
        "min_readings": (2, "refresh"),
        "timeout": ("2h", "refresh"),
        "timeout_in": ("processing_time", "refresh"),
    },
    "anomaly_predictions": {
        **ENGINE,
        "model": ("ewma", "refresh"),
        "order": ("arrival", "move"),
        "learn": ("complete_window", "move"),
        "refresh_after": ("3s", "move"),
        "interval": ("20m", "move"),
        "window": ("3h", "move"),
        "emit": ("all", "move"),
        "min_change": (0.5, "move"),
        "threshold": (0.8, "move"),
        "min_events": (2, "move"),
        "forget_after": ("3h", "move"),
    },
    "vehicle_trips": {
        **ENGINE,
        "moving_speed": (30, "move"),
        "stop_after": ("1m", "move"),
        "silence": ("4m", "move"),
        "timeout_in": ("processing_time", "move"),
        "harsh_braking": (2.0, "move"),
        "harsh_acceleration": (2.0, "move"),
    },
    "fleet_warnings": {
        **ENGINE,
        "low_fuel": (11, "move"),
        "low_fuel_until": (15, "move"),
        "hot_engine": (120, "move"),
        "hot_engine_until": (90, "move"),
        "geofence_margin": (80, "move"),
        # Its path alone is free; what the file says is not.
        "geofences": (str(GEOFENCES), "refresh"),
    },
    "top_products": {**ENGINE, "window": ("2h", "refresh"), "k": (2, "refresh")},
    "purchase_totals": {
        **ENGINE,
        "order": ("event_time", "move"),
        "expire_after": ("1h", "refresh"),
        "timeout_in": ("processing_time", "refresh"),
    },
    "model_totals": {"key_groups": (7, "move")},
    "event_index": {
        **ENGINE,
        "window": ("1h", "refresh"),
        "stream": ("sales", "refresh"),
        "key": ("ride_id,point_idx", "refresh"),
        "expire_after": ("1h", "refresh"),
        "timeout_in": ("processing_time", "refresh"),
    },
    "ride_meter_jumps": {**ENGINE, "jump": (7.0, "move"), "within": ("2m", "move")},
    "card_in_two_cities": {**ENGINE, "within": ("2m", "move")},
    "batched_enrichment": {
        "key_groups": (7, "move"),
        "watermark_delay": ("0s", "move"),
        "stream": ("weather", "refresh"),
        "service": ("demo", "free"),
        "max_size": (3, "move"),
        "max_wait": ("1m", "move"),
        "stale_after": ("1m", "move"),
        "shards": (2, "refresh"),
        "timeout": ("1s", "free"),
        "max_attempts": (2, "free"),
        "max_in_flight": (2, "free"),
        "first_pause": ("1s", "free"),
        "max_pause": ("2s", "free"),
    },
}
"""Of each job: another value of a parameter, and what it means."""
for _meant in MEANING.values():
    # Which time a job goes by is every job's, and its generation's for life.
    _meant["time"] = ("arrival", "refresh")

WITH = {
    ("event_index", "stream"): {"key": "item"},
    ("event_index", "timeout_in"): {"expire_after": "1h"},
    ("purchase_totals", "timeout_in"): {"expire_after": "1h"},
}
"""What a parameter cannot be changed without."""

ONE_WAY = [("ride_summaries", "timeout_in"), ("vehicle_trips", "timeout_in")]
"""Parameters whose way back is a refresh: the state has a column for the one value that it has not for the other."""

CHANGES = [(job, name) for job, meant in MEANING.items() for name in meant]
MOVES = [(job, name) for job, name in CHANGES if MEANING[job][name][1] == "move"]


def test_each_parameter_of_each_job_that_is_shipped_has_a_meaning():
    # Jobs of several inputs, or of another job's table, say theirs in tests of their own and on the page of changes.
    jobs = {name: build_job(JOBS[name]) for name in SHIPPED}
    assert {job: set(meant) for job, meant in MEANING.items()} == {
        name: set(JOBS[name].parameter_fields)
        for name, job in jobs.items()
        if len(job.inputs) == 1 and not job.lookups and not job.producers
    }


@pytest.fixture(scope="module")
def born(tmp_path_factory, request):
    """Lakehouses in which each job has run over a part of its history."""
    made = {}

    def born(name):
        if name not in made:
            made[name] = Lakehouse(tmp_path_factory.mktemp("born"))
            history = History(name)
            put(made[name], history.job().only_input.stream.name, history.parts()[0])
            run_job(made[name], history.job(), runners=SPARK)
        return made[name]

    return born


@pytest.mark.parametrize(("job", "name"), CHANGES)
def test_a_changed_parameter_is_free_a_move_or_a_refresh(born, job, name):
    lakehouse = born(job)
    value, verdict = MEANING[job][name]
    told = plan_change(lakehouse, History(job).job(**{name: value, **WITH.get((job, name), {})}))
    assert told.verdict == verdict
    assert f"parameter {name}" in {change.setting for change in told.changes}
    assert plan_change(lakehouse, History(job).job()).changes == ()
    if verdict == "refresh":
        with pytest.raises(KeyfoldError, match="--full-refresh"):
            move(lakehouse, History(job).job(**{name: value, **WITH.get((job, name), {})}), runners=SPARK)


@pytest.mark.parametrize(("job", "name"), ONE_WAY)
def test_the_way_back_of_a_parameter_with_a_column_of_its_own_is_a_refresh(tmp_path, job, name):
    history, lakehouse = History(job), Lakehouse(tmp_path)
    there = history.job(**{name: MEANING[job][name][0]})
    put(lakehouse, there.only_input.stream.name, history.parts()[0])
    run_job(lakehouse, there, runners=SPARK)
    assert plan_change(lakehouse, history.job()).verdict == "refresh"


FIRST_MOVES = dict(reversed([move for move in MOVES if move[1] not in ENGINE]))


@pytest.mark.parametrize(("job", "name"), [*FIRST_MOVES.items(), *(("ride_summaries", name) for name in ENGINE)])
def test_a_job_moved_to_another_value_goes_on_and_every_event_is_accounted_for(tmp_path, job, name):
    history = History(job)
    one, two = history.job(), history.job(**{name: MEANING[job][name][0]})
    lakehouse, parts = Lakehouse(tmp_path), history.parts()
    for part in parts[:2]:
        put(lakehouse, one.only_input.stream.name, part)
        run_job(lakehouse, one, runners=SPARK)
    move(lakehouse, two, runners=SPARK)
    for part in parts[2:]:
        put(lakehouse, two.only_input.stream.name, part)
        summary = run_job(lakehouse, two, runners=SPARK)
        assert accounted_for(lakehouse, two) == counted(two, summary.totals.events)
    summary = run_job(lakehouse, two, Incremental(advance_to=END), runners=SPARK)
    assert summary.totals.events == copies_of(two, parts)
    assert accounted_for(lakehouse, two) == counted(two, summary.totals.events)
