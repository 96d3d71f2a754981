"""A project is found by its `pyproject.toml`, what it declares by being there, and what is wrong is said where."""

import sys
from itertools import count
from pathlib import Path

import pytest

from keyfold.discovery import declarations, import_modules
from keyfold.errors import KeyfoldError
from keyfold.project import current_project, project_packages
from keyfold.project_folder import PROJECT_VARIABLE, project_folder
from keyfold.stream import Stream
from spark_jobs.jobs.registry import JOBS
from spark_jobs.streams import STREAMS

ROOT = Path(__file__).parents[2]


@pytest.fixture
def alone(tmp_path, monkeypatch):
    """A folder that is in no project, as the working directory of a Python that is in none."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(PROJECT_VARIABLE, raising=False)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


def declare(folder: Path, project: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(f"[tool.keyfold]\nproject = {project}\n")


def test_this_project_has_its_streams_jobs_and_suites(alone, monkeypatch):
    monkeypatch.chdir(ROOT)
    project = current_project()
    assert project.streams is STREAMS
    assert project.jobs is JOBS
    assert project.suites["ride_summaries"]
    assert project.suites.keys().isdisjoint({"no_such_table", "late.ride_summaries"})


def test_where_there_is_no_project_workers_need_none_of_its_packages(alone, monkeypatch):
    assert project_packages() == ()
    monkeypatch.chdir(ROOT)
    assert project_packages() == ("spark_jobs",)


def test_it_is_found_from_a_folder_below_it(alone, monkeypatch):
    monkeypatch.chdir(ROOT / "tests" / "keyfold")
    assert project_folder() == ROOT


def test_it_is_found_beside_the_virtual_environment_of_python(alone, monkeypatch):
    monkeypatch.setattr(sys, "prefix", str(ROOT / ".venv"))
    assert project_folder() == ROOT


def test_the_variable_comes_before_the_working_directory(alone, monkeypatch):
    declare(alone, '"here:PROJECT"')
    monkeypatch.setenv(PROJECT_VARIABLE, str(ROOT))
    assert project_folder() == ROOT


def test_a_project_is_imported_from_its_own_folder(alone):
    declare(alone, '"project_of_a_test:PROJECT"')
    (alone / "project_of_a_test.py").write_text(
        "import pyarrow as pa\n"
        "from keyfold.project import Project\n"
        "from keyfold.stream import TIMESTAMP, Stream\n"
        "CLICKS = Stream('clicks', pa.schema([('at', TIMESTAMP)]), event_time='at')\n"
        "STREAMS, JOBS = {'clicks': CLICKS}, {}\n"
        "PROJECT = Project('project_of_a_test:STREAMS', 'project_of_a_test:JOBS', suites_in='no_suites')\n"
    )
    assert list(current_project().streams) == ["clicks"]
    assert not current_project().jobs
    assert not current_project().suites


@pytest.mark.parametrize(
    ("project", "reason"),
    [
        ('"no_such_module:PROJECT"', "no module no_such_module"),
        ('"json:PROJECT"', "json has no PROJECT"),
        ('"json:dumps"', "is a function: name a keyfold.Project"),
        ("7", 'no project = "module:NAME"'),
        ("[", "cannot be read"),
    ],
)
def test_what_is_wrong_with_it_is_said(alone, project, reason):
    declare(alone, project)
    with pytest.raises(KeyfoldError, match=reason):
        current_project()


def test_where_there_is_none_the_remedy_is_said(alone, monkeypatch):
    with pytest.raises(KeyfoldError, match=f"change to a project's folder, or set {PROJECT_VARIABLE}"):
        current_project()
    monkeypatch.setenv(PROJECT_VARIABLE, str(alone))
    with pytest.raises(KeyfoldError, match="name the folder of a project"):
        current_project()


_numbers = count()


class Kind:
    def __init__(self, name: str) -> None:
        self.name = name


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Writes modules of a package that no other test has imported, and gives the package's name."""
    name = f"found_{next(_numbers)}"
    folder = tmp_path / name
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(sys.modules, "tests_kind", sys.modules[__name__])

    def write(modules: dict[str, str]) -> str:
        for module, text in modules.items():
            path = folder / f"{module}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        return name

    return write


def kind(name: str) -> str:
    return f"from tests_kind import Kind\nONE = Kind({name!r})\n"


def names(package: str, **how) -> list[str]:
    return list(declarations(import_modules(package, **how), Kind))


def test_modules_are_found_by_being_there_and_those_that_declare_nothing_do_not_matter(package):
    assert names(package({"b": kind("second"), "a": kind("first"), "helper": "LIMIT = 3\n"})) == ["first", "second"]


def test_what_is_shipped_comes_first_and_the_rest_by_its_name(package):
    modules = import_modules(package({"a": kind("zebra"), "b": kind("ant"), "c": kind("bee"), "d": kind("cat")}))
    assert list(declarations(modules, Kind, first=("cat", "bee"))) == ["cat", "bee", "ant", "zebra"]


def test_a_folder_is_looked_into_at_one_module_alone(package):
    found = package({"deep/__init__": "", "deep/job": kind("deep"), "deep/other": kind("other"), "bare/__init__": ""})
    assert names(found, within="job") == ["deep"]
    assert names(found) == []


def test_a_module_that_is_to_be_skipped_is_not_imported(package):
    assert names(package({"a": kind("a"), "registry": "raise RuntimeError\n"}), skip=frozenset({"registry"})) == ["a"]


def test_a_declaration_that_another_module_imports_is_no_second_one(package):
    name = package({"a": kind("a")})
    package({"b": f"from {name}.a import ONE\n"})
    assert names(name) == ["a"]


def test_two_of_one_name_are_refused_with_both_files(package):
    modules = import_modules(package({"a": kind("twin"), "b": kind("twin")}))
    with pytest.raises(KeyfoldError, match=r"a\.py and .*b\.py both declare a Kind named 'twin'; rename one"):
        declarations(modules, Kind)


def test_a_type_that_is_not_asked_for_is_left_alone(package):
    assert declarations(import_modules(package({"a": kind("a")})), Stream) == {}


def test_every_module_that_cannot_be_imported_is_told_with_its_file_line_and_reason(package):
    found = package(
        {
            "good": kind("good"),
            "typo": "X = 1\n\nY = undefined\n",
            "half": "def f(:\n",
            "lost": "import no_such_module\n",
            "deep/__init__": "raise ValueError('broken folder')\n",
            "deep/job": kind("deep"),
        }
    )
    with pytest.raises(KeyfoldError) as refused:
        import_modules(found, within="job")
    told = str(refused.value)
    assert "typo.py cannot be imported: NameError: name 'undefined' is not defined" in told
    assert "typo.py, line 3" in told
    assert "half.py cannot be imported: line 1: invalid syntax" in told
    assert "lost.py cannot be imported: ModuleNotFoundError: No module named 'no_such_module'" in told
    assert "job.py cannot be imported: ValueError: broken folder" in told
    assert "good.py" not in told


def test_a_module_that_prints_as_it_is_imported_does_not_print_into_a_command_s_json(package, capfd):
    assert names(package({"chatty": "print('chatty is here')\n" + kind("chatty")})) == ["chatty"]
    out, errors = capfd.readouterr()
    assert (out, errors) == ("", "chatty is here\n")
