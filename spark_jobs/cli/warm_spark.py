"""`keyfold warm-spark`: a Spark that stays, for runs to attach to."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from spark_jobs.cli.options import DEFAULT_HOME, AsJson, Home
from spark_jobs.cli.terminal import failures, report, stop_on_signal
from spark_jobs.cli.warm_up import warm_up
from spark_jobs.session import SparkSettings
from spark_jobs.session.warm.server import serve


def warm_spark(
    address: Annotated[
        Path | None, typer.Option(help="File that says where it is [default: HOME/warm-spark.json].")
    ] = None,
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Keep a Spark that runs of Dagster attach to, until interrupted; they find it by KEYFOLD_WARM_SPARK."""
    file = (address or home / "warm-spark.json").expanduser().resolve()

    def report_address() -> None:
        report({"address": str(file)}, as_json, f"warm Spark: set KEYFOLD_WARM_SPARK={file} for runs that attach to it")
        sys.stdout.flush()

    with failures():
        serve(SparkSettings.from_environment(), file, warm_up=warm_up, ready=report_address, stop=stop_on_signal())
