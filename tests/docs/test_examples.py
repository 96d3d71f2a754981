"""The examples in docstrings run, and give what they say; whoever writes one need not list it here. Without Spark."""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

from keyfold.keyed.calling import harness
from keyfold.keyed.job import contract, per_key, step, tables

REPOSITORY = Path(__file__).parents[2]
FOLDERS = ("keyfold", "spark_jobs", "assets", "dagster_project")
MODULES = [
    ".".join(path.relative_to(REPOSITORY).with_suffix("").parts).removesuffix(".__init__")
    for room in FOLDERS
    for path in sorted((REPOSITORY / room).rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_give_what_they_say(name):
    module = import_module(name)
    found = doctest.DocTestFinder(exclude_empty=True).find(module)
    assert any(one.examples for one in found), f"{name} shows >>> where doctest does not look"
    assert not doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE).failed


@pytest.mark.parametrize(
    "shown",
    [
        contract.KeyedJob,
        tables.Append,
        tables.Upsert,
        step.Clock,
        step.Step,
        per_key.per_key,
        harness.TestHarness,
    ],
)
def test_what_an_author_of_a_job_writes_has_an_example(shown):
    assert doctest.DocTestFinder(recurse=False).find(shown)[0].examples
