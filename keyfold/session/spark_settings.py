"""Settings of Spark sessions, checked when they are loaded."""

import os
import re
import shlex
import tempfile
from collections.abc import Mapping
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from keyfold.errors import Misconfigured
from keyfold.session.redaction import SENSITIVE, secret_java_options
from keyfold.session.targets import LOOPBACK, cluster_defaults

_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"

_FIXED = {"spark.sql.session.timeZone": "UTC"}
"""Settings that results depend on. They cannot be changed."""

_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    "spark.executor.syncLogLevel.enabled": "true",
    # Spark starts one worker per core: more threads of Polars would only compete with them.
    "spark.executorEnv.POLARS_MAX_THREADS": "1",
    "spark.log.level": "ERROR",
    "spark.redaction.regex": SENSITIVE,
    # Spark's default is 200, and a generation keeps its first value for ever. Each state partition costs a task.
    _SHUFFLE_PARTITIONS: "4",
    # Spark's default is 10,000. Larger batches to and from workers were faster when measured.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "200000",
    # No limit: with one, Spark measures every column after every row, which costs as much as writing the row.
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    # What is shuffled is Parquet already: compressed, it is a tenth smaller, and a run of 2 million events an eighth slower.
    "spark.shuffle.compress": "false",
    # Hadoop ignores the process's umask and sets the modes of files itself.
    "spark.hadoop.fs.permissions.umask-mode": "077",
    # Otherwise Spark creates a folder spark-warehouse in the working directory.
    "spark.sql.warehouse.dir": os.path.join(tempfile.gettempdir(), "keyfold-warehouse"),
}

# In runs of seconds, Java's optimizing compiler competes with the run for the processor and does not pay for itself. It is used
# ten times later than by default. Measured in benchmarks/results/performance.md.
JAVA_OPTIONS = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=10000 -XX:Tier4CompileThreshold=150000 "
    "-XX:Tier4BackEdgeThreshold=1000000 -XX:+UseParallelGC"
)
"""Default Java options of a local session."""

_LOCAL_DEFAULTS = {
    # The driver's ports must not be reachable from the network.
    "spark.driver.bindAddress": LOOPBACK,
    "spark.driver.host": LOOPBACK,
    # Other users of the machine reach loopback too, and a broadcast may have a bucket's secret. Spark generates a secret for each
    # session, which is in no setting.
    "spark.authenticate": "true",
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    # Not on a cluster: workers get the package only after the daemon has started.
    "spark.python.daemon.module": "keyfold.session.worker_daemon",
}

_MASTER = re.compile(
    r"local|local\[(\*|[1-9]\d*)(,\s*[1-9]\d*)?\]|spark://[^\s,:/]+:\d+(,[^\s,:/]+:\d+)*|yarn|k8s://\S+|sc://\S+"
)


class SparkSettings(BaseModel):
    """The master and the settings of Spark. Unknown fields and invalid values are errors when it is loaded."""

    # Pydantic's errors repeat the input, which may be a secret.
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    master: str = Field(
        default="local[*]", description="Spark master URL: local[N], spark://host:port, yarn, k8s://…, sc://host:port"
    )
    app_name: str = Field(default="keyfold", min_length=1)
    conf: dict[str, str] = Field(default_factory=dict, description="Spark settings by name")
    ship: tuple[str, ...] = Field(
        default=(),
        description="import names of Python packages to ship to a cluster's workers, besides keyfold and the project's own",
    )

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """Read settings from KEYFOLD_SPARK_MASTER, _SHIP and _CONF, which are all optional.

        _SHIP is separated by commas, _CONF by blanks: `spark.driver.memory=4g spark.ui.enabled=true`.

        Raises:
            KeyfoldError: a value is not valid.
        """
        given: dict[str, object] = {}
        if master := environment.get("KEYFOLD_SPARK_MASTER"):
            given["master"] = master
        if ship := environment.get("KEYFOLD_SPARK_SHIP"):
            given["ship"] = tuple(one.strip() for one in ship.split(",") if one.strip())
        if conf := environment.get("KEYFOLD_SPARK_CONF"):
            given["conf"] = parse_conf(conf)
        try:
            return cls.model_validate(given)
        except ValidationError as error:
            faults = "; ".join(
                f"KEYFOLD_SPARK_{str(e['loc'][0] if e['loc'] else 'conf').upper()}: {e['msg']}" for e in error.errors()
            )
            raise Misconfigured(faults.replace("Value error, ", "")) from None

    @field_validator("master")
    @classmethod
    def _master_is_valid(cls, master: str) -> str:
        if not _MASTER.fullmatch(master):
            raise ValueError(
                f"{master!r} is not a Spark master: give local, local[4], local[*], spark://host:7077, "
                "yarn, k8s://https://host:port or sc://host:port"
            )
        return master

    @field_validator("ship")
    @classmethod
    def _are_import_names(cls, ship: tuple[str, ...]) -> tuple[str, ...]:
        for name in ship:
            if not name.isidentifier():
                raise ValueError(f"{name!r} is not the name of a top-level package: give the name that is imported")
        return ship

    @field_validator("conf")
    @classmethod
    def _names_are_of_spark(cls, conf: dict[str, str]) -> dict[str, str]:
        own_fields = {"spark.master": "master", "spark.app.name": "app_name"}
        for name, value in conf.items():
            if not name.startswith("spark."):
                raise ValueError(f"{name!r} is not a Spark setting: their names begin with 'spark.'")
            if name in own_fields:
                raise ValueError(f"{name} is set by its own field: {own_fields[name]}")
            if name.endswith("JavaOptions") and (secrets := secret_java_options(value)):
                raise ValueError(
                    f"{name} has the secret {', '.join(secrets)}, and every user of the machine can see a program's options: "
                    "write the options to a private file (mode 0600), and give @/path/of/that/file instead"
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
        """Whether Spark runs in this process's own Java."""
        return self.master.startswith("local")

    @property
    def is_connect(self) -> bool:
        """Whether this process is a client of Spark Connect, which needs no Java."""
        return self.master.startswith("sc://")

    @property
    def partitions(self) -> int:
        """Number of state partitions of a new generation: Spark's setting, or the cores of a local master."""
        given = self.conf.get(_SHUFFLE_PARTITIONS)
        return int(given or (_local_cores(self.master) if self.is_local else _DEFAULTS[_SHUFFLE_PARTITIONS]))


def parse_conf(text: str, variable: str = "KEYFOLD_SPARK_CONF") -> dict[str, str]:
    """Parse settings separated by blanks: `spark.driver.memory=4g "spark.app.note=two words"`.

    Args:
        text: the settings.
        variable: the variable that holds them, for error messages.

    Raises:
        KeyfoldError: a part is not a setting. The message does not repeat it, as it may be half of a secret.
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
    """Return all Spark settings of the session that `settings` describes."""
    local = _LOCAL_DEFAULTS | {_SHUFFLE_PARTITIONS: str(_local_cores(settings.master))}
    of_target = local if settings.is_local else cluster_defaults(settings.master, settings.conf)
    return _DEFAULTS | of_target | settings.conf | _FIXED | {"spark.master": settings.master}


def connect_conf(settings: SparkSettings) -> dict[str, str]:
    """Return the settings of a session of Spark Connect: those that results depend on, and the given ones.

    The others belong to the server.
    """
    return settings.conf | _FIXED


def _local_cores(master: str) -> int:
    """Return the number of tasks that run at a time, at least two. More state partitions would only add commits and waits."""
    found = re.match(r"local\[(\d+)", master)
    cores = int(found[1]) if found else (os.cpu_count() or 1) if "*" in master else 1
    return max(2, cores)
