"""Settings of Spark sessions, checked when they are loaded; and what a session needs to be installed."""

import os
import re
import shutil
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, field_validator

from keyfold.errors import Misconfigured
from keyfold.secret_settings import SENSITIVE, parse_conf, secret_java_options
from keyfold.validation import validated

_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"

_FIXED = {"spark.sql.session.timeZone": "UTC"}
"""Settings that results depend on. They cannot be changed."""

_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    # Spark starts one worker per core: more threads of Polars would only compete with them.
    "spark.executorEnv.POLARS_MAX_THREADS": "1",
    "spark.redaction.regex": SENSITIVE,
    # Spark's default is 200, and a generation keeps its first value for ever. Each state partition costs a task.
    _SHUFFLE_PARTITIONS: "4",
    # Spark's default is 10,000. Larger batches to and from workers were faster when measured.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "200000",
    # No limit: with one, Spark measures every column after every row, which costs as much as writing the row.
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    # What is shuffled is Parquet already: compressed, it is a tenth smaller, and a run of 2 million events an eighth slower.
    "spark.shuffle.compress": "false",
    # Otherwise anybody who reaches the port of the driver or of an executor could run code there, or read a broadcast with a secret.
    # On one machine, Spark generates a secret for each session, which is in no setting.
    "spark.authenticate": "true",
}

_LOOPBACK = "127.0.0.1"
_LOCAL_DEFAULTS = {
    # Not on a cluster: workers get the package only after the daemon has started.
    "spark.python.daemon.module": "keyfold.session.worker_daemon",
    "spark.log.level": "ERROR",
    "spark.executor.syncLogLevel.enabled": "true",
    # The driver's ports must not be reachable from the network.
    "spark.driver.bindAddress": _LOOPBACK,
    "spark.driver.host": _LOOPBACK,
    # In runs of seconds, Java's optimizing compiler does not pay for itself: a start and three small maps take 8.9 processor seconds
    # of Java without these options, and 6.5 with them.
    "spark.driver.extraJavaOptions": (
        "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=10000 -XX:Tier4CompileThreshold=150000 "
        "-XX:Tier4BackEdgeThreshold=1000000 -XX:+UseParallelGC"
    ),
}
_CLUSTER_DEFAULTS = {
    # Spark warns of an application that gets no executor.
    "spark.log.level": "WARN",
    # A path without a scheme is on the shared mount, for Spark too, whatever Hadoop's own files say.
    "spark.hadoop.fs.defaultFS": "file:///",
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
        fields: dict[str, object] = {}
        if master := environment.get("KEYFOLD_SPARK_MASTER"):
            fields["master"] = master
        if ship := environment.get("KEYFOLD_SPARK_SHIP"):
            fields["ship"] = tuple(name.strip() for name in ship.split(",") if name.strip())
        if conf := environment.get("KEYFOLD_SPARK_CONF"):
            fields["conf"] = parse_conf(conf, "KEYFOLD_SPARK_CONF")
        return validated(cls, fields, "", says=lambda field: f"KEYFOLD_SPARK_{field.upper()}", quotes=False)

    @field_validator("master")
    @classmethod
    def _master_is_valid(cls, master: str) -> str:
        if not _MASTER.fullmatch(master):
            raise ValueError(
                f"{master!r} is not a Spark master: give local, local[4], local[*], spark://host:7077, "
                "yarn, k8s://https://host:port or sc://host:port"
            )
        return master

    @field_validator("conf")
    @classmethod
    def _names_are_of_spark(cls, conf: dict[str, str]) -> dict[str, str]:
        own_fields = {"spark.master": "master", "spark.app.name": "app_name"}
        for name, value in conf.items():
            if not name.startswith("spark."):
                raise ValueError(f"{name!r} is not a Spark setting: their names begin with 'spark.'")
            if name in own_fields:
                raise ValueError(f"{name} is set by its own field: {own_fields[name]}")
            if name in _FIXED and value != _FIXED[name]:
                raise ValueError(f"{name} must stay {_FIXED[name]!r}: Keyfold's results depend on it")
            if name.endswith("JavaOptions") and (secrets := secret_java_options(value)):
                raise ValueError(
                    f"{name} has the secret {', '.join(secrets)}, and every user of the machine can see a program's options: "
                    "write the options to a private file (mode 0600), and give @/path/of/that/file instead"
                )
        return conf

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
        default = str(_local_cores(self.master)) if self.is_local else _DEFAULTS[_SHUFFLE_PARTITIONS]
        return int(self.conf.get(_SHUFFLE_PARTITIONS) or default)


def spark_conf(settings: SparkSettings) -> dict[str, str]:
    """Return all Spark settings of the session that `settings` describes.

    A session of Spark Connect gets those that results depend on, and what the user has set: the others belong to its server.
    """
    if settings.is_connect:
        return settings.conf | _FIXED
    if settings.is_local:
        defaults = _LOCAL_DEFAULTS | {_SHUFFLE_PARTITIONS: str(_local_cores(settings.master))}
    else:
        # Spark refuses encryption without authentication.
        is_encrypted = settings.conf.get("spark.authenticate", "true") == "true"
        defaults = _CLUSTER_DEFAULTS | ({"spark.network.crypto.enabled": "true"} if is_encrypted else {})
    return _DEFAULTS | defaults | settings.conf | _FIXED | {"spark.master": settings.master}


def missing_for_spark(*, needs_java: bool = True) -> str | None:
    """Return what Spark lacks here and how to get it; None if nothing.

    Args:
        needs_java: whether the session has a Java process of its own; a client of Spark Connect has none.
    """
    # What the extra `spark` installs: Spark's Python workers load pandas.
    if missing := [name for name in ("pyspark", "pandas") if find_spec(name) is None]:
        return f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed (pip install 'keyfold[spark]')"
    if needs_java and not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        return "this machine has no Java for Spark"
    return None


def check_spark_is_installed() -> None:
    """Check that the packages of `keyfold[spark]` are installed.

    Raises:
        Misconfigured: one is missing.
    """
    if missing := missing_for_spark(needs_java=False):
        raise Misconfigured(
            f'Spark is needed, but {missing}; or work in one process: Runners("local"), KEYFOLD_RUNNER=local'
        )


def _local_cores(master: str) -> int:
    """Return the number of tasks that run at a time, at least two. More state partitions would only add commits and waits."""
    number = re.match(r"local\[(\d+)", master)
    cores = int(number[1]) if number else (os.cpu_count() or 1) if "*" in master else 1
    return max(2, cores)
