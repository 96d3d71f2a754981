"""`keyfold warm-spark`: keep a Spark session running for runs to attach to."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from keyfold.cli.options import DEFAULT_HOME, AsJson, Home
from keyfold.cli.terminal import failures, report, stop_on_signal
from keyfold.cli.warm_up import warm_up
from keyfold.errors import KeyfoldError
from keyfold.session import SparkSettings
from keyfold.session.warm.server import serve
from keyfold.storage.place import local_path, to_place
from keyfold.storage.reachable import check_reachable


def warm_spark(
    address: Annotated[
        Path | None, typer.Option(help="File to write its address to [default: HOME/warm-spark.json].")
    ] = None,
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Keep a Spark session running for Dagster runs to attach to (KEYFOLD_WARM_SPARK), until interrupted."""

    def report_address(file: Path) -> None:
        report({"address": str(file)}, as_json, f"warm Spark: set KEYFOLD_WARM_SPARK={file} for runs that attach to it")
        sys.stdout.flush()

    with failures():
        file = (address or _beside(home)).expanduser().resolve()
        check_reachable(home)
        settings = SparkSettings.from_environment().for_home(home)
        serve(settings, file, warm_up=warm_up, ready=lambda: report_address(file), stop=stop_on_signal())


def _beside(home: str) -> Path:
    place = to_place(home)
    if (folder := local_path(place)) is None:
        raise KeyfoldError(
            f"a warm Spark serves this machine only, and {place} is not a local folder: give --address FILE"
        )
    return folder / "warm-spark.json"
