"""Choose the runner of a piece of work: Spark, this process, or by the planned bytes."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

from keyfold.errors import Misconfigured
from keyfold.runners.local_runner import LocalRunner
from keyfold.runners.runner import Runner
from keyfold.session.spark_settings import SparkSettings, check_spark_is_installed, missing_for_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from keyfold.runners.spark_runner import SparkRunner

Choice = Literal["auto", "local", "spark"]

LOCAL_BELOW = 32 << 20
"""Work of fewer planned bytes than this runs in this process, where the choice is `auto`."""


class Runners:
    """The runners of runs and ingest. A Spark session is started when work first needs one.

    Used as a context manager, it stops at the end a session that it started; otherwise the session ends with the process. A session that
    is given, or that ran before, is never stopped.

    Args:
        choice: `local` runs everything in this process, `spark` everything on Spark; `auto` decides by the planned bytes.
        spark: the settings of the session to start, or a session (classic, or of Spark Connect), which is used as it is.
        local_below: planned bytes below which `auto` runs work in this process.

    Raises:
        KeyfoldError: the choice is none of these, or `local_below` is negative.

    Example:
        >>> runners = Runners("auto", local_below=1 << 20)
        >>> runners.reason(1000)
        'local: 0.0 MiB are planned, less than 1 MiB'
    """

    def __init__(
        self,
        choice: Choice = "auto",
        spark: "SparkSettings | SparkSession | None" = None,
        local_below: int = LOCAL_BELOW,
    ) -> None:
        if choice not in get_args(Choice):
            raise Misconfigured(f"the runner is {choice!r}; choose one of: {', '.join(get_args(Choice))}")
        if local_below < 0:
            raise Misconfigured(f"local_below is {local_below}; give a number of bytes, 0 or more")
        self.choice: Choice = choice
        self.local_below = local_below
        self._settings = spark if isinstance(spark, SparkSettings) else SparkSettings()
        self._session: Any = None if isinstance(spark, SparkSettings) else spark
        self._is_ours = False
        self._local = LocalRunner()
        self._spark: SparkRunner | None = None

    @classmethod
    def from_environment(cls, choice: str | None = None, environment: Mapping[str, str] = os.environ) -> Self:
        """Return the runners that KEYFOLD_RUNNER, KEYFOLD_LOCAL_BELOW (bytes) and KEYFOLD_SPARK_… describe, all optional.

        Args:
            choice: overrides KEYFOLD_RUNNER.

        Raises:
            KeyfoldError: a value is not valid.
        """
        below = environment.get("KEYFOLD_LOCAL_BELOW") or str(LOCAL_BELOW)
        if not below.isdecimal():
            raise Misconfigured(f"KEYFOLD_LOCAL_BELOW is {below!r}; give a number of bytes, such as {LOCAL_BELOW}")
        chosen: Any = choice or environment.get("KEYFOLD_RUNNER") or "auto"
        return cls(chosen, SparkSettings.from_environment(environment), int(below))

    @property
    def partitions(self) -> int:
        """Number of state partitions of a new generation, which keeps it."""
        return self._settings.partitions

    def for_bytes(self, planned: int) -> Runner:
        """Return the runner for work on so many planned bytes; Spark is started if it is not running yet."""
        return self.spark if self._is_on_spark(planned) else self._local

    def reason(self, planned: int) -> str:
        """Say which runner works on so many planned bytes, and why."""
        name = "spark" if self._is_on_spark(planned) else "local"
        if self.choice != "auto":
            return f"{name}: as chosen"
        size, limit = f"{planned / (1 << 20):,.1f} MiB are planned", f"{self.local_below / (1 << 20):,.4g} MiB"
        if planned < self.local_below:
            return f"{name}: {size}, less than {limit}"
        if name == "local":
            return f"{name}: {size}, but {self._missing()}"
        return f"{name}: {size}, not less than {limit}"

    @property
    def spark(self) -> "SparkRunner":
        """The runner on Spark; a session is started if there is none.

        Raises:
            KeyfoldError: Spark cannot be started.
        """
        if self._spark is None:
            session = self.session
            from keyfold.runners.spark_runner import SparkRunner  # noqa: PLC0415 - imports pyspark

            self._spark = SparkRunner(session)
        return self._spark

    @property
    def session(self) -> "SparkSession":
        """The Spark session; it is started if there is none.

        Raises:
            KeyfoldError: Spark cannot be started.
        """
        if self._session is None:
            check_spark_is_installed()
            from keyfold.session.start import enter_session  # noqa: PLC0415 - imports pyspark

            self._session, self._is_ours = enter_session(self._settings)
        return self._session

    def check_alive(self) -> None:
        """Check that the Spark session that was started, if any, can still work.

        Raises:
            KeyfoldError: Spark's Java process has ended.
        """
        if self._spark is not None:
            self._spark.check_alive()

    def _is_on_spark(self, planned: int) -> bool:
        if self.choice != "auto":
            return self.choice == "spark"
        return planned >= self.local_below and (self._session is not None or self._missing() is None)

    def _missing(self) -> str | None:
        return missing_for_spark(needs_java=not self._settings.is_connect)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_ours:
            from keyfold.session.start import stop_session  # noqa: PLC0415 - imports pyspark

            session, self._session, self._spark, self._is_ours = self._session, None, None, False
            stop_session(session)
