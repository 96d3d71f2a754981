"""`import keyfold`: the public names, their documentation, and what importing them costs."""

import ast
import doctest
import errno
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import keyfold
import keyfold.cli
from keyfold.errors import error_in

HEAVY = ("dagster", "deltalake", "great_expectations", "pandas", "polars", "pyarrow", "pydantic", "pyspark")
ERRORS = [
    value
    for name in keyfold.__all__
    if isinstance(value := getattr(keyfold, name), type) and issubclass(value, Exception)
]


def test_importing_keyfold_imports_no_large_library():
    script = f"import sys, keyfold; print([name for name in {HEAVY} if name in sys.modules])"
    assert run(script) == "[]"


def test_a_name_stays_what_it_is_after_every_module_is_imported():
    """`ingest` must not turn into a module of its name, as a package's attribute does when a submodule is imported."""
    script = (
        "import keyfold, keyfold.cli.app\n"
        "found = {name: getattr(keyfold, name) for name in keyfold.__all__}\n"
        "import types; print([name for name, value in found.items() if isinstance(value, types.ModuleType)])"
    )
    assert run(script) == "[]"


@pytest.mark.parametrize(
    "name",
    [name for name in keyfold.__all__ if inspect.isroutine(value := getattr(keyfold, name)) or inspect.isclass(value)],
)
def test_a_public_name_has_a_docstring_with_an_example(name):
    value = getattr(keyfold, name)
    assert inspect.getdoc(value)
    assert doctest.DocTestFinder(recurse=False).find(value, name)[0].examples


@pytest.mark.parametrize("package", [keyfold, keyfold.cli], ids=lambda package: package.__name__)
def test_type_checkers_see_the_names_that_are_imported_lazily(package):
    tree = ast.parse(Path(package.__file__).read_text(encoding="utf-8"))
    imported = {
        alias.name: node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    lazy = {name: module for module, names in package._MODULES.items() for name in names}
    assert {name: imported.get(name) for name in lazy} == lazy
    assert set(package.__all__) == set(lazy) | ({error.__name__ for error in ERRORS} if package is keyfold else set())
    assert all(getattr(package, name) is not None for name in lazy)


def test_every_error_is_a_keyfold_error_and_says_what_an_operator_does():
    kinds = [error for error in ERRORS if error is not keyfold.KeyfoldError]
    assert all(issubclass(error, keyfold.KeyfoldError) for error in kinds)
    assert [error.__name__ for error in kinds if "What an operator does:" not in (error.__doc__ or "")] == []


def test_the_page_on_errors_has_each_of_them():
    page = (Path(__file__).parents[2] / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    listed = {line.split("`")[1] for line in page.splitlines() if line.startswith("| `") and line.count("|") == 5}
    assert {error.__name__ for error in ERRORS} - {"KeyfoldError"} <= listed


@pytest.mark.parametrize("kind", [keyfold.Damaged, keyfold.KeyfoldError, keyfold.StepFailed])
def test_an_error_that_a_worker_raised_keeps_its_kind(kind):
    raised = error_in(f"Job aborted: Traceback\nkeyfold.errors.{kind.__name__}: journal 3 is gone\n\tat org.apache")
    assert type(raised) is kind
    assert str(raised) == "journal 3 is gone"


def test_a_full_disk_of_a_worker_is_that_of_a_local_run_and_another_error_of_the_system_is_none():
    line = "Traceback:\n  File 'work.py'\nOSError: [Errno {}] No space left on device: '/lake/tables/a: b/part.parquet'\n\tat org"
    raised = error_in(line.format(28))
    assert isinstance(raised, OSError)
    assert (raised.errno, raised.filename) == (errno.ENOSPC, "/lake/tables/a: b/part.parquet")
    assert error_in(line.format(111)) is None


def test_of_chained_errors_of_a_worker_the_last_is_raised():
    chained = "keyfold.errors.Damaged: its checksum is another one\n\nThe above exception was the direct cause of"
    raised = error_in(
        f"Traceback\n{chained} …\n\nTraceback\nkeyfold.errors.Damaged: job, batch 1: cannot be read\n\tat"
    )
    assert str(raised) == "job, batch 1: cannot be read"


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'kayed'"):
        _ = keyfold.kayed  # pyright: ignore[reportAttributeAccessIssue]


def run(script: str) -> str:
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.strip()
