"""Each operator refuses an argument that it does not have, in Python and in YAML, and names the one that was meant."""

import inspect
from typing import Any, cast, get_type_hints

import polars as pl
import pytest

from keyfold import KeyedJob, Misconfigured, Stream, operators
from keyfold.dagster.arguments import OPERATORS as IN_YAML
from keyfold.dagster.components import KeyedJob as Component

CLICKS = Stream("clicks", {"user": pl.String, "at": pl.Datetime("us", "UTC")}, event_time="at")
FUNCTIONS = [getattr(operators, name) for name in operators.__all__]
OPERATORS = {
    function.__name__: function
    for function in FUNCTIONS
    if inspect.isfunction(function) and get_type_hints(function)["return"] is KeyedJob
}
SETTINGS = ("parameters", "key_groups", "contents", "description")


def arguments_of(operator):
    """The names that a caller may give, of which misspellings are made."""
    own = [name for name in inspect.signature(OPERATORS[operator]).parameters if name not in ("name", "settings")]
    return [*own, *SETTINGS]


def misspelt(name, names):
    """One letter less, one twice, two exchanged, and a longer name, unless that is an argument as well."""
    made = {name[:-1], name[0] + name, name[1] + name[0] + name[2:] if len(name) > 1 else "", f"{name}s"}
    return sorted(made - {"", "name", *names})


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_misspelt_argument_is_named_with_the_one_that_was_meant(operator):
    names, suggested = arguments_of(operator), 0
    for name in names:
        for wrong in misspelt(name, names):
            with pytest.raises(Misconfigured) as refused:
                OPERATORS[operator]("j", **{wrong: "1h"})
            text = str(refused.value)
            assert text.startswith(f"job j: {operator} has no argument {wrong}; ")
            assert all(one in text for one in names)
            suggested += f"did you mean {name}?" in text
    # Of the shortest names nothing is near.
    assert suggested > len(names)


@pytest.mark.parametrize("operator", IN_YAML)
def test_in_yaml_too_and_with_its_place(operator):
    names = arguments_of(operator)
    for name in names:
        for wrong in misspelt(name, names):
            made = {"name": "j", "stream": "clicks", "operator": operator, "arguments": {wrong: "1h"}}
            with pytest.raises(
                Misconfigured, match=f"^keyfold/job j: arguments: {operator} has no argument {wrong}; (did|there)"
            ):
                Component.model_validate(made).declared({"clicks": CLICKS}.__getitem__)


@pytest.mark.parametrize("setting", ["lookups", "model", "build", "state", "step", "tables"])
def test_what_an_operator_sets_itself_is_no_argument_of_it(setting):
    with pytest.raises(Misconfigured, match=f"totals has no argument {setting}"):
        operators.totals("j", CLICKS, {"n": operators.count()}, key="user", **cast(Any, {setting: None}))
