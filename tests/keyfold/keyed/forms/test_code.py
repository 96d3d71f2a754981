"""The code of a function is what it does: other source or values are other code, a moved, renamed or reformatted module is not."""

import dataclasses
import functools
import importlib
import itertools
import os
import subprocess
import sys
import textwrap

import polars as pl
import pytest
from pydantic import BaseModel, Field

from keyfold.keyed.forms.code import code_of

ZONES = '''
"""Zones of a city."""
import polars as pl
LIMITS = {"inner": 3, "outer": 9}
NAMES = {"north", "south", "east", "west", "centre"}

class Zone:
    """A zone."""
    margin = 2
    def __init__(self, name: str) -> None:
        self.name = name
    def holds(self, km):
        return km < LIMITS[self.name] + self.margin

def assign(km):
    """Assign a zone."""
    return "inner" if Zone("inner").holds(km) else "outer"

def unused():
    return 1
'''
STEP = '''
from ZONES_MODULE import NAMES, assign

RATE = 3
def count(state, events, clock):
    """Counts."""
    # By zone.
    found = [assign(km) for km in events if assign(km) in NAMES]
    return RATE * len(found)
'''

# A module of a name is imported once.
_NUMBERS = itertools.count()


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Writes modules of a project; returns the step `count` of it."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(step=STEP, zones=ZONES, *, package="rides", module="zones"):
        folder = tmp_path / f"{package}_{next(_NUMBERS)}"
        folder.mkdir()
        (folder / "__init__.py").write_text("")
        (folder / f"{module}.py").write_text(zones)
        (folder / "step.py").write_text(step.replace("ZONES_MODULE", f"{folder.name}.{module}"))
        importlib.invalidate_caches()
        return importlib.import_module(f"{folder.name}.step").count

    return write


SAME = {
    "another package": {"package": "journeys"},
    "another module": {"module": "areas"},
    "comments": {"step": STEP.replace("# By zone.", "# By the zone of each event.\n")},
    "docstrings": {
        "step": STEP.replace('"""Counts."""', '"""Counts events."""'),
        "zones": ZONES.replace("Assign", "Give"),
    },
    "no docstring": {"step": STEP.replace('    """Counts."""\n', "")},
    "formatting": {"step": STEP.replace("RATE * len(found)", "(RATE\n        * len( found ))")},
    "annotations": {"step": STEP.replace("(state, events, clock):", "(state: object, events: list, clock) -> int:")},
    "what is not used": {"zones": ZONES.replace("return 1", "return 2")},
    "other places in the file": {"step": "import math\n\n\n" + STEP},
    "another spelling of a set": {"zones": ZONES.replace('"north", "south"', '"south", "north"')},
    "imported where it is used": {
        "step": STEP.replace("from ZONES_MODULE import NAMES, assign\n", "").replace(
            "    # By", "    from ZONES_MODULE import NAMES, assign\n    # By"
        )
    },
}
OTHER = {
    "the step": {"step": STEP.replace("RATE * len", "RATE + len")},
    "a constant of its module": {"step": STEP.replace("RATE = 3", "RATE = 4")},
    "its type": {"step": STEP.replace("RATE = 3", "RATE = 3.0")},
    "a default": {"step": STEP.replace("clock)", "clock=None)")},
    "a function it calls": {"zones": ZONES.replace('else "outer"', 'else "far"')},
    "a class that one uses": {"zones": ZONES.replace("km < LIMITS", "km <= LIMITS")},
    "an attribute of the class": {"zones": ZONES.replace("margin = 2", "margin = 3")},
    "a constant two calls away": {"zones": ZONES.replace('"inner": 3', '"inner": 4')},
    "a value of a set": {"zones": ZONES.replace('"north"', '"up"')},
}


@pytest.mark.parametrize("what", [name for name in SAME if name != "imported where it is used"])
def test_what_changes_nothing_is_the_same_code(project, what):
    assert code_of(project(**SAME[what])) == code_of(project())


@pytest.mark.parametrize("what", OTHER)
def test_what_may_change_a_result_is_other_code(project, what):
    assert code_of(project(**OTHER[what])).digest != code_of(project()).digest


def test_an_import_within_a_function_brings_its_code_wherever_the_module_is(project):
    within = SAME["imported where it is used"]
    one, moved = code_of(project(**within)), code_of(project(**within, module="areas", package="journeys"))
    assert one == moved
    assert code_of(project(**within, zones=ZONES.replace("< LIMITS", "> LIMITS"))).digest != one.digest


def test_a_module_that_is_used_by_its_name_brings_what_is_taken_from_it(project):
    step = STEP.replace("from ZONES_MODULE import NAMES, assign", "import ZONES_MODULE as zones")
    step = step.replace("assign(", "zones.assign(").replace("in NAMES", "in zones.NAMES")
    assert code_of(project(step)).digest != code_of(project(step, ZONES.replace("< LIMITS", "> LIMITS"))).digest
    assert code_of(project(step)) == code_of(project(step, ZONES.replace("return 1", "return 2"), module="areas"))


