"""A project is found by its `pyproject.toml`, and what is wrong with it is said where."""

import sys
from pathlib import Path

import pytest

from keyfold.errors import KeyfoldError
from keyfold.project import PROJECT_VARIABLE, current_project, project_folder
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
    assert project.suite("ride_summaries")
    assert project.suite("no_such_table") is None
    assert project.suite("late.ride_summaries") is None


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
    assert current_project().suite("clicks") is None


@pytest.mark.parametrize(
    ("project", "reason"),
    [
        ('"no_such_module:PROJECT"', "no module no_such_module"),
        ('"json:PROJECT"', "json has no PROJECT"),
        ('"json:dumps"', "is a function, not a keyfold.Project"),
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
