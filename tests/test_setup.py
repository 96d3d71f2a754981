"""The set-up script is run on stand-ins for Python, pip and uv: what it decides is tested, nothing is installed."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest

REPOSITORY = Path(__file__).parent.parent

PYTHON = """#!/bin/sh
case "$*" in
    --version) echo "Python 3.11.9" ;;
    "-m venv"*) mkdir -p .venv/bin; cp "$0" .venv/bin/python; echo "venv" >>calls ;;
    "-m pip install"*) printf '#!/bin/sh\\necho "uv $*" >>calls\\n' >.venv/bin/uv; chmod +x .venv/bin/uv; echo "pip $*" >>calls ;;
    "-m pip config list") echo "global.index-url='somewhere'" ;;
    "-m compileall"*) echo "compileall $*" >>calls; exit "${COMPILES:-0}" ;;
esac
"""
JAVA = """#!/bin/sh
echo 'openjdk version "17.0.9" 2023-10-17' >&2
"""
TOOLS = ("bash", "cat", "chmod", "cksum", "cp", "dirname", "env", "head", "id", "mkdir", "sed", "sh", "tail")


@pytest.fixture
def machine(tmp_path) -> Path:
    """A folder with what the set-up reads, and a `bin` that holds no more than the tools it needs."""
    for name in ("pyproject.toml", "requirements.lock", "scripts"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (REPOSITORY / name).is_dir() else shutil.copy
        copy(REPOSITORY / name, tmp_path / name)
    (tmp_path / "bin").mkdir()
    for tool in TOOLS:
        (tmp_path / "bin" / tool).symlink_to(shutil.which(tool) or tool)
    program(tmp_path / "bin" / "python3.12", PYTHON)
    program(tmp_path / "bin" / "java", JAVA)
    return tmp_path


def test_a_fresh_machine_gets_everything_and_the_second_run_does_nothing(machine):
    assert set_up(machine).returncode == 0
    calls = (machine / "calls").read_text().splitlines()
    steps = ["venv", "pip", "uv", "uv", "compileall"]
    assert [call.split()[0] for call in calls] == steps
    assert "--compile-bytecode --require-hashes -r requirements.lock" in calls[2]
    assert "--no-deps --no-build-isolation -e ." in calls[3]
    assert calls[4].endswith("keyfold spark_jobs assets expectations dagster_project")
    again = set_up(machine)
    assert (again.returncode, again.stdout) == (0, "")
    assert (machine / "calls").read_text().splitlines() == calls


@pytest.mark.parametrize("changed", ["requirements.lock", "pyproject.toml"])
def test_a_change_of_what_it_depends_on_runs_it_again_in_the_same_venv(machine, changed):
    set_up(machine)
    (machine / "calls").unlink()
    (machine / changed).write_text("# changed\n")
    set_up(machine)
    assert [call.split()[0] for call in (machine / "calls").read_text().splitlines()][:3] == ["pip", "uv", "uv"]


def test_a_set_up_that_failed_is_not_taken_for_done(machine):
    assert set_up(machine, COMPILES="1").returncode == 1
    assert not (machine / ".venv" / "keyfold-setup").exists()
    assert "setup: ready" in set_up(machine).stdout


def test_a_venv_whose_python_is_gone_is_made_anew(machine):
    set_up(machine)
    program(machine / ".venv" / "bin" / "python", "#!/bin/sh\nexit 127\n")
    assert "creating .venv with Python 3.11.9" in set_up(machine).stdout


@pytest.mark.parametrize(
    ("missing", "environment", "message"),
    [
        ("java", {}, "setup: install a Java 17 or 21 runtime and run this again"),
        ("", {"JAVA_HOME": "/nowhere"}, "JAVA_HOME is /nowhere, which holds no Java that runs"),
        ("python3.12", {}, "install Python 3.11, 3.12 or 3.13"),
        ("", {"PYTHON": "/nowhere/python"}, "PYTHON is /nowhere/python, which is no Python 3.11, 3.12 or 3.13"),
    ],
)
def test_what_is_missing_is_said_with_what_to_do(machine, missing, environment, message):
    if missing:
        (machine / "bin" / missing).unlink()
    ended = set_up(machine, **environment)
    assert ended.returncode == 1
    assert message in ended.stderr
    assert not (machine / "calls").exists()


@pytest.mark.parametrize("name", ["requirements.lock", "pyproject.toml", "Makefile", ".ci/run", "scripts", "keyfold"])
def test_no_file_of_the_set_up_names_a_registry(name):
    path = REPOSITORY / name
    files = [file for file in path.rglob("*") if file.suffix != ".pyc"] if path.is_dir() else [path]
    text = "\n".join(file.read_text(encoding="utf-8") for file in files if file.is_file())
    for namespace in ("http://maven.apache.org/POM/4.0.0", "http://www.w3.org/2000/svg"):
        text = text.replace(namespace, "")
    assert "://" not in text or path.name == "keyfold"
    assert not [word for word in ("pypi.", "repo1.", "repo.maven", "files.pythonhosted") if word in text]


def test_make_passes_the_folder_on_to_the_demo():
    told = [make("-n", "demo"), make("-n", "demo", "FROM=some where")]
    assert told[0].endswith("python -m dagster_project.demo.run")
    assert told[1].endswith('python -m dagster_project.demo.run --from "some where"')


def set_up(machine: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {"PATH": str(machine / "bin"), "HOME": str(machine), **environment}
    return run([str(machine / "scripts" / "setup")], variables)


def make(*arguments: str) -> str:
    environment = {
        name: value for name, value in os.environ.items() if name not in {"MAKEFLAGS", "MAKELEVEL", "MFLAGS"}
    }
    told = run(["make", "--no-print-directory", "-C", str(REPOSITORY), *arguments], environment)
    return told.stdout.splitlines()[-1].strip()


def run(command: Sequence[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


def program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def texts(element: ElementTree.Element) -> list[str]:
    return [child.text or "" for child in element]
