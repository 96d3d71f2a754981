"""Spark sessions for Keyfold: settings that are checked when they are loaded, and the session made of them."""

import os
import re
import shlex
import tempfile
from collections.abc import Mapping
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from keyfold.errors import Misconfigured
from keyfold.session.packages import DELTA_PACKAGE, LEFT_OUT, S3_PACKAGES
from keyfold.session.redaction import SENSITIVE, secret_java_options
from keyfold.session.s3a import s3a_conf
from keyfold.session.targets import LOOPBACK, WHY_NOT_CONNECT, Target, cluster_defaults, target_of

_FIXED = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # A driver that has lost its lease may still write state: under other names than the run that took over.
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
}
"""Settings that results depend on: a session with others would answer differently."""

_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    "spark.executor.syncLogLevel.enabled": "true",
    # Spark starts a worker a core: threads of Polars would only compete with them.
    "spark.executorEnv.POLARS_MAX_THREADS": "1",
    "spark.log.level": "ERROR",
    "spark.redaction.regex": SENSITIVE,
    # 200 by default, frozen into a stateful query at its first run; each partition of state costs its own commit.
    "spark.sql.shuffle.partitions": "4",
    # 10,000 by default; measured, larger batches to and from the workers paid off.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "200000",
    # No limit: with one, Spark asks every column for its size after every row, which costs as much as writing the row.
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    "spark.databricks.delta.snapshotPartitions": "2",
    # Hadoop sets the modes of checkpoints and state by itself, whatever the process's umask is.
    "spark.hadoop.fs.permissions.umask-mode": "077",
    # Else Spark makes a folder spark-warehouse wherever a command is started.
    "spark.sql.warehouse.dir": os.path.join(tempfile.gettempdir(), "keyfold-warehouse"),
}

# A run of seconds ends before Java's slower compiler has paid for itself, yet competes with it for the processor: code
# goes there ten times later than by default. Measured in benchmarks/results/performance.md.
JAVA_OPTIONS = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=10000 -XX:Tier4CompileThreshold=150000 "
    "-XX:Tier4BackEdgeThreshold=1000000 -XX:+UseParallelGC"
)
"""Java's options of a local session, unless its settings say others."""

_LOCAL_DEFAULTS = {
    # Nobody else on the network is to reach the driver's ports.
    "spark.driver.bindAddress": LOOPBACK,
    "spark.driver.host": LOOPBACK,
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    # On a cluster it is shipped with the package, which workers get later.
    "spark.python.daemon.module": "keyfold.session.worker_daemon",
}

_MASTER = re.compile(
    r"local|local\[(\*|[1-9]\d*)(,\s*[1-9]\d*)?\]|spark://[^\s,:/]+:\d+(,[^\s,:/]+:\d+)*|yarn|k8s://\S+"
)
_COORDINATES = re.compile(r"[\w.-]+:[\w.-]+:[\w.-]+")


