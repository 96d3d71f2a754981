"""Commands of `keyfold` on toys, as `local_keyfold` runs them, with real Spark: each process attaches to the warm one."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from keyfold.cli import ingest as ingest_command
from keyfold.cli import run as run_command
from keyfold.cli import state_tools
from keyfold.session import SparkSettings
from keyfold.session.gateway import JavaEndedError
from keyfold.session.warm.client import attach
from tests.chaos.local_keyfold import play_with_toys, serve


def main() -> None:
    """Fork as ordered, for commands that attach to the Spark that KEYFOLD_WARM_SPARK names."""

    @contextmanager
    def spark_of_environment(*_: Any) -> Iterator[SparkSession]:
        attached = attach(Path(os.environ["KEYFOLD_WARM_SPARK"]), SparkSettings.from_environment())
        try:
            yield attached.session
        except (Py4JError, OSError):
            raise JavaEndedError from None
        finally:
            # Of a Java that has ended there is nothing to let go of.
            with suppress(Py4JError, OSError):
                attached.detach()

    for command in (ingest_command, run_command, state_tools):
        command.spark_of_environment = spark_of_environment  # type: ignore[attr-defined]
    play_with_toys()
    serve()


if __name__ == "__main__":
    main()
