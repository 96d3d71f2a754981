"""All suites: plain values that Great Expectations takes as they stand."""

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import expectations
from keyfold.suite import Expectation, Suite

MODULES = sorted(
    path.stem for path in Path(*expectations.__path__).glob("*.py") if path.stem not in {"__init__", "suite"}
)
SUITES: dict[str, Suite] = {name: import_module(f"expectations.{name}").EXPECTATIONS for name in MODULES}


def test_gx_takes_every_value_as_it_stands():
    # Each worker collects all tests, and this import takes seconds.
    import great_expectations as gx  # noqa: PLC0415

    for name, suite in SUITES.items():
        assert suite, name
        values = json.loads(json.dumps(list(suite.values())))
        # GX leaves out what it refuses, gives each an id, and writes down that there is no `meta`.
        taken = [
            one.to_json_dict() for one in gx.ExpectationSuite(name=name, expectations=values).expectation_configurations
        ]
        assert [one | {"id": None} for one in taken] == [{"meta": {}, "id": None, **one} for one in values], name


def test_every_expectation_says_what_it_is_for():
    known = Expectation.__required_keys__ | Expectation.__optional_keys__
    for name, suite in SUITES.items():
        for check, one in suite.items():
            assert one["description"], (name, check)
            assert known >= one.keys() >= Expectation.__required_keys__, (name, check)


def test_severities_are_mixed():
    for name in MODULES:
        if len(SUITES[name]) > 3:
            assert {one["severity"] for one in SUITES[name].values()} >= {"critical", "info"}, name


def test_all_suites_load_without_libraries():
    code = (
        f"import sys; before = set(sys.modules); [__import__('expectations.' + name) for name in {MODULES}]; "
        "print(*{name.partition('.')[0] for name in set(sys.modules) - before} - sys.stdlib_module_names)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert set(told.split()) == {"expectations", "keyfold"}
