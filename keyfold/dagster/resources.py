"""Build Dagster's resources, the runners and the lakehouse, from environment variables.

KEYFOLD_HOME     the lakehouse directory; default: `.keyfold` in the working directory
KEYFOLD_RUNNER   auto, local or spark; KEYFOLD_LOCAL_BELOW: planned bytes below which `auto` needs no Spark
KEYFOLD_SPARK_*  MASTER, SHIP and CONF; see `SparkSettings.from_environment`. CONF may contain
                 secrets, so Dagster gets only the variable's name and reads its value when a run begins
"""

import os
from collections.abc import Mapping
from datetime import timedelta
from threading import Thread
from typing import Any, Self

import dagster as dg
from dagster_pyspark import PySparkResource
from pydantic import ConfigDict, Field, PrivateAttr, model_validator

from keyfold.errors import KeyfoldError
from keyfold.lakehouse import Lakehouse
from keyfold.runners import Choice, Runners
from keyfold.runners.choice import LOCAL_BELOW
from keyfold.session import SparkSettings
from keyfold.session.settings import parse_conf
from keyfold.session.targets import check_target
from keyfold.storage.place import Place
from keyfold.storage.reachable import check_reachable
from keyfold.storage.remote_path import NotAnsweringError

SPARK_CONF_VARIABLE = "KEYFOLD_SPARK_CONF"


class SparkResource(PySparkResource):
    """Extends dagster-pyspark's resource by checked settings, and by a session that starts only if it is needed.

    It provides `keyfold.Runners`, whose session all steps of a run share (in-process executor); `runners.session` is a plain
    `SparkSession`. The session is stopped after the run only if the run started it. A run in a process that already has a
    session (a test, a notebook) uses that session, and fails if its settings differ.
    """

    # Pydantic's errors repeat the input, which may be a secret.
    model_config = ConfigDict(hide_input_in_errors=True)

    spark_config: dict[str, Any] = Field(
        default_factory=dict,
        description="Spark settings by name, such as spark.driver.memory: 4g. Dagster's pages show them: give no secrets",
    )
    further_config: str = Field(
        default="",
        description="Further settings, `name=value` separated by blanks, which override spark_config. Given as an environment "
        "variable, so that Dagster's pages show its name and not its value",
    )
    for_run: dict[str, str] = Field(
        default_factory=dict,
        description="Settings of this run, which override all others; see `run_config.SparkForRun`",
    )
    master: str = Field(default="local[*]", description="local[4], local[*], spark://host:7077, yarn, k8s://…")
    app_name: str = Field(default="keyfold", description="The application's name in the Spark UI")
    ship: list[str] = Field(
        default_factory=list,
        description="Import names of further Python packages to ship to a cluster's workers, besides keyfold and the project",
    )
    runner: Choice = Field(
        default="auto",
        description="Where work is done: auto (by the planned bytes), local (in the run's process) or spark",
    )
    local_below: int = Field(
        default=LOCAL_BELOW, ge=0, description="Planned bytes below which `auto` does the work in the run's process"
    )
    _made: Runners | None = PrivateAttr(default=None)

    @property
    def settings(self) -> SparkSettings:
        """The settings, checked."""
        text = self.further_config
        # Until a run begins, Dagster keeps the variable here, not its value.
        return self._settings(parse_conf(text.get_value("") or "" if isinstance(text, dg.EnvVar) else text))

    @model_validator(mode="after")
    def _settings_are_valid(self) -> Self:
        # further_config holds only the variable's name here; `resources_from` checks its value.
        self._settings({})
        return self

    def _settings(self, further: Mapping[str, str]) -> SparkSettings:
        return SparkSettings(
            master=self.master,
            app_name=self.app_name,
            ship=tuple(self.ship),
            conf={**self.spark_config, **further, **self.for_run},
        )

    @property
    def spark_session(self) -> Any:
        """The run's session; it is started if there is none."""
        return self.runners.session if self._made is None else self._made.session

    @property
    def runners(self) -> Runners:
        """The runners of a run; they start a session only where work needs one."""
        return Runners(self.runner, self.settings, self.local_below)

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        self._made = self.runners

    def create_resource(self, context: dg.InitResourceContext) -> Runners:
        assert self._made is not None  # noqa: S101 - Dagster sets a resource up first
        return self._made

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        if self._made is not None:
            self._made.__exit__(None, None, None)


class LakehouseResource(dg.ConfigurableResource[Lakehouse]):
    """The lakehouse directory, on a disk or in a bucket."""

    home: str = Field(
        default=".keyfold",
        description="Folder of tables, journals and state, or the URL of one in a bucket",
    )

    def create_resource(self, context: dg.InitResourceContext) -> Lakehouse:
        return Lakehouse(self.home)


def resources_from(environment: Mapping[str, str] = os.environ) -> dict[str, dg.ConfigurableResource[Any]]:
    """Build the resources from the environment.

    Raises:
        KeyfoldError: a variable has an invalid value.
    """
    settings = SparkSettings.from_environment(environment)
    home = lakehouse_home(environment)
    check_target(settings.master, settings.conf, home, environment)
    runners = Runners.from_environment(environment=environment)
    spark = SparkResource(
        master=settings.master,
        ship=list(settings.ship),
        further_config=dg.EnvVar(SPARK_CONF_VARIABLE) if environment.get(SPARK_CONF_VARIABLE) else "",
        runner=runners.choice,
        local_below=runners.local_below,
    )
    return {
        "spark": spark,
        "lakehouse": LakehouseResource(home=str(home)),
    }


def check_home(home: Place, *, within: timedelta = timedelta(seconds=3)) -> None:
    """Check, when definitions load, that a lakehouse in a bucket can be reached. A lakehouse on a disk is not checked.

    If the store answers that the bucket does not exist or that access is denied, a setting is wrong: every run would fail, and
    the code location shows the error. If the store does not answer, this may be an outage: the location loads with a warning,
    so that pages and sensors work again as soon as the store does.

    Raises:
        KeyfoldError: the bucket does not exist, or access is denied; the message says what to set.
    """
    refused: list[KeyfoldError] = []

    def look() -> None:
        try:
            check_reachable(home)
        except KeyfoldError as error:
            refused.append(error)

    # In a thread: some clients retry for minutes.
    looking = Thread(target=look, name="check the lakehouse directory", daemon=True)
    looking.start()
    looking.join(within.total_seconds())
    if looking.is_alive():
        refused.append(NotAnsweringError(f"{home}: no answer within {within.total_seconds():g} s"))
    for error in refused:
        if not isinstance(error, NotAnsweringError):
            raise error
        dg.get_dagster_logger().warning(f"{error}. Definitions are loaded, but runs fail until the store answers")


def lakehouse_home(environment: Mapping[str, str] = os.environ) -> Place:
    """Return the lakehouse directory as an absolute path, which a change of the working directory does not affect."""
    return Lakehouse(environment.get("KEYFOLD_HOME") or ".keyfold").home
