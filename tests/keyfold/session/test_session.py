"""Sessions run in processes of their own here: one process holds one, and most tests share another."""

import json
import os
import stat
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
from pydantic import ValidationError

from keyfold.errors import KeyfoldError
from keyfold.session import SparkSettings
from keyfold.session.spark_settings import spark_conf
from keyfold.session.start import check_installed_java
from tests.commands import ended_well
from tests.java_for_tests import fast_starts


@pytest.mark.parametrize(
    "master",
    ["local", "local[3]", "local[*]", "local[2, 3]", "spark://one:7077,two:7077", "yarn", "k8s://https://api:6443"],
)
def test_every_form_of_master_is_accepted(master):
    assert SparkSettings(master=master).master == master


@pytest.mark.parametrize("master", ["", "locl[2]", "local[0]", "local[", "spark://one", "http://one"])
def test_a_misspelt_master_is_refused_with_the_forms_there_are(master):
    with pytest.raises(ValidationError, match=r"is not a Spark master: give local, local\[4\]"):
        SparkSettings(master=master)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"conf": {"driver.memory": "1g"}}, "begin with 'spark.'"),
        ({"conf": {"spark.master": "yarn"}}, "is set by its own field: master"),
        ({"conf": {"spark.sql.session.timeZone": "Asia/Tokyo"}}, "must stay 'UTC'"),
        ({"memory": "1g"}, "Extra inputs are not permitted"),
        ({"app_name": ""}, "at least 1 character"),
    ],
)
def test_a_wrong_setting_is_refused_at_load(given, message):
    with pytest.raises(ValidationError, match=message):
        SparkSettings.model_validate(given)


def test_settings_come_from_the_environment():
    environment = {
        "KEYFOLD_SPARK_MASTER": "spark://one:7077",
        "KEYFOLD_SPARK_SHIP": "fleet_models, own_rules",
        "KEYFOLD_SPARK_CONF": "spark.driver.memory=3g 'spark.app.note=two words=fine'",
    }
    settings = SparkSettings.from_environment(environment)
    assert settings.master == "spark://one:7077"
    assert settings.ship == ("fleet_models", "own_rules")
    assert settings.conf == {"spark.driver.memory": "3g", "spark.app.note": "two words=fine"}
    assert SparkSettings.from_environment({}) == SparkSettings()


def test_a_wrong_value_in_the_environment_names_its_variable():
    with pytest.raises(KeyfoldError, match="KEYFOLD_SPARK_MASTER: 'mesos' is not a Spark master"):
        SparkSettings.from_environment({"KEYFOLD_SPARK_MASTER": "mesos"})


def test_spark_needs_no_package_and_no_jar_of_ours():
    conf = spark_conf(SparkSettings())
    assert not [name for name in conf if "jars" in name or "extensions" in name or "catalog" in name]


@pytest.mark.parametrize(
    ("home", "told"),
    [
        ({"says": 'version "17.0.1"'}, None),
        ({"says": 'java version "1.8.0_392"'}, r"JAVA_HOME=.*home, is Java 8, too old"),
        ({"says": "No runtime", "code": 1}, r"does not run \(No runtime\)"),
        (None, "from PATH, is Java 8"),
        ("nowhere", "JAVA_HOME=nowhere has none"),
    ],
)
def test_a_right_an_old_a_broken_and_a_missing_java_are_told_apart_that_of_java_home_first(
    monkeypatch, tmp_path, home, told
):
    monkeypatch.setenv("PATH", str(a_java(tmp_path / "path", 'java version "1.8.0_392"').parent))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    if home:
        there = home if isinstance(home, str) else str(a_java(tmp_path / "home" / "bin", **home).parent.parent)
        monkeypatch.setenv("JAVA_HOME", there)
    with pytest.raises(KeyfoldError, match=told) if told else nullcontext():
        check_installed_java()


REFUSED = [
    ({"conf": {"spark.driver.memory": "banana"}}, "Java gateway process exited"),
    ({"conf": {"spark.serializer": "no.such.Class"}}, "ClassNotFoundException: no.such.Class"),
    (
        {"conf": {"spark.sql.shuffle.partitions": "many"}},
        "value 'many' in the config \"spark.sql.shuffle.partitions\"",
    ),
]
"""Settings, and why they are refused; those first with which Java does not start."""


