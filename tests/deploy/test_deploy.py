"""What `deploy/` names is there: commands, variables, metrics, files. What runs without Docker is run: the settings of Dagster."""

import json
import re
import shlex
import subprocess
import tomllib
from configparser import RawConfigParser
from pathlib import Path
from shutil import which

import pytest
import yaml
from packaging.requirements import Requirement

from keyfold.cli.app import COMMANDS
from keyfold.runs.metrics import MEANING

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
FILES = sorted(path for path in DEPLOY.rglob("*") if path.is_file())


def text(path):
    return path.read_text(encoding="utf-8")


def unit(path):
    parsed = RawConfigParser(strict=False)
    parsed.read_string(text(path))
    return parsed["Service"]


@pytest.fixture(scope="module")
def compose():
    return yaml.safe_load(text(DEPLOY / "compose.yaml"))


def test_all_of_it_is_short():
    assert sum(len(text(path).splitlines()) for path in FILES if path.suffix != ".lock") <= 420


def test_every_metric_of_the_dashboard_is_exported_and_none_is_left_out():
    panels = json.loads(text(DEPLOY / "grafana.json"))["panels"]
    shown = {name for one in panels for target in one["targets"] for name in re.findall(r"keyfold_\w+", target["expr"])}
    assert shown | {"keyfold_batches_total"} == set(MEANING)
    assert len({one["id"] for one in panels}) == len(panels)


def test_every_variable_is_documented():
    pages = "".join(text(path) for path in (ROOT / "docs").rglob("*.md"))
    named = {name for path in FILES for name in re.findall(r"\b(?:KEYFOLD|AWS|DAGSTER)_[A-Z_]+\b", text(path))}
    assert len(named) > 8
    assert sorted(name for name in named if name not in pages) == []


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_runs_a_command_that_there_is_as_a_user_without_rights(path):
    service = unit(path)
    assert service["User"] != "root"
    assert (service["UMask"], service["NoNewPrivileges"]) == ("0077", "yes")
    # What does not answer, such as Kafka, must not keep a service from its start: the pages show what is wrong.
    assert "ExecStartPre" not in service
    program, *arguments = shlex.split(service["ExecStart"])
    assert program.startswith("/opt/keyfold/.venv/bin/")
    if program.endswith("/keyfold"):
        assert arguments[0] in COMMANDS
        options = text(ROOT / "docs" / "reference" / "commands.md")
        assert [one for one in arguments if one.startswith("--") and one not in options] == []


@pytest.mark.skipif(which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_takes_the_units(tmp_path):
    # The programs of a machine that has Keyfold in /opt are not here; everything else is checked.
    for path in UNITS:
        (tmp_path / path.name).write_text(text(path).replace("/opt/keyfold/.venv/bin/", "/bin/"))
    names = [str(tmp_path / path.name.replace("@.", "@rides.")) for path in UNITS]
    for path in UNITS:
        (tmp_path / path.name.replace("@.", "@rides.")).write_text(text(tmp_path / path.name))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *names], capture_output=True, text=True, timeout=60, check=False
    )
    faults = [line for line in done.stderr.splitlines() if str(tmp_path) in line and "is not executable" not in line]
    assert faults == []


def test_the_image_ends_without_root_and_copies_what_there_is():
    lines = re.sub(r"\\\n", " ", text(DEPLOY / "Dockerfile")).splitlines()
    assert [line for line in lines if line.startswith("USER")] == ["USER 10001"]
    assert lines.index("USER 10001") > max(n for n, line in enumerate(lines) if line.startswith(("RUN", "COPY")))
    copied = [shlex.split(line)[1:-1] for line in lines if line.startswith("COPY") and "--from" not in line]
    sources = [source for one in copied for source in one]
    assert [source for source in sources if not (ROOT / source).exists()] == []
    admitted = [line[1:] for line in text(DEPLOY / "Dockerfile.dockerignore").splitlines() if line.startswith("!")]
    assert [source for source in sources if not any(source.startswith(one) for one in admitted)] == []


def test_the_services_name_volumes_files_and_services_that_there_are(compose):
    services = compose["services"]
    for service in services.values():
        assert set(service.get("depends_on", ())) <= set(services)
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            if source.startswith(".") and not source.startswith("./proxy/"):  # what an operator makes
                assert (DEPLOY / source).resolve().is_file()
            elif not source.startswith("."):
                assert source in compose["volumes"]
    # No password in the file, and nothing but the proxy is reached from outside.
    assert {name: one["ports"] for name, one in services.items() if "ports" in one} == {"keyfold": ["443:443"]}
    assert services["proxy"]["network_mode"] == "service:keyfold"
    secrets = re.findall(r"(?:PASSWORD|SECRET_ACCESS_KEY): (\S+)", text(DEPLOY / "compose.yaml"))
    assert secrets
    assert all(re.fullmatch(r"\$\{\w+:\?\}", secret) for secret in secrets)


