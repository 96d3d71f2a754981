"""`keyfold doctor` finds what would stop a run: each fault is made for real, and named with what to do."""

import json
import os
import re
import sys
from pathlib import Path

import pytest

from keyfold.storage import reachable
from keyfold.storage.object_path import ObjectPath
from tests.commands import ended_well
from tests.ports import free_port

ROOT = Path(__file__).parents[3]

WELL = {"versions", "project", "home", "runner"}


@pytest.fixture
def found(keyfold, monkeypatch):
    """Gives the findings of a configuration by part, after checking that the exit code says whether all are well."""
    monkeypatch.setenv("KEYFOLD_RUNNER", "local")

    def ask(*arguments):
        answer = keyfold("doctor", *arguments, "--json")
        whole = json.loads(answer.stdout)
        assert answer.exit_code == (0 if whole["is_well"] else 1)
        assert whole["is_well"] == all(one["state"] == "ok" for one in whole["findings"])
        return {one["part"]: one for one in whole["findings"]}

    return ask


def fault(findings, part):
    assert [one["part"] for one in findings.values() if one["state"] == "FAULT"] == [part]
    return findings[part]["detail"]


def test_a_fresh_folder_is_well_and_stays_empty(found, keyfold, tmp_path):
    home = tmp_path / "new" / "home"
    findings = found("--home", home)
    assert set(findings) == WELL
    assert {one["state"] for one in findings.values()} == {"ok"}
    assert list(home.iterdir()) == []
    assert "FAULT" not in keyfold("doctor", "--home", home).stdout


def test_a_home_that_cannot_be_written_is_a_fault(found, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    detail = fault(found("--home", tmp_path / "file" / "home"), "home")
    assert "cannot be written (Not a directory)" in detail
    assert "KEYFOLD_HOME" in detail


@pytest.mark.parametrize(("runner", "is_fault"), [("spark", True), ("auto", True), ("local", False)])
def test_java_is_needed_where_spark_may_work(found, monkeypatch, tmp_path, runner, is_fault):
    monkeypatch.setenv("KEYFOLD_RUNNER", runner)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    if is_fault:
        detail = fault(found(), "runner")
        assert f"JAVA_HOME={tmp_path} has none" in detail
        assert "KEYFOLD_RUNNER=local" in detail
    else:
        assert found()["runner"]["state"] == "ok"


def test_a_java_that_is_too_old_is_a_fault(found, monkeypatch, tmp_path):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("KEYFOLD_RUNNER", "spark")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert "is Java 11, too old" in fault(found(), "runner")


def test_an_unknown_runner_and_a_broken_project_are_faults(found, monkeypatch):
    monkeypatch.setenv("KEYFOLD_RUNNER", "flink")
    assert "choose one of: auto, local, spark" in fault(found(), "runner")


def test_without_a_project_of_its_own_an_environment_is_well(tmp_path):
    """In a process of its own, in whose folder no project is found; a command's module must not need one."""
    script = "from keyfold import project; project.sys.prefix = '/'; from keyfold.cli.app import app; app()"
    environment = {"PYTHONPATH": str(ROOT), "KEYFOLD_RUNNER": "local", "PATH": os.environ["PATH"]}
    done = ended_well(sys.executable, "-c", script, "doctor", "--json", folder=tmp_path, environment=environment)
    (project,) = [one for one in json.loads(done.stdout)["findings"] if one["part"] == "project"]
    assert project["state"] == "ok"
    assert "no project in" in project["detail"]


def test_versions_are_told(found):
    assert re.match(r"Python 3\.\d+\.\d+, keyfold \d", found()["versions"]["detail"])


def test_a_kafka_that_does_not_answer_is_a_fault_without_its_secrets(found, monkeypatch):
    monkeypatch.setattr("keyfold.ingestion.kafka.topic.TIMEOUT", 1.0)
    monkeypatch.setenv("KEYFOLD_KAFKA_BOOTSTRAP", f"127.0.0.1:{free_port()}")
    monkeypatch.setenv("KEYFOLD_KAFKA_CONF", "sasl.mechanism=PLAIN sasl.username=a sasl.password=hunter22")
    detail = fault(found(), "kafka")
    assert "does not answer" in detail
    assert "hunter22" not in detail


def test_topics_without_an_address_of_kafka_are_a_fault(found, monkeypatch):
    monkeypatch.setenv("KEYFOLD_KAFKA_TOPICS", "ride_points=rides")
    assert "KEYFOLD_KAFKA_BOOTSTRAP is not set" in fault(found(), "kafka")


def test_a_bucket_is_well_and_a_missing_one_is_a_fault(found, bucket):
    assert "honours conditional writes" in found("--home", f"s3a://{bucket}/home")["home"]["detail"]
    assert "has no bucket no-such-bucket; create it" in fault(found("--home", "s3a://no-such-bucket/home"), "home")


def test_a_store_that_ignores_conditions_is_a_fault(found, bucket, monkeypatch):
    monkeypatch.setattr(reachable, "_CHECKED", set())
    monkeypatch.setattr(ObjectPath, "create", lambda self, content: self.write_bytes(content) and '"tag"')
    assert "takes writes whose condition does not hold" in fault(found("--home", f"s3a://{bucket}/home"), "home")
