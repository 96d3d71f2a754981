"""The resource `keyfold`: the lakehouse directory, and the runners that work on it, with Spark where it is needed.

    KEYFOLD_HOME     the lakehouse directory; default: `.keyfold` in the working directory
    KEYFOLD_RUNNER   auto, local or spark; KEYFOLD_LOCAL_BELOW: planned bytes below which `auto` needs no Spark
    KEYFOLD_SPARK_*  MASTER, SHIP and CONF; see `SparkSettings.from_environment`

are read by `KeyfoldResource.from_environment`. Dagster's pages and records have no value of a setting: the resource keeps them.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import dagster as dg

from keyfold.dagster.run_config import RunConfig, plain_fields
from keyfold.dagster.table_inputs import RESOURCE, load_table
from keyfold.errors import Misconfigured
from keyfold.lakehouse import Lakehouse
from keyfold.runners import Choice, Runners
from keyfold.runners.choice import LOCAL_BELOW
from keyfold.session import SparkSettings
from keyfold.storage.place import Place
from keyfold.storage.reachable import check_reachable


@dataclass(frozen=True)
class Keyfold(dg.IOManager):
    """What the resource provides to a step: `def mine(keyfold: dg.ResourceParam[Keyfold])`.

    It is also the IO manager, read only, by which other assets have Keyfold's tables as inputs:
    `def mine(orders_per_hour: pl.LazyFrame)` (`keyfold.dagster.table_inputs`).

    Attributes:
        lakehouse: the tables, journals and state.
        runners: where work is done; `runners.session` is the Spark session, which is started when it is first used.
    """

    lakehouse: Lakehouse
    runners: Runners

    def load_input(self, context: dg.InputContext) -> Any:
        """Return the table of an upstream asset, as the type that the input is annotated with."""
        return load_table(context, self.lakehouse, self.runners)

    def handle_output(self, context: dg.OutputContext, obj: Any) -> None:
        """Refuse the value of another asset.

        Raises:
            dg.Failure: always.
        """
        raise dg.Failure(
            f"output {context.name} is to be stored by {RESOURCE}, which only reads Keyfold's tables: name another IO manager for it",
            allow_retries=False,
        )


class KeyfoldResource(dg.IOManagerDefinition):
    """The lakehouse directory and the runners of a code location; it provides `Keyfold`, under the name `keyfold`.

    A Spark session is started by the first work that needs one, and stopped after the run. A run may choose its runner, and no
    setting of Spark.

    Args:
        home: folder of tables, journals and state, or the URL of one in a bucket.
        runner: where work is done: auto (by the planned bytes), local (in the run's process) or spark.
        spark: settings of the session; of a `PySparkResource` of dagster-pyspark, its `spark_config` is taken, and it starts no
            session.
        local_below: planned bytes below which `auto` does the work in the run's process.

    Raises:
        KeyfoldError: a setting is invalid.

    Example:
        >>> resources = {"keyfold": KeyfoldResource(home=dg.EnvVar("LAKEHOUSE"), runner="local")}
    """

    def __init__(
        self,
        home: str | dg.EnvVar = ".keyfold",
        runner: Choice = "auto",
        *,
        spark: Any = None,
        local_below: int = LOCAL_BELOW,
    ) -> None:
        self.home = home
        self.settings = spark if isinstance(spark, SparkSettings) else _settings_of(spark)
        self.runner: Choice = runner
        self.local_below = local_below
        # Checks them.
        Runners(runner, self.settings, local_below)
        super().__init__(
            resource_fn=self._provide,  # pyright: ignore[reportArgumentType] - a generator, as for any resource
            config_schema=plain_fields(RunConfig),
            description="The lakehouse directory, and the runners that work on it.",
        )

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """Build the resource from the environment. Whether a bucket can be reached is looked at by each run.

        Raises:
            KeyfoldError: a variable has an invalid value.
        """
        settings, home = SparkSettings.from_environment(environment), lakehouse_home(environment)
        runners = Runners.from_environment(environment=environment)
        return cls(str(home), runners.choice, spark=settings, local_below=runners.local_below)

    def open(self) -> Keyfold:
        """Return what a run gets, for use outside of Dagster; leave its `runners` as a context manager to stop Spark."""
        return self._opened(None)

    def _opened(self, runner: Choice | None) -> Keyfold:
        setting = self.home
        home = setting.get_value() if isinstance(setting, dg.EnvVar) else setting
        if not home:
            name = setting.env_var_name if isinstance(setting, dg.EnvVar) else "home"
            raise Misconfigured(f"KeyfoldResource: {name} is not set; it names the lakehouse directory")
        return Keyfold(Lakehouse(home), Runners(runner or self.runner, self.settings, self.local_below))

    def _provide(self, context: dg.InitResourceContext) -> Iterator[Keyfold]:
        opened = self._opened((context.resource_config or {}).get("runner"))
        # A tick of a sensor says itself what it cannot read.
        if context.run is not None:
            check_reachable(opened.lakehouse.home)
        with opened.runners:
            yield opened


def _settings_of(spark: Any) -> SparkSettings:
    """Return the settings of a resource of dagster-pyspark, or the default ones."""
    conf = dict(_flat(getattr(spark, "spark_config", None) or {}))
    if spark is not None and not hasattr(spark, "spark_config"):
        raise Misconfigured(
            f"KeyfoldResource: spark is a {type(spark).__name__}; give keyfold.session.SparkSettings or a PySparkResource"
        )
    named = {"master": conf.pop("spark.master", None), "app_name": conf.pop("spark.app.name", None)}
    return SparkSettings.model_validate({"conf": conf, **{name: value for name, value in named.items() if value}})


def _flat(config: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    for name, value in config.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", str(value)


def lakehouse_home(environment: Mapping[str, str] = os.environ) -> Place:
    """Return the lakehouse directory as an absolute path, which a change of the working directory does not affect."""
    return Lakehouse(environment.get("KEYFOLD_HOME") or ".keyfold").home
