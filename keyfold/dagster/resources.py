"""The resources: a Spark session and the lakehouse, chosen by environment variables from one table.

KEYFOLD_HOME     the lakehouse's folder; `.keyfold` in the working directory where it is not set
KEYFOLD_ENV      a row of `ENVIRONMENTS`; `local` where it is not set
KEYFOLD_SPARK_*  MASTER, PACKAGES, SHIP and CONF, over what that row says; see `SparkSettings.from_environment`. What CONF holds
                 may be secret: Dagster is given the variable's name, and reads it when a run begins
KEYFOLD_WARM_SPARK  address file of a warm Spark, to attach to where it serves; `make ui` keeps one
"""

import os
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from threading import Thread
from typing import Any, Self

import dagster as dg
from dagster_pyspark import PySparkResource
from pydantic import ConfigDict, Field, PrivateAttr, model_validator
from pyspark import SparkContext
from pyspark.sql import SparkSession

from keyfold.errors import KeyfoldError, Misconfigured
from keyfold.lakehouse import Lakehouse
from keyfold.session import SparkSettings, build_session
from keyfold.session.interrupts import work_ends_on_interrupt
from keyfold.session.settings import parse_conf
from keyfold.session.targets import check_target
from keyfold.session.warm.client import Attached, attach
from keyfold.storage.place import Place
from keyfold.storage.reachable import check_reachable
from keyfold.storage.remote_path import NotAnsweringError

ENVIRONMENTS: dict[str, SparkSettings] = {
    "local": SparkSettings(),
    "ci": SparkSettings(master="local[2]", conf={"spark.driver.memory": "1g"}),
    # Its master comes from KEYFOLD_SPARK_MASTER: no cluster has a name that could stand here.
    "cluster": SparkSettings(conf={"spark.sql.shuffle.partitions": "32"}),
}


SPARK_CONF_VARIABLE = "KEYFOLD_SPARK_CONF"


class SparkResource(PySparkResource):
    """dagster-pyspark's resource with what it lacks: checked settings, Keyfold's own, packages, an end.

    It produces a plain `SparkSession`, so that what uses it need not know this class. All steps of a run share the
    session (in-process executor). It is stopped after the run only where the run started it: a test, or a notebook,
    that has one of the same settings keeps it, and with other settings the run fails and says which differ.
    """

    # Pydantic's errors repeat what was given, and that may be a secret.
    model_config = ConfigDict(hide_input_in_errors=True)

    spark_config: dict[str, Any] = Field(
        default_factory=dict,
        description="Spark settings by their own names, such as spark.driver.memory: 4g. Dagster's pages show them: no secrets",
    )
    further_config: str = Field(
        default="",
        description="Further settings, `name=value` separated by blanks, over those of spark_config. Given as a variable, so "
        "that Dagster's pages show its name and not what it holds",
    )
    for_run: dict[str, str] = Field(
        default_factory=dict, description="Settings of this run alone, over all others; see `run_config.SparkForRun`"
    )
    master: str = Field(default="local[*]", description="local[4], local[*], spark://host:7077, yarn, k8s://…")
    app_name: str = Field(default="keyfold", description="The application's name in Spark's own pages")
    packages: list[str] = Field(
        default_factory=list, description="Maven coordinates, group:artifact:version, besides Delta's"
    )
    ship: list[str] = Field(
        default_factory=list,
        description="Python packages that go to a cluster's workers besides keyfold and the project's own, by their import names",
    )
    warm: str = Field(
        default="",
        description="Address file of a warm Spark (`keyfold warm-spark`): runs attach to it, and start Spark of their "
        "own where none serves there or its settings are others",
    )
    _started: bool = PrivateAttr(default=False)
    _attached: Attached | None = PrivateAttr(default=None)
    _watched: ExitStack = PrivateAttr(default_factory=ExitStack)

    @classmethod
    def of(cls, settings: SparkSettings, warm: str = "", further_config: str = "") -> Self:
        """The resource of checked settings, with the address file of a warm Spark, and the variable of further settings."""
        return cls(
            spark_config=settings.conf,
            further_config=further_config,
            master=settings.master,
            app_name=settings.app_name,
            packages=list(settings.packages),
            ship=list(settings.ship),
            warm=warm,
        )

    @property
    def settings(self) -> SparkSettings:
        """The settings, checked."""
        text = self.further_config
        # In the definitions it is a variable still, which Dagster reads when a run begins.
        return self._settings(parse_conf(text.get_value("") or "" if isinstance(text, dg.EnvVar) else text))

    @model_validator(mode="after")
    def _settings_are_valid(self) -> Self:
        # Without further_config: at this point Dagster has put the variable's name there. `resources_from` checks it.
        self._settings({})
        return self

    def _settings(self, further: Mapping[str, str]) -> SparkSettings:
        return SparkSettings(
            master=self.master,
            app_name=self.app_name,
            packages=tuple(self.packages),
            ship=tuple(self.ship),
            conf={**self.spark_config, **further, **self.for_run},
        )

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        self._attached = self._attach(context)
        if self._attached is not None:
            self._spark_session = self._attached.session
        else:
            self._started = SparkContext._active_spark_context is None
            self._spark_session = build_session(self.settings)
        self._watched.enter_context(work_ends_on_interrupt(self._spark_session))

    def create_resource(self, context: dg.InitResourceContext) -> SparkSession:
        return self.spark_session

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        self._watched.close()
        if self._attached is not None:
            self._attached.detach()
            self._attached = None
        elif self._started:
            # An interrupt may have cut a call to Java in two, and this thread's connection then answers one call late.
            # Another thread has a connection of its own.
            stopper = Thread(target=self.spark_session.stop, name="stop-spark")
            stopper.start()
            stopper.join()

    def _attach(self, context: dg.InitResourceContext) -> Attached | None:
        if not self.warm or SparkContext._active_spark_context is not None:
            return None
        try:
            return attach(Path(self.warm), self.settings)
        except KeyfoldError as error:
            if context.log is not None:
                context.log.warning(f"starting Spark anew: {error}")
            return None


