"""The wheel: built from a copy of the checkout, without the network, looked into, and worked with away from the checkout."""

import json
import os
import shutil
import sys
import sysconfig
import venv
from collections.abc import Iterator
from email.message import Message
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.commands import ended_well

ROOT = Path(__file__).parents[1]

# Not httpx: a job of this project, and not of Keyfold, imports it.
OF_EXTRAS = (
    "apprise",
    "confluent_kafka",
    "dagster",
    "dagster_pyspark",
    "dagster_webserver",
    "great_expectations",
    "matplotlib",
    "obstore",
    "shapely",
    "sqlalchemy",
)


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    checkout, out = tmp_path_factory.mktemp("checkout"), tmp_path_factory.mktemp("out")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, checkout)
    for name in ("keyfold", "spark_jobs", "assets", "expectations", "dagster_project"):
        shutil.copytree(ROOT / name, checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
    pip(checkout, "wheel", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", out, checkout)
    (wheel,) = out.iterdir()
    return wheel


@pytest.fixture(scope="module")
def wheel(built) -> Iterator[ZipFile]:
    with ZipFile(built) as opened:
        yield opened


@pytest.fixture(scope="module")
def metadata(wheel) -> Message:
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return Parser().parsestr(wheel.read(name).decode())


def test_only_keyfold_is_in_the_wheel_with_all_its_modules(wheel):
    assert {name.partition("/")[0] for name in wheel.namelist()} == {"keyfold", "keyfold-0.1.0.dist-info"}
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "keyfold").rglob("*.py")}
    assert {name for name in wheel.namelist() if name.endswith(".py")} == modules


def test_the_files_that_are_no_modules_are_in_the_wheel(wheel):
    files = {path for path in (ROOT / "keyfold").rglob("*") if path.is_file() and path.suffix not in {".py", ".pyc"}}
    assert {path.relative_to(ROOT).as_posix() for path in files} <= set(wheel.namelist())
    assert {"keyfold/py.typed", "keyfold/dagster/dagster.yaml", "keyfold/session/log4j2.properties"} <= set(
        wheel.namelist()
    )


def test_the_metadata_names_the_extras_the_license_and_ranges(metadata):
    assert set(metadata.get_all("Provides-Extra") or ()) == {
        "all",
        "buckets",
        "dagster",
        "dev",
        "kafka",
        "lineage",
        "registry",
        "spark",
    }
    assert metadata["License-Expression"] == "Apache-2.0"
    needed = [one for one in metadata.get_all("Requires-Dist") or () if "extra ==" not in one]
    assert not [
        one
        for one in needed
        if one.startswith(("dagster", "great-expectations", "confluent-kafka", "obstore", "pandas", "pyspark"))
    ]
    pinned = [one for one in needed if "==" in one and ".*" not in one]
    assert pinned == []


def test_the_command_is_installed(wheel):
    (name,) = (name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    assert "keyfold = keyfold.cli.app:app" in wheel.read(name).decode()


def test_every_public_name_and_the_command_line_do_without_the_extras():
    script = (
        f"import os, sys\nfor name in {OF_EXTRAS}: sys.modules[name] = None\n"
        "os.environ['KEYFOLD_KAFKA_BOOTSTRAP'] = '127.0.0.1:9092'\n"
        "from importlib import import_module\n"
        "import keyfold\n"
        "from keyfold.cli.app import COMMANDS\n"
        "for name in keyfold.__all__: getattr(keyfold, name)\n"
        "for command in COMMANDS.values(): import_module(command.partition(':')[0])\n"
        "from keyfold.ingestion.kafka.topic import KafkaTopic, topic_id\n"
        "for use in (lambda: topic_id(KafkaTopic('rides')), keyfold.Lakehouse('s3a://lake/home').home.exists):\n"
        "    try: use()\n"
        "    except keyfold.Misconfigured as error: print(error)\n"
    )
    done = ended_well(sys.executable, "-c", script, folder=ROOT)
    assert done.stdout.splitlines() == [
        "confluent_kafka is not installed; install keyfold[kafka]",
        "obstore is not installed; install keyfold[buckets]",
    ]


@pytest.mark.long
@pytest.mark.timeout(900)
def test_from_the_wheel_a_new_project_runs_its_demo_and_its_tests_and_takes_a_stream_and_a_job(built, tmp_path):
    python = install(built, tmp_path)
    project = tmp_path / "plant"
    keyfold = python.parent / "keyfold"
    run(tmp_path, keyfold, "new", "plant")
    sample = tmp_path / "trips.csv"
    sample.write_text(
        "trip,at,distance\n" + "".join(f"t{row % 2},2026-01-01T06:0{row}:00Z,{row}\n" for row in range(6))
    )
    run(project, keyfold, "add", "trips", "--from", sample)
    assert [one["job"] for one in json.loads(run(project, keyfold, "jobs", "--json"))["jobs"]] == [
        "hourly_plant",
        "hourly_trips",
    ]
    run(project, python, "-m", "dagster", "definitions", "validate")
    assert " passed" in run(project, python, "-m", "pytest", "-q")
    # What `make demo` runs.
    told = json.loads(run(project, keyfold, "ingest", "plant", "--from", "sample", "--settle", "0", "--json"))
    assert (told["accepted"], told["quarantined"]) == (180, 0)
    run(project, keyfold, "run", "hourly_plant")
    rows = [json.loads(line) for line in run(project, keyfold, "show", "hourly_plant", "--json").splitlines()]
    assert sorted((row["sensor_id"], row["window_start"][11:13], row["events"]) for row in rows) == [
        (f"s{sensor}", f"{hour:02}", 6) for sensor in range(1, 6) for hour in range(6, 11)
    ]


def install(wheel: Path, folder: Path) -> Path:
    """Install the wheel in an environment that has this one's libraries; returns its Python."""
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv" / "bin" / "python"
    pip(folder, "--python", python, "install", "--no-deps", "--no-index", wheel)
    place = run(folder, python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    # A folder that a .pth file names is put on the path, and the .pth files in it, so the editable install, are not read.
    Path(place, "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    path = json.loads(
        run(folder, python, "-c", "import json, keyfold, sys; print(json.dumps([keyfold.__file__, *sys.path]))")
    )
    assert path[0].startswith(place)
    assert str(ROOT) not in path
    return python


def pip(folder: Path, *arguments: object) -> None:
    run(folder, sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments)


def run(folder: Path, *command: object) -> str:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("KEYFOLD_", "DAGSTER_", "PYTHON", "PYTEST_", "VIRTUAL_ENV"))
    }
    environment = kept | {"DAGSTER_DISABLE_TELEMETRY": "yes"}
    return ended_well(*command, folder=folder, environment=environment).stdout
