"""`keyfold submit`: run another command under spark-submit, for clusters that require it."""

import os
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated

import typer

from keyfold.cli.terminal import failures
from keyfold.errors import KeyfoldError
from keyfold.session import SparkSettings
from keyfold.session.scratch import new_scratch
from keyfold.session.submitting import submit_command
from keyfold.storage.place import to_place

_PROGRAM = "from keyfold.cli.app import app\n\napp()\n"


def submit(
    arguments: Annotated[
        list[str], typer.Argument(metavar="COMMAND...", help="The command, as in: keyfold submit -- run JOB")
    ],
) -> None:
    """Run a keyfold command under spark-submit in client mode, with the settings of KEYFOLD_SPARK_…."""
    with failures():
        if arguments[0] == "submit":
            raise KeyfoldError("submit cannot submit itself: give another command, as in: keyfold submit -- run JOB")
        settings = SparkSettings.from_environment().for_home(to_place(_home(arguments)))
        command = submit_command(settings, _PROGRAM, arguments, new_scratch())
        # Without this, spark-submit runs the driver with the first Python on PATH.
        environment = {"PYSPARK_DRIVER_PYTHON": sys.executable, **os.environ}
        done = subprocess.run(command, env=environment, check=False)
    raise typer.Exit(done.returncode)


def _home(arguments: Sequence[str]) -> str:
    """Return the lakehouse of a submitted command: Java needs more libraries for a bucket, and starts before the command."""
    given = [after for option, after in pairwise(arguments) if option == "--home"]
    given += [argument.removeprefix("--home=") for argument in arguments if argument.startswith("--home=")]
    return given[-1] if given else os.environ.get("KEYFOLD_HOME", "")