@pytest.fixture(scope="module")
def refused_and_right(tmp_path_factory):
    """What came of a process with refused settings, then right ones, whose module prints when it is imported."""
    folder = tmp_path_factory.mktemp("chatty")
    (folder / "chatty.py").write_text(
        """print('chatty is here' * 1000)
import os, pyarrow as pa
def threads(batches):
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"threads": [os.environ["POLARS_MAX_THREADS"]] * len(batch)})
"""
    )
    return run_python(
        folder,
        f"""
        import signal
        # As a script's background job inherits it; Spark would set a handler of its own in its place.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        wrong = {[settings for settings, _ in REFUSED]}
        tell["why"] = [refused(SparkSettings(master="local[1]", **settings)) for settings in wrong]
        import chatty  # pickled by name: the worker imports it anew
        settings = SparkSettings(master="local[1]", conf={{"spark.driver.memory": "600m"}})
        session = build_session(settings)
        tell["handler kept"] = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        tell["megabytes"] = session._jvm.Runtime.getRuntime().maxMemory() / 1e6
        tell["threads"] = [row[0] for row in session.range(1000).mapInArrow(chatty.threads, "threads string").collect()]
        session._jvm.org.slf4j.LoggerFactory.getLogger("keyfold.test").error("this must be seen")
        session._jvm.org.slf4j.LoggerFactory.getLogger("keyfold.test").warn("this must not")
        tell["same"] = build_session(settings) is session
        tell["other"] = refused(SparkSettings(master="local[2]", conf=settings.conf))
        session.stop()
        again = build_session(SparkSettings(master="local[1]", conf={{"spark.driver.memory": "700m"}}))
        tell["after stop"] = again._jvm.Runtime.getRuntime().maxMemory() / 1e6
        tell["again"] = again.range(3).count()
        """,
        PYTHONPATH=str(folder),
    )


def test_refused_settings_are_plain_errors_and_leave_the_process_able_to_start_with_right_ones(refused_and_right):
    told, errors = refused_and_right
    for why, (_, reason) in zip(told["why"], REFUSED, strict=True):
        assert reason in why
        assert "\tat " not in why
    assert "\tat " not in errors


def test_a_session_has_its_memory_keeps_handlers_and_refuses_other_settings(refused_and_right):
    told = refused_and_right[0]
    assert told["handler kept"]
    assert told["megabytes"] == pytest.approx(600 * 1.048576, rel=0.2)
    assert (told["same"], told["again"]) == (True, 3)
    assert "with other settings (spark.master) runs already" in told["other"]
    assert told["after stop"] == pytest.approx(700 * 1.048576, rel=0.2), "Java reads it at its start"


def test_workers_have_one_thread_and_a_module_that_prints_when_it_is_imported_does_them_no_harm(refused_and_right):
    assert refused_and_right[0]["threads"] == ["1"] * 1000


def test_errors_of_spark_stay_visible_and_nothing_else_does(refused_and_right):
    # What the module prints comes here too, and not to Java.
    errors = refused_and_right[1]
    assert "Invalid maximum heap size: -Xmxbanana" in errors, "what Java says of a start that failed"
    assert "ERROR test: this must be seen" in errors
    assert "this must not" not in errors
    # Java's own of its modules, before it reads how to log.
    others = [line for line in errors.splitlines() if not line.startswith(("WARNING: ", "Error: ", "Invalid maximum"))]
    assert len([line for line in others if "chatty is here" not in line]) == 1, others


def a_java(folder: Path, says: str, code: int = 0) -> Path:
    """A script that answers `-version` as a Java would."""
    folder.mkdir(parents=True)
    java = folder / "java"
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit {code}\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    return java


def run_python(folder: Path, body: str, **more: str) -> tuple[dict, str]:
    """Run lines in a process of its own, outside the repository; returns what they put in `tell`, and stderr."""
    lines = body.strip("\n").splitlines()
    indent = len(lines[0]) - len(lines[0].lstrip())
    program = "\n".join(
        [
            "import json",
            "from keyfold.errors import KeyfoldError",
            "from keyfold.session import SparkSettings, build_session",
            "tell = {}",
            "def refused(settings):",
            "    try:",
            "        build_session(settings)",
            "    except KeyfoldError as error:",
            "        return str(error)",
            *(line[indent:] for line in lines),
            "print(json.dumps(tell))",
        ]
    )
    environment = {name: value for name, value in os.environ.items() if "SPARK" not in name}
    environment |= fast_starts() | more
    run = ended_well(sys.executable, "-c", program, folder=folder, environment=environment)
    return json.loads(run.stdout.splitlines()[-1]), run.stderr