def test_the_settings_of_dagster_in_the_image_are_one_document_that_adds_the_database(compose):
    both = text(ROOT / "keyfold" / "dagster" / "dagster.yaml") + text(DEPLOY / "postgres.yaml")
    settings = yaml.safe_load(both)
    assert settings["run_coordinator"]["class"] == "QueuedRunCoordinator"
    database = settings["storage"]["postgres"]["postgres_db"]
    variables = {one["env"] for one in database.values() if isinstance(one, dict)}
    assert variables <= set(compose["services"]["keyfold"]["environment"])


def test_the_chart_loads_the_definitions_of_this_project():
    values = yaml.safe_load(text(DEPLOY / "helm-values.yaml"))
    (deployment,) = values["dagster-user-deployments"]["deployments"]
    assert deployment["dagsterApiGrpcArgs"] == ["--module-name", "dagster_project.definitions"]
    assert deployment["podSecurityContext"]["runAsNonRoot"]
    assert values["dagsterWebserver"]["service"]["type"] == "ClusterIP"


def test_a_tag_of_a_run_chooses_its_memory_and_cores_and_nothing_else():
    values = yaml.safe_load(text(DEPLOY / "helm-values.yaml"))
    launcher = values["runLauncher"]["config"]["customRunLauncher"]
    assert (launcher["module"], launcher["class"]) == ("dagster_k8s", "K8sRunLauncher")
    # No image, command, account, volume, variable or secret. Without the two lists, dagster-k8s allows all.
    assert launcher["config"]["only_allow_user_defined_k8s_config_fields"] == {"container_config": {"resources": True}}
    assert launcher["config"]["only_allow_user_defined_env_vars"] == []
    # What a code location passes on is held to the same list, and a run would be refused for it.
    (deployment,) = values["dagster-user-deployments"]["deployments"]
    assert deployment["includeConfigInLaunchedRuns"] == {"enabled": False}
    given = dict(variable.split("=", 1) for variable in launcher["config"]["env_vars"])
    assert given == {variable["name"]: variable["value"] for variable in deployment["env"]}
    assert launcher["config"]["env_secrets"] == [secret["name"] for secret in deployment["envSecrets"]]
    assert (
        launcher["config"]["run_k8s_config"]["pod_spec_config"]["securityContext"] == deployment["podSecurityContext"]
    )


def test_the_image_installs_what_the_lock_names_with_its_hash_and_nothing_else():
    lines = re.sub(r"\\\n", " ", text(DEPLOY / "Dockerfile")).splitlines()
    installs = [line for line in lines if "pip install" in line]
    assert len(installs) == 2
    assert all(word in installs[0] for word in ("--require-hashes -r /locks/requirements.lock", "-r /locks/spark.lock"))
    assert "--no-deps --no-build-isolation /source" in installs[1]
    shared = locked(ROOT / "requirements.lock")
    for name in ("requirements.lock", "spark.lock"):
        there = locked(DEPLOY / name)
        assert all(digests for _, digests in there.values())
        others = {
            package: (version, shared[package][0]) for package, (version, _) in there.items() if package in shared
        }
        assert [package for package, versions in others.items() if versions[0] != versions[1]] == []
    image = locked(DEPLOY / "requirements.lock")
    declared = tomllib.loads(text(ROOT / "pyproject.toml"))
    extras = ("buckets", "dagster", "kafka", "lineage", "registry")
    needed = declared["project"]["dependencies"] + [
        one for extra in extras for one in declared["project"]["optional-dependencies"][extra]
    ]
    needed += [line for line in text(DEPLOY / "requirements.in").splitlines() if not line.startswith("#")]
    for requirement in map(Requirement, needed + declared["build-system"]["requires"]):
        assert requirement.specifier.contains(image[requirement.name][0]), f"{requirement}: run scripts/lock"
    assert "pyspark" not in image
    assert "pyspark" in locked(DEPLOY / "spark.lock")


def locked(path):
    """The packages of a lock, each with its version and hashes."""
    entries = re.findall(r"^([\w.-]+)==(\S+) \\\n((?: {4}--hash=.*\n)*)", text(path), re.MULTILINE)
    assert entries
    return {name: (version, re.findall(r"sha256:\w{64}", hashes)) for name, version, hashes in entries}
