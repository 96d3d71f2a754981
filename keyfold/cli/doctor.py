"""`keyfold doctor`: check a configuration before anything runs; each line says what is well, or what to do."""

import os
import uuid
from importlib import import_module, metadata
from pathlib import Path

import typer
from packaging.requirements import Requirement

from keyfold.cli.health import LEAST_FREE, free_bytes
from keyfold.cli.options import DEFAULT_HOME, AsJson, Home
from keyfold.cli.terminal import print_rows
from keyfold.errors import KeyfoldError, Misconfigured, NotFound
from keyfold.lakehouse import Lakehouse
from keyfold.project import current_project, project_jobs, project_streams
from keyfold.runners import Runners
from keyfold.session.settings import SparkSettings
from keyfold.storage.place import local_path
from keyfold.storage.reachable import check_conditions, check_reachable


def doctor(home: Home = DEFAULT_HOME, as_json: AsJson = False) -> None:
    """Check a configuration before anything runs: versions, project, storage, Java, Dagster and Kafka.

    In the lakehouse directory, which is made if it is missing, a small file is written and removed. The exit code is 1 if
    anything is not well.
    """
    parts = {
        "versions": _versions,
        "project": _project,
        "home": lambda: _home(home),
        "runner": _runner,
        "dagster": _dagster,
        "kafka": _kafka,
    }
    found = list[dict[str, str]]()
    for part, check in parts.items():
        try:
            state, detail = "ok", check()
        except (KeyfoldError, OSError) as error:
            state, detail = "FAULT", str(error)
        # A part that is not configured has none.
        if detail:
            found.append({"part": part, "state": state, "detail": detail})
    is_well = all(one["state"] == "ok" for one in found)
    print_rows("findings", found, ("part", "state", "detail"), as_json=as_json, is_well=is_well)
    if not is_well:
        raise typer.Exit(1)


def _versions() -> str:
    """Compare what is installed with the ranges that Keyfold's own metadata declares, also those of extras that are in use."""
    shown, wrong = [f"keyfold {metadata.version('keyfold')}"], list[str]()
    for requirement in map(Requirement, metadata.requires("keyfold") or ()):
        name, of_extra = requirement.name, str(requirement.marker or "")
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            wrong += [] if of_extra else [f"{name} is missing"]
            continue
        if not requirement.specifier.contains(version, prereleases=True):
            # What is for this repository's own development does not matter to others.
            wrong += [] if '"dev"' in of_extra else [f"{name} is {version}, not {requirement.specifier}"]
        elif name in ("polars", "deltalake", "pyspark", "dagster"):
            shown.append(f"{name} {version}")
    if wrong:
        raise Misconfigured(f"{'; '.join(wrong)}: install Keyfold anew, in an environment of its own")
    # Some are named by several extras.
    return ", ".join(dict.fromkeys(shown))


def _project() -> str:
    try:
        current_project()
    except NotFound as error:
        # Somebody who adds Keyfold to definitions of their own has none.
        return f"{error}. Python, Dagster and commands that read tables, state and journals need none; all others do"
    return f"{len(project_streams())} streams and {len(project_jobs())} jobs are declared without a fault"


def _home(home: str) -> str:
    place = Lakehouse(home).home
    if (folder := local_path(place)) is None:
        check_reachable(place)
        check_conditions(place)
        return f"{place} can be listed, written and deleted, and its store honours conditional writes"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".doctor-{uuid.uuid4().hex}"
        try:
            probe.write_bytes(b"")
            # A commit is a link: it fails where a file has that name already.
            os.link(probe, probe.with_suffix(".linked"))
        finally:
            probe.unlink(missing_ok=True)
            probe.with_suffix(".linked").unlink(missing_ok=True)
    except OSError as error:
        raise Misconfigured(
            f"{folder} cannot be written ({error.strerror}): give this user the right to write there, or set KEYFOLD_HOME to "
            "a folder on a disk with hard links"
        ) from None
    free = free_bytes(place) or 0
    if free < LEAST_FREE:
        raise Misconfigured(f"{folder} has {free / 2**30:.1f} GiB free, less than {LEAST_FREE / 2**30:g}: make room")
    return f"{folder} can be written, and has {free / 2**30:,.1f} GiB free"


def _runner() -> str:
    runners, settings = Runners.from_environment(), SparkSettings.from_environment()
    if runners.choice == "local":
        return "local: all work is done in one process, without Java"
    where = f"Spark at {settings.master}"
    if not settings.is_connect:
        from keyfold.session.gateway import check_installed_java  # noqa: PLC0415 - imports pyspark

        try:
            check_installed_java()
        except Misconfigured as error:
            raise Misconfigured(f"{error}; or work in one process: KEYFOLD_RUNNER=local") from None
    if runners.choice == "spark":
        return f"{where}, which is not started here"
    return f"below {runners.local_below / 2**20:g} MiB a run this process, else {where}, which is not started here"


def _dagster() -> str:
    """Open DAGSTER_HOME, as `make ui`, runs and the reports of continuous runs do, and the database that it names."""
    if not (home := os.environ.get("DAGSTER_HOME")):
        return ""
    if not Path(home, "dagster.yaml").is_file():
        return f"DAGSTER_HOME {home} has no dagster.yaml: `python -m keyfold.dagster.serving` puts Keyfold's there"
    # By their names: Keyfold needs no Dagster.
    try:
        reporting, serving = (import_module(f"keyfold.dagster.{name}") for name in ("reporting", "serving"))
    except ModuleNotFoundError as error:
        raise Misconfigured(
            f"DAGSTER_HOME is set, and {error.name} is missing: install keyfold[dagster], or unset it"
        ) from None
    reporting.translator_of_project()
    with serving.open_dagster_home(Path(home)) as instance:
        runs = instance.get_runs_count()
    return f"{home} and its storage can be used; it has {runs:,} runs"


def _kafka() -> str:
    if not any(name.startswith("KEYFOLD_KAFKA_") and value for name, value in os.environ.items()):
        return ""
    from keyfold.ingestion.kafka.settings import KafkaSettings, kafka_topics  # noqa: PLC0415 - of an extra
    from keyfold.ingestion.kafka.topic import KafkaTopic, topic_id  # noqa: PLC0415

    settings, topics = KafkaSettings.from_environment(), kafka_topics()
    # A broker answers for any name, and says by an empty id that there is no such topic.
    missing = [topic for topic in topics.values() or ("keyfold-doctor",) if not topic_id(KafkaTopic(topic))]
    if topics and missing:
        raise Misconfigured(
            f"Kafka at {settings.bootstrap} has no topic {', '.join(missing)}: create it, or correct KEYFOLD_KAFKA_TOPICS"
        )
    return f"{settings.bootstrap} answers, and has the topics of {len(topics)} streams"
