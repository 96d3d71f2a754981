"""Fleet warnings, without Spark: borders and files of geofences; their rows are those of `test_any_history.py`."""

import json
import math
from datetime import datetime, timedelta
from typing import Any

import pytest

from keyfold.errors import KeyfoldError
from keyfold.keyed.job.building import build_job
from keyfold.keyed.job_run import run_job
from keyfold.state.changing.migrating import changes_to
from keyfold.testing import play
from spark_jobs.jobs.fleet_warnings.job import FLEET_WARNINGS
from tests.keyfold.state.job_histories import put
from tests.lake import Lake
from tests.shop import MINUTE, NOON
from tests.spark_jobs.jobs.events import telemetry_frame
from tests.spark_jobs.jobs.fences import FENCES, at, feature, fenced_point, ring, square, write

LONG_PAST_ALL = NOON + timedelta(days=30)


def warnings_job(**parameters):
    return build_job(FLEET_WARNINGS, parameters)


def play_points(job, batches, end: datetime | None = LONG_PAST_ALL, cuts=()):
    return play(job, [telemetry_frame(batch).select(job.columns.names) for batch in batches], end, cuts=cuts)


def told(batches, **parameters):
    """(minute, warning, geofence, change, minute of the beginning) of each warning."""
    rows = play_points(warnings_job(**parameters), batches).written["fleet_warnings"]
    return [
        (
            (row["time"] - NOON) / MINUTE,
            row["warning"],
            row["geofence"],
            row["change"],
            (row["began_at"] - NOON) / MINUTE,
        )
        for row in rows.sort("time", "warning", "geofence", "change").to_dicts()
    ]


@pytest.mark.parametrize("place", [(0, 1), (2, 1), (1, 0), (1, 2), (2, 2)])
def test_a_point_on_the_border_of_a_geofence_is_inside(tmp_path, place):
    fence = write(tmp_path / "fence.geojson", [feature("yard", [[square(0, 0, 2, 2)]])])
    drive = [fenced_point(0), fenced_point(1, place=place), fenced_point(2, place=(3, 3))]
    assert told([drive], geofences=fence, geofence_margin=0) == [
        (1, "IN_GEOFENCE", "yard", "BEGAN", 1),
        (2, "IN_GEOFENCE", "yard", "ENDED", 1),
    ]


def test_a_warning_has_what_the_point_told():
    (row,) = play_points(warnings_job(), [[fenced_point(0, fuel=3.5, heat=99.0)]]).written["fleet_warnings"].to_dicts()
    longitude, latitude = at(-5, -5)
    assert row == {
        "vehicle_id": "bus-7",
        "time": NOON,
        "warning": "LOW_FUEL",
        "change": "BEGAN",
        "geofence": None,
        "began_at": NOON,
        "latitude": latitude,
        "longitude": longitude,
        "fuel_level": 3.5,
        "engine_temperature": 99.0,
    }


def test_a_value_that_is_not_a_number_begins_and_ends_nothing():
    drive = [fenced_point(0, fuel=5.0), fenced_point(1, fuel=math.nan, heat=math.nan), fenced_point(2, heat=90.0)]
    assert told([drive]) == [(0, "LOW_FUEL", None, "BEGAN", 0)]


BAD: dict[str, tuple[Any, str]] = {
    "no such file": (None, "fences.geojson does not exist; give the path"),
    "no JSON": ("{", "cannot be read as JSON"),
    "no collection": ({"type": "Feature"}, "must be a GeoJSON FeatureCollection"),
    "no features": ([], "at least one feature"),
    "no name": ([{**feature("x", FENCES["yard"]), "properties": {}}], "feature 1 has no name"),
    "a name twice": ([feature("x", FENCES["yard"])] * 2, "feature 2: there is another feature with the name 'x'"),
    "a point": (
        [feature("x", FENCES["yard"], type="Point", coordinates=[13, 52])],
        "is a Point; it must be a Polygon",
    ),
    "no geometry": ([{**feature("x", FENCES["yard"]), "geometry": None}], "feature without geometry"),
    "too few corners": (
        [feature("x", [[[at(0, 0), at(1, 1), at(0, 0)]]])],
        r"feature 1 \(x\) is not a valid area: Too few points",
    ),
    "a ring that is open": ([feature("x", [[square(0, 0, 1, 1)[:-1]]])], "has coordinates that are not a"),
    "a bow tie": (
        [feature("x", [[ring((0, 0), (1, 1), (1, 0), (0, 1))]])],
        r"\(x\) is not a valid area: Self-intersection",
    ),
    "no coordinates": ([feature("x", [[]])], r"\(x\) has no coordinates"),
    "latitude first": ([feature("x", [[[(52, 113), (53, 113), (53, 114), (52, 113)]]])], "beyond longitude"),
}


@pytest.mark.parametrize(("content", "reason"), BAD.values(), ids=BAD.keys())
def test_a_file_that_has_no_geofences_is_refused_when_the_job_is_configured(tmp_path, content, reason):
    path = tmp_path / "fences.geojson"
    if isinstance(content, list):
        write(path, content)
    elif content is not None:
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(KeyfoldError, match=reason):
        warnings_job(geofences=str(path))


def test_another_file_of_the_same_areas_goes_on_and_a_changed_one_asks_for_a_refresh(
    without_spark, lakehouse, tmp_path
):
    features = [feature(name, polygons) for name, polygons in FENCES.items()]
    first = write(tmp_path / "first.geojson", features)
    same = write(tmp_path / "same.geojson", [{**one, "id": 7} for one in features[::-1]])
    other = write(tmp_path / "other.geojson", features[:1])
    put(lakehouse, "telemetry", telemetry_frame([fenced_point(0, place=(1, 1))]))
    run_job(lakehouse, warnings_job(geofences=first), runners=without_spark)
    put(lakehouse, "telemetry", telemetry_frame([fenced_point(60, place=(1, 1))]))
    assert run_job(lakehouse, warnings_job(geofences=same), runners=without_spark).counts.events == 1
    for changed in (warnings_job(geofences=other), warnings_job()):
        live = Lake(lakehouse).live("fleet_warnings")
        effects = [(effect.setting, effect.verdict) for effect in changes_to(changed, live).effects]
        assert ("content of geofences", "refresh") in effects
        with pytest.raises(KeyfoldError, match=r"content of geofences: .*sha256.*--full-refresh"):
            run_job(lakehouse, changed, runners=without_spark)