class SparkSettings(BaseModel):
    """Where Spark runs and with what; unknown fields and misspelt values are refused at load."""

    # Pydantic's errors repeat what was given, and that may be a secret.
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    master: str = Field(default="local[*]", description="Spark master URL: local[N], spark://host:port, yarn, k8s://…")
    app_name: str = Field(default="keyfold", min_length=1)
    packages: tuple[str, ...] = Field(
        default=(), description="Maven coordinates, group:artifact:version, besides Delta's"
    )
    conf: dict[str, str] = Field(default_factory=dict, description="Spark settings, by their own names")
    ship: tuple[str, ...] = Field(
        default=(),
        description="Python packages that go to a cluster's workers besides keyfold and the project's own, by their import names",
    )

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """Settings from KEYFOLD_SPARK_MASTER, _PACKAGES, _SHIP and _CONF, each of them optional.

        Packages and what is shipped are separated by commas; settings by blanks, as in `spark.driver.memory=4g spark.ui.enabled=true`.

        Raises:
            KeyfoldError: a value is not valid.
        """
        given: dict[str, object] = {}
        if master := environment.get("KEYFOLD_SPARK_MASTER"):
            given["master"] = master
        for name in ("packages", "ship"):
            if listed := environment.get(f"KEYFOLD_SPARK_{name.upper()}"):
                given[name] = tuple(one.strip() for one in listed.split(",") if one.strip())
        if conf := environment.get("KEYFOLD_SPARK_CONF"):
            given["conf"] = parse_conf(conf)
        try:
            return cls.model_validate(given)
        except ValidationError as error:
            told = "; ".join(
                f"KEYFOLD_SPARK_{str(e['loc'][0] if e['loc'] else 'conf').upper()}: {e['msg']}" for e in error.errors()
            )
            raise Misconfigured(told.replace("Value error, ", "")) from None

    @field_validator("master")
    @classmethod
    def _master_is_one(cls, master: str) -> str:
        if master.startswith("sc:"):
            raise ValueError(WHY_NOT_CONNECT)
        if not _MASTER.fullmatch(master):
            raise ValueError(
                f"{master!r} is no Spark master: give local, local[4], local[*], spark://host:7077, "
                "yarn or k8s://https://host:port"
            )
        return master

    @field_validator("packages")
    @classmethod
    def _packages_are_coordinates(cls, packages: tuple[str, ...]) -> tuple[str, ...]:
        for package in packages:
            if not _COORDINATES.fullmatch(package):
                raise ValueError(f"{package!r} is no Maven coordinates: give group:artifact:version")
        return packages

    @field_validator("ship")
    @classmethod
    def _are_import_names(cls, ship: tuple[str, ...]) -> tuple[str, ...]:
        for name in ship:
            if not name.isidentifier():
                raise ValueError(f"{name!r} is no name of a top-level package: give it as in `import {name}`")
        return ship

    @field_validator("conf")
    @classmethod
    def _names_are_spark_s(cls, conf: dict[str, str]) -> dict[str, str]:
        own_fields = {"spark.master": "master", "spark.app.name": "app_name", "spark.jars.packages": "packages"}
        for name, value in conf.items():
            if not name.startswith("spark."):
                raise ValueError(f"{name!r} is no Spark setting: their names begin with 'spark.'")
            if name in own_fields:
                raise ValueError(f"{name} has a field of its own: {own_fields[name]}")
            if name.endswith("JavaOptions") and (secrets := secret_java_options(value)):
                raise ValueError(
                    f"{name} holds {', '.join(secrets)}, and every user of the machine sees a program's options: write "
                    "them to a file of your own (mode 0600), and give @/path/of/that/file in their place"
                )
        return conf

    @model_validator(mode="after")
    def _fixed_settings_stay(self) -> Self:
        for name, value in _FIXED.items():
            if self.conf.get(name, value) != value:
                raise ValueError(f"{name} must stay {value!r}: Keyfold's results depend on it")
        return self

    @property
    def is_local(self) -> bool:
        """Whether Spark runs inside this process's own Java."""
        return target_of(self.master) is Target.LOCAL

    @property
    def reaches_s3(self) -> bool:
        """Whether Java can reach what lies in buckets."""
        return set(S3_PACKAGES) <= set(self.packages)

    def for_home(self, home: object) -> Self:
        """The settings with all that Java needs for a lakehouse home: more than these only where it lies in a bucket.

        Example:
            >>> SparkSettings().for_home("s3a://lake/home").reaches_s3, SparkSettings().for_home("/data").reaches_s3
            (True, False)
        """
        if not str(home).startswith("s3a://") or self.reaches_s3:
            return self
        return self.model_copy(update={"packages": (*self.packages, *S3_PACKAGES)})

    @property
    def all_packages(self) -> tuple[str, ...]:
        """Every package that Spark resolves, Delta's first."""
        return (DELTA_PACKAGE, *(package for package in self.packages if package != DELTA_PACKAGE))


def parse_conf(text: str, variable: str = "KEYFOLD_SPARK_CONF") -> dict[str, str]:
    """Settings separated by blanks, as in `spark.driver.memory=4g "spark.app.note=two words"`.

    Args:
        text: the settings.
        variable: where they come from, for errors.

    Raises:
        KeyfoldError: a part is no setting. The message repeats none, since half a secret would be such a part.
    """
    try:
        pairs = [part.partition("=") for part in shlex.split(text)]
    except ValueError as error:
        raise Misconfigured(f"{variable}: {error}; give name=value, and quote a value that has blanks") from None
    for place, (_, equals, _) in enumerate(pairs, 1):
        if not equals:
            raise Misconfigured(
                f"{variable}: part {place} of {len(pairs)} has no '='; give name=value, and quote a value that has "
                "blanks"
            )
    return {name: value for name, _, value in pairs}


def spark_conf(settings: SparkSettings) -> dict[str, str]:
    """Every setting of the session that the settings describe."""
    local = _LOCAL_DEFAULTS | {"spark.sql.shuffle.partitions": str(_local_cores(settings.master))}
    of_target = local if settings.is_local else cluster_defaults(settings.master, settings.conf)
    of_store = s3a_conf() if settings.reaches_s3 else {}
    conf = _DEFAULTS | of_target | of_store | settings.conf | _FIXED
    excluded = [*LEFT_OUT, *filter(None, settings.conf.get("spark.jars.excludes", "").split(","))]
    return conf | {
        "spark.master": settings.master,
        "spark.jars.packages": ",".join(settings.all_packages),
        "spark.jars.excludes": ",".join(excluded),
    }


def _local_cores(master: str) -> int:
    """As many tasks as run at a time, two at least: each partition of state costs its own commit, and a wave its wait."""
    found = re.match(r"local\[(\d+)", master)
    cores = int(found[1]) if found else (os.cpu_count() or 1) if "*" in master else 1
    return max(2, cores)