class LakehouseResource(dg.ConfigurableResource[Lakehouse]):
    """The lakehouse below one folder, of a disk or of a bucket."""

    home: str = Field(
        default=".keyfold",
        description="Folder of tables, checkpoints and state, or s3a://BUCKET/FOLDER",
    )

    def create_resource(self, context: dg.InitResourceContext) -> Lakehouse:
        return Lakehouse(self.home)


def resources_from(environment: Mapping[str, str] = os.environ) -> dict[str, dg.ConfigurableResource[Any]]:
    """The resources that the environment asks for.

    Raises:
        KeyfoldError: a variable has a value that it cannot have.
    """
    name = environment.get("KEYFOLD_ENV") or "local"
    if name not in ENVIRONMENTS:
        raise Misconfigured(f"KEYFOLD_ENV is {name!r}; environments there: {', '.join(ENVIRONMENTS)}")
    if name == "cluster" and not environment.get("KEYFOLD_SPARK_MASTER"):
        raise Misconfigured(
            "KEYFOLD_ENV is cluster: set KEYFOLD_SPARK_MASTER, as in spark://host:7077, yarn or k8s://…"
        )
    base, given = ENVIRONMENTS[name], SparkSettings.from_environment(environment)
    settings = SparkSettings(
        master=given.master if environment.get("KEYFOLD_SPARK_MASTER") else base.master,
        app_name=base.app_name,
        packages=(*base.packages, *given.packages),
        conf=base.conf,
        ship=(*base.ship, *given.ship),
    )
    home = lakehouse_home(environment)
    settings = settings.for_home(home)
    check_target(settings.master, {**base.conf, **given.conf}, home, environment)
    further = dg.EnvVar(SPARK_CONF_VARIABLE) if environment.get(SPARK_CONF_VARIABLE) else ""
    return {
        "spark": SparkResource.of(settings, environment.get("KEYFOLD_WARM_SPARK") or "", further),
        "lakehouse": LakehouseResource(home=str(home)),
    }


def spark_settings() -> SparkSettings:
    """The settings of the session that the environment asks for, with what may be secret among them.

    Raises:
        KeyfoldError: as `resources_from`.
    """
    spark: Any = resources_from()["spark"]
    return spark.settings


def check_home(home: Place, *, within: timedelta = timedelta(seconds=3)) -> None:
    """See, as definitions load, that a home in a store is there; of one on a disk, nothing.

    What a store says itself, that it has no such bucket or that it refuses, is a wrong setting: no run would get further, and
    the page of the code location is where somebody looks. No answer may be an outage: then the location loads, so that pages
    and sensors are there when the store is back, and runs tell by themselves.

    Raises:
        KeyfoldError: the store knows no such bucket, or refuses; says what to set.
    """
    refused: list[KeyfoldError] = []

    def look() -> None:
        try:
            check_reachable(home)
        except KeyfoldError as error:
            refused.append(error)

    # Beside: some clients ask for minutes before they give up.
    looking = Thread(target=look, name="look at the home", daemon=True)
    looking.start()
    looking.join(within.total_seconds())
    if looking.is_alive():
        refused.append(NotAnsweringError(f"{home}: no answer within {within.total_seconds():g} s"))
    for error in refused:
        if not isinstance(error, NotAnsweringError):
            raise error
        dg.get_dagster_logger().warning(f"{error}. Definitions are loaded all the same; runs fail until it does")


def lakehouse_home(environment: Mapping[str, str] = os.environ) -> Place:
    """The lakehouse's folder, whole, so that no later change of the working directory moves it."""
    return Lakehouse(environment.get("KEYFOLD_HOME") or ".keyfold").home
