"""`keyfold submit`: another command under spark-submit, where a cluster's rules or tools want applications to be submitted."""

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
    arguments: Annotated[list[str], typer.Argument(metavar="COMMAND...", help="As in: keyfold submit -- run JOB")],
) -> None:
    """Run a command of keyfold under spark-submit, in client mode, with the settings of KEYFOLD_SPARK_…."""
    with failures():
        if arguments[0] == "submit":
            raise KeyfoldError("give the command that is to be submitted, as in: keyfold submit -- run JOB")
        settings = SparkSettings.from_environment().for_home(to_place(_home(arguments)))
        command = submit_command(settings, _PROGRAM, arguments, new_scratch())
        # The driver is this Python: else spark-submit takes the first that PATH has.
        environment = {"PYSPARK_DRIVER_PYTHON": sys.executable, **os.environ}
        done = subprocess.run(command, env=environment, check=False)
    raise typer.Exit(done.returncode)


def _home(arguments: Sequence[str]) -> str:
    """The home that a command is given: Java wants more for one in a bucket, and starts before the command reads it."""
    given = [after for option, after in pairwise(arguments) if option == "--home"]
    given += [argument.removeprefix("--home=") for argument in arguments if argument.startswith("--home=")]
    return given[-1] if given else os.environ.get("KEYFOLD_HOME", "")
