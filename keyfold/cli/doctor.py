"""`keyfold doctor`: check a configuration before anything runs; each line says what is well, or what to do."""

import os
import platform
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import typer

from keyfold.cli.terminal import print_rows
from keyfold.errors import KeyfoldError, Misconfigured, NotFound
from keyfold.lakehouse import Lakehouse
from keyfold.project import current_project, project_jobs, project_streams
from keyfold.runners import Runners
from keyfold.session.installed import check_spark_is_installed, missing_for_spark
from keyfold.session.settings import SparkSettings
from keyfold.storage.place import Place, local_path
from keyfold.storage.reachable import check_conditions, check_reachable

_PACKAGES = ("keyfold", "polars", "deltalake", "pyspark", "dagster")


def doctor(lakehouse: Lakehouse) -> None:
    """Check a configuration before anything runs: versions, project, storage, Java and Kafka.

    In the lakehouse directory, which is made if it is missing, a small file is written and removed. The exit code is 1 if
    anything is not well.
    """
    parts = {
        "versions": _versions,
        "project": _project,
        "home": lambda: _home(lakehouse.home),
        "runner": _runner,
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
    print_rows("findings", found, ("part", "state", "detail"), is_well=is_well)
    if not is_well:
        raise typer.Exit(1)


def _versions() -> str:
    """Tell what is installed; `pip check` compares it with what each package needs."""
    python = f"Python {platform.python_version()}"
    return ", ".join([python, *(f"{one} {metadata.version(one)}" for one in _PACKAGES if find_spec(one))])


def _project() -> str:
    try:
        current_project()
    except NotFound as error:
        # Somebody who adds Keyfold to definitions of their own has none.
        return f"{error}. Python, Dagster and commands that read tables, state and journals need none; all others do"
    return f"{len(project_streams())} streams and {len(project_jobs())} jobs are declared without a fault"


def _home(place: Place) -> str:
    if (folder := local_path(place)) is None:
        check_reachable(place)
        check_conditions(place)
        return f"{place} can be listed, written and deleted, and its store honours conditional writes"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".doctor-", dir=folder) as made:
            probe = Path(made, "probe")
            probe.touch()
            # A commit is a link: it fails where a file has that name already.
            os.link(probe, Path(made, "linked"))
    except OSError as error:
        raise Misconfigured(
            f"{folder} cannot be written ({error.strerror}): give this user the right to write there, or set KEYFOLD_HOME to "
            "a folder on a disk with hard links"
        ) from None
    return f"{folder} can be written, on a disk with hard links"


def _runner() -> str:
    runners, settings = Runners.from_environment(), SparkSettings.from_environment()
    if runners.choice == "local":
        return "local: all work is done in one process, without Java"
    where = f"Spark at {settings.master}"
    if runners.choice == "auto" and (missing := missing_for_spark(needs_java=False)):
        return f"all work is done in one process: {missing}"
    check_spark_is_installed()
    if not settings.is_connect:
        from keyfold.session.java import check_installed_java  # noqa: PLC0415 - imports pyspark

        try:
            check_installed_java()
        except Misconfigured as error:
            raise Misconfigured(f"{error}; or work in one process: KEYFOLD_RUNNER=local") from None
    below = f"below {runners.local_below / 2**20:g} MiB a run this process, else " if runners.choice == "auto" else ""
    return f"{below}{where}, which is not started here"


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