def test_it_says_which_lines_and_which_constants_have_changed(project):
    one, other = (
        code_of(project()),
        code_of(project(STEP.replace("RATE = 3", "RATE = 4"), ZONES.replace('"outer"', '"o"'))),
    )
    changed = {name for name in one.parts if one.parts[name] != other.parts[name]}
    assert changed == {"RATE", "LIMITS", "assign"}
    assert [a == b for a, b in zip(one.parts["assign"], other.parts["assign"], strict=True)] == [True, False]


def test_no_text_of_code_and_no_value_is_kept(project):
    step = STEP.replace("RATE = 3", 'RATE = "PLANTED"').replace("RATE * len", "RATE + 'PLANTED' + len")
    assert "PLANTED" not in str(code_of(project(step)))


def with_closure(limit):
    return lambda events: events.filter(pl.col("n") > limit)


def of_two(one, other):
    return one + other


class Threshold:
    def __init__(self, limit):
        self.limit = limit
        self.cache: str | None = None

    def __call__(self, events):
        return events.filter(pl.col("n") > self.limit)

    def other(self, events):
        return events

    def __getstate__(self):
        return {**self.__dict__, "cache": None}


DIFFER = [
    (with_closure(3), with_closure(4)),
    (functools.partial(of_two, 3), functools.partial(of_two, 4)),
    (functools.partial(of_two, other=3), functools.partial(of_two, one=3)),
    (Threshold(3), Threshold(4)),
    (Threshold(3).__call__, Threshold(3).other),
    (lambda x: x + 1, lambda x: x + 2),
    (lambda x, y=1: x + y, lambda x, y=2: x + y),
    (with_closure(pl.col("a")), with_closure(pl.col("b"))),
    (with_closure(pl.col("a").map_elements(lambda x: x + 1, pl.Int64)), with_closure(pl.col("a").map_elements(lambda x: x + 2, pl.Int64))),
    (with_closure([1, 2]), with_closure([2, 1])),
    (with_closure(True), with_closure(1)),
    (with_closure(pl.DataFrame({"a": [1]})), with_closure(pl.DataFrame({"a": [2]}))),
    (abs, round),
    (str.upper, str.lower),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(DIFFER)))
def test_values_of_closures_partials_and_objects_count(number):
    one, other = DIFFER[number]
    assert code_of(one).digest != code_of(other).digest
    assert code_of(one) == code_of(one)


def test_what_an_object_has_computed_for_itself_does_not_count():
    used = Threshold(3)
    used.cache = "large"
    assert code_of(used) == code_of(Threshold(3))


class Service(BaseModel):
    retries: int = 3
    address: str = Field("http://127.0.0.1", exclude=True)


@dataclasses.dataclass(frozen=True)
class Server:
    retries: int = 3
    address: str = dataclasses.field(default="http://127.0.0.1", compare=False)


@pytest.mark.parametrize("kind", [Service, Server])
def test_settings_of_a_place_do_not_count_and_others_do(kind):
    def code(**settings):
        used = kind(**settings)
        return code_of(lambda: used).digest

    assert code(address="https://geo.example.org") == code()
    assert code(retries=4) != code()


def test_functions_that_call_each_other_have_an_end():
    assert code_of(is_even).digest != code_of(is_odd).digest


def is_even(n):
    return n == 0 or is_odd(n - 1)


def is_odd(n):
    return n != 0 and is_even(n - 1)


def test_code_without_source_is_what_python_made_of_it():
    def compiled(text):
        names: dict = {}
        exec(text, names)  # noqa: S102 - as a console has it
        return names["f"]

    assert code_of(compiled("def f(x): return x + 1")) == code_of(compiled("def f(x):\n    return x + 1"))
    assert code_of(compiled("def f(x): return x + 1")).digest != code_of(compiled("def f(x): return x + 2")).digest


def test_the_code_of_an_installed_package_counts_by_its_name(project):
    step = "import numpy as np\ndef count(state, events, clock):\n    return np.median(events)\n"
    code = code_of(project(step))
    assert set(code.parts) == {"count"}
    assert code.digest != code_of(project(step.replace("median", "mean"))).digest


def test_the_order_of_hashes_does_not_count(project, tmp_path):
    program = textwrap.dedent(f"""
        import sys; sys.path.insert(0, {str(tmp_path)!r})
        from keyfold.keyed.forms.code import code_of
        from {project().__module__} import count
        print(code_of(count).digest)
    """)
    digests = {
        subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in "123"
    }
    assert len(digests) == 1


def test_a_module_that_is_imported_within_a_function_brings_what_is_taken_from_it(project):
    step = STEP.replace("from ZONES_MODULE import NAMES, assign\n", "").replace(
        "# By zone.", "import ZONES_MODULE as zones"
    )
    step = step.replace("assign(", "zones.assign(").replace("in NAMES", "in zones.NAMES")
    assert code_of(project(step)).digest != code_of(project(step, ZONES.replace("< LIMITS", "> LIMITS"))).digest
    assert code_of(project(step)) == code_of(project(step, module="areas"))
