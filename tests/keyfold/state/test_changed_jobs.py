"""A move of a shipped job to another value of a parameter loses nothing. What a parameter says of itself is tried in `test_moving`."""

import pytest

from keyfold.errors import KeyfoldError
from keyfold.keyed.generation.run_mode import Incremental
from keyfold.keyed.job_run import run_job
from keyfold.lakehouse import Lakehouse
from keyfold.state.changing.moving import move, plan_change
from spark_jobs.simulation.telemetry import GEOFENCES
from tests.keyfold.state.accounts import accounted_for, copies_of, counted
from tests.keyfold.state.job_histories import END, History, put
from tests.lake import LOCAL

MOVES = [
    ("ride_summaries", {"close": "complete"}),
    ("ride_summaries", {"delay": "0s"}),
    ("ride_summaries", {"idle_timeout": "9h"}),
    ("anomaly_predictions", {"learn": "complete_window"}),
    ("vehicle_trips", {"moving_speed": 30}),
    ("fleet_warnings", {"low_fuel": 11}),
    ("purchase_totals", {"order": "event_time"}),
    ("ride_meter_jumps", {"jump": 7.0}),
    ("card_in_two_cities", {"within": "2m"}),
    ("batched_enrichment", {"max_size": 3}),
]
"""A parameter of each job that has one of its own, and of the engine; other key groups are in `test_round_trip`."""


@pytest.mark.parametrize("job", ["ride_summaries", "vehicle_trips"])
def test_the_way_back_of_a_parameter_with_a_column_of_its_own_is_a_refresh(tmp_path, job):
    # The state has a column for the one value that it has not for the other.
    history, lakehouse = History(job), Lakehouse(tmp_path)
    there = history.job(timeout_in="processing_time")
    put(lakehouse, there.only_input.stream.name, history.parts()[0])
    run_job(lakehouse, there, runners=LOCAL)
    assert plan_change(lakehouse, history.job()).verdict == "refresh"
    with pytest.raises(KeyfoldError, match="--full-refresh"):
        move(lakehouse, history.job(), yes=True, runners=LOCAL)


def test_what_a_file_says_that_a_parameter_names_decides_and_not_its_path(tmp_path):
    history, lakehouse, copy = History("fleet_warnings"), Lakehouse(tmp_path / "home"), tmp_path / "copy.geojson"
    there = history.job(geofences=str(GEOFENCES))
    put(lakehouse, there.only_input.stream.name, history.parts()[0])
    run_job(lakehouse, there, runners=LOCAL)
    copy.write_bytes(GEOFENCES.read_bytes())
    assert plan_change(lakehouse, history.job(geofences=str(copy))).verdict == "free"
    assert plan_change(lakehouse, history.job()).verdict == "refresh"
    assert plan_change(lakehouse, there).changes == ()


@pytest.mark.parametrize(("name", "changed"), MOVES)
def test_a_job_moved_to_another_value_goes_on_and_every_event_is_accounted_for(tmp_path, name, changed):
    history = History(name)
    one, two = history.job(), history.job(**changed)
    lakehouse, parts = Lakehouse(tmp_path), history.parts()
    for part in parts[:2]:
        put(lakehouse, one.only_input.stream.name, part)
        run_job(lakehouse, one, runners=LOCAL)
    assert {change.setting for change in plan_change(lakehouse, two).changes} >= {f"parameter {one}" for one in changed}
    move(lakehouse, two, yes=True, runners=LOCAL)
    for part in parts[2:]:
        put(lakehouse, two.only_input.stream.name, part)
        summary = run_job(lakehouse, two, runners=LOCAL)
        assert accounted_for(lakehouse, two) == counted(two, summary.totals.events)
    summary = run_job(lakehouse, two, Incremental(advance_to=END), runners=LOCAL)
    assert summary.totals.events == copies_of(two, parts)
    assert accounted_for(lakehouse, two) == counted(two, summary.totals.events)
