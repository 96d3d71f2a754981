"""The set-up script is run on stand-ins for Python, pip and uv: what it decides is tested, nothing is installed."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from runpy import run_path
from xml.etree import ElementTree

import pytest

from keyfold.errors import KeyfoldError
from keyfold.session.packages import DELTA_PACKAGE, LEFT_OUT, S3_PACKAGES

REPOSITORY = Path(__file__).parent.parent

PYTHON = """#!/bin/sh
case "$*" in
    --version) echo "Python 3.11.9" ;;
    "-m venv"*) mkdir -p .venv/bin; cp "$0" .venv/bin/python; echo "venv" >>calls ;;
    "-m pip install"*) printf '#!/bin/sh\\necho "uv $*" >>calls\\n' >.venv/bin/uv; chmod +x .venv/bin/uv; echo "pip $*" >>calls ;;
    "-m pip config list") echo "global.index-url='somewhere'" ;;
    "-m compileall"*) echo "compileall $*" >>calls ;;
    scripts/*) echo "$*" >>calls; exit "${SPARK_STARTS:-0}" ;;
esac
"""
JAVA = """#!/bin/sh
echo 'openjdk version "17.0.9" 2023-10-17' >&2
"""
TOOLS = ("bash", "cat", "chmod", "cksum", "cp", "dirname", "env", "head", "id", "mkdir", "sed", "sh", "tail")


@pytest.fixture
def machine(tmp_path) -> Path:
    """A folder with what the set-up reads, and a `bin` that holds no more than the tools it needs."""
    for name in ("pyproject.toml", "requirements.lock", "scripts", "keyfold/session/packages.py"):
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
    steps = ["venv", "pip", "uv", "uv", "compileall", "scripts/spark_packages.py"]
    assert [call.split()[0] for call in calls] == steps
    assert "--compile-bytecode --require-hashes -r requirements.lock" in calls[2]
    assert "--no-deps --no-build-isolation -e ." in calls[3]
    assert calls[4].endswith("keyfold spark_jobs assets expectations dagster_project")
    again = set_up(machine)
    assert (again.returncode, again.stdout) == (0, "")
    assert (machine / "calls").read_text().splitlines() == calls


@pytest.mark.parametrize("changed", ["requirements.lock", "pyproject.toml", "keyfold/session/packages.py"])
def test_a_change_of_what_it_depends_on_runs_it_again_in_the_same_venv(machine, changed):
    set_up(machine)
    (machine / "calls").unlink()
    (machine / changed).write_text("# changed\n")
    set_up(machine)
    assert [call.split()[0] for call in (machine / "calls").read_text().splitlines()][:3] == ["pip", "uv", "uv"]


def test_a_set_up_that_failed_is_not_taken_for_done(machine):
    assert set_up(machine, SPARK_STARTS="1").returncode == 1
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


def test_maven_fetches_what_spark_will_look_for_and_nothing_it_ships():
    project_with = run_path(str(REPOSITORY / "scripts" / "spark_packages.py"))["project_with"]
    pom = ElementTree.fromstring(project_with(DELTA_PACKAGE))  # noqa: S314 (our own)
    dependency = pom.find("{*}dependencies/{*}dependency")
    assert dependency is not None
    assert ":".join(texts(dependency)[:3]) == DELTA_PACKAGE
    excluded = [":".join(texts(exclusion)) for exclusion in dependency.iterfind("{*}exclusions/{*}exclusion")]
    assert excluded == list(LEFT_OUT)


def test_every_package_that_a_bucket_needs_is_locked():
    locked = run_path(str(REPOSITORY / "scripts" / "spark_packages.py"))["read_lock"]()
    for group, artifact, version in (package.split(":") for package in S3_PACKAGES):
        assert f"{group}_{artifact}-{version}.jar" in locked


def test_a_jar_that_is_not_the_locked_one_is_refused_before_spark_starts_and_after(tmp_path):
    packages = run_path(str(REPOSITORY / "scripts" / "spark_packages.py"))
    locked = packages["read_lock"]()
    name = "_".join(DELTA_PACKAGE.rsplit(":", 1)[0].split(":")) + "-" + DELTA_PACKAGE.rpartition(":")[2] + ".jar"
    assert name in locked
    mine, users = tmp_path / name, tmp_path / "com.example_more-1.0.jar"
    mine.write_bytes(b"Delta's own")
    users.write_bytes(b"what a user adds")
    packages["check"]([mine, users], {name: sha256(b"Delta's own").hexdigest()})
    mine.write_bytes(b"Delta's own, and something more")
    with pytest.raises(KeyfoldError, match=f"{mine} is not the jar in spark_jars.sha256.*delete {tmp_path}"):
        packages["check"]([users, mine], locked)
    with pytest.raises(
        KeyfoldError, match=r"is in no line of spark_jars.sha256; if DELTA_PACKAGE or S3_PACKAGES was changed"
    ):
        packages["check"]([mine], {})
    with pytest.raises(KeyfoldError, match=f"Spark did not take {name}"):
        packages["check_all_used"]([users], {name: locked[name]})


def test_a_tampered_jar_stops_the_set_up_with_one_message(tmp_path):
    jar = tmp_path / ".ivy2.5.2" / "jars" / f"io.delta_{DELTA_PACKAGE.split(':')[1]}-{DELTA_PACKAGE.split(':')[2]}.jar"
    jar.parent.mkdir(parents=True)
    jar.write_bytes(b"something else")
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": str(REPOSITORY)}
    script = "import shutil, runpy; shutil.which = lambda name: None; runpy.run_path('scripts/spark_packages.py', run_name='__main__')"
    ended = subprocess.run(
        [sys.executable, "-c", script], cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert f"setup: {jar} is not the jar in spark_jars.sha256" in ended.stderr


def test_the_jars_that_spark_takes_here_are_the_locked_ones(spark):
    packages = run_path(str(REPOSITORY / "scripts" / "spark_packages.py"))
    used = [Path(jar.removeprefix("file:")) for jar in spark.sparkContext.getConf().get("spark.jars").split(",")]
    locked = packages["read_lock"]()
    packages["check"](used, locked)
    # A session whose home is a folder takes Delta's alone.
    of_buckets = ("org.apache.hadoop_", "org.reactivestreams_", "org.wildfly.", "software.amazon.")
    packages["check_all_used"](used, {name: locked[name] for name in locked if not name.startswith(of_buckets)})
    assert not [jar.name for jar in used if jar.name.startswith(of_buckets)]


@pytest.mark.parametrize("name", ["requirements.lock", "pyproject.toml", "Makefile", ".ci/run", "scripts", "keyfold"])
def test_no_file_of_the_set_up_names_a_registry(name):
    path = REPOSITORY / name
    files = [file for file in path.rglob("*") if file.suffix != ".pyc"] if path.is_dir() else [path]
    text = "\n".join(file.read_text(encoding="utf-8") for file in files if file.is_file())
    assert "://" not in text.replace("http://maven.apache.org/POM/4.0.0", "") or path.name == "keyfold"
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
