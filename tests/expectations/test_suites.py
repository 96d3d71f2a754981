"""All suites: plain values that Great Expectations takes as they stand."""

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import great_expectations as gx
import pytest

import expectations
from expectations import purchase_totals, ride_summaries, station_sessions
from expectations.event_index import expectations_for
from keyfold.dagster.quality.serialised import build_expectations, serialise
from keyfold.suite import Expectation, Suite

MODULES = sorted(
    path.stem for path in Path(*expectations.__path__).glob("*.py") if path.stem not in {"__init__", "suite"}
)
SUITES: dict[str, Suite] = {name: import_module(f"expectations.{name}").EXPECTATIONS for name in MODULES} | {
    "event_index of two columns": expectations_for(("item", "quantity"), "time"),
    "event_index in windows": expectations_for(("ride_id",), "timestamp", windows=True),
    "event_index that expires": expectations_for(("ride_id",), "timestamp", expires=True),
    "purchase_totals that expire": purchase_totals.EXPIRING,
    "ride_summaries in processing time": ride_summaries.IN_PROCESSING_TIME,
    "station_sessions in processing time": station_sessions.IN_PROCESSING_TIME,
}


@pytest.mark.parametrize("name", SUITES)
def test_every_expectation_becomes_one_of_gx_and_the_same_value_again(name):
    suite = SUITES[name]
    assert suite
    for check, built in build_expectations(suite).items():
        # GX writes down that there is no `meta`.
        assert serialise(built) == {"meta": {}, **suite[check]}


@pytest.mark.parametrize("name", SUITES)
def test_gx_takes_the_values_as_they_stand(name):
    values = json.loads(json.dumps(list(SUITES[name].values())))
    assert gx.ExpectationSuite(name=name, expectations=values).expectations == [
        *build_expectations(SUITES[name]).values()
    ]


@pytest.mark.parametrize("name", SUITES)
def test_every_expectation_says_what_it_is_for(name):
    known = Expectation.__required_keys__ | Expectation.__optional_keys__
    for check, one in SUITES[name].items():
        assert one["description"], check
        assert known >= one.keys() >= Expectation.__required_keys__, check


@pytest.mark.parametrize("name", [name for name in MODULES if len(SUITES[name]) > 3])
def test_severities_are_mixed(name):
    assert {one["severity"] for one in SUITES[name].values()} >= {"critical", "info"}


def test_all_suites_load_without_libraries():
    code = (
        f"import sys; before = set(sys.modules); [__import__('expectations.' + name) for name in {MODULES}]; "
        "print(*{name.partition('.')[0] for name in set(sys.modules) - before} - sys.stdlib_module_names)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert set(told.split()) == {"expectations", "keyfold"}
