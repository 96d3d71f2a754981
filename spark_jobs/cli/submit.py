"""`keyfold submit`: another command under spark-submit, where a cluster's rules or tools want applications to be submitted."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import pyspark
import typer

from spark_jobs.cli.terminal import failures
from spark_jobs.errors import KeyfoldError
from spark_jobs.session import SparkSettings
from spark_jobs.session.gateway import write_properties
from spark_jobs.session.scratch import new_scratch
from spark_jobs.session.settings import spark_conf
from spark_jobs.session.targets import check_target

_PROGRAM = "from spark_jobs.cli.app import app\n\napp()\n"


def submit_command(settings: SparkSettings, arguments: Sequence[str], folder: Path) -> list[str]:
    """The command that runs `keyfold` under spark-submit; no setting stands in it, since secrets may be among them.

    Args:
        settings: of the session, which go to a file of mode 0600.
        arguments: of `keyfold`.
        folder: of this user alone; the file and the program are written there, and must stay until the command ends.

    Raises:
        KeyfoldError: the target wants more settings.

    Example:
        >>> submit_command(SparkSettings(master="yarn", conf=conf), ["run", "rides"], folder)  # doctest: +SKIP
        ['…/bin/spark-submit', '--master', 'yarn', '--deploy-mode', 'client', …, '…/keyfold.py', 'run', 'rides']
    """
    check_target(settings.master, settings.conf)
    program, properties = folder / "keyfold.py", folder / "spark.properties"
    program.write_text(_PROGRAM, encoding="utf-8")
    write_properties(properties, spark_conf(settings))
    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    own = ["--properties-file", str(properties), "--load-spark-defaults"]
    where = ["--master", settings.master, "--deploy-mode", "client", "--name", settings.app_name]
    return [str(home / "bin" / "spark-submit"), *where, *own, str(program), *arguments]


def submit(
    arguments: Annotated[list[str], typer.Argument(metavar="COMMAND...", help="As in: keyfold submit -- run JOB")],
) -> None:
    """Run a command of keyfold under spark-submit, in client mode, with the settings of KEYFOLD_SPARK_…."""
    with failures():
        if arguments[0] == "submit":
            raise KeyfoldError("give the command that is to be submitted, as in: keyfold submit -- run JOB")
        command = submit_command(SparkSettings.from_environment(), arguments, new_scratch())
        # The driver is this Python: else spark-submit takes the first that PATH has.
        environment = {"PYSPARK_DRIVER_PYTHON": sys.executable, **os.environ}
        done = subprocess.run(command, env=environment, check=False)
    raise typer.Exit(done.returncode)
