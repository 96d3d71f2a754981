"""Build the command that runs a Python program under spark-submit, in client mode, with all settings in a file."""

import os
from collections.abc import Sequence
from pathlib import Path

import pyspark

from keyfold.errors import Misconfigured
from keyfold.session.java_options import quietly_logged, write_properties
from keyfold.session.settings import SparkSettings, spark_conf
from keyfold.session.targets import check_target


def submit_command(settings: SparkSettings, program: str, arguments: Sequence[str], folder: Path) -> list[str]:
    """Build the command that runs a program under spark-submit. It holds no settings, as some may be secrets.

    Args:
        settings: settings of the session, which are written to a file of mode 0600.
        program: Python code, which must build its session with the same settings.
        arguments: arguments of the program.
        folder: a private folder for the program and the settings. It must exist until the command ends.

    Raises:
        KeyfoldError: the target needs more settings, or there is no spark-submit.

    Example:
        >>> submit_command(SparkSettings(master="yarn", conf=conf), "…", ["run", "rides"], folder)  # doctest: +SKIP
        ['…/bin/spark-submit', '--master', 'yarn', '--deploy-mode', 'client', …, '…/run_keyfold.py', 'run', 'rides']
    """
    check_target(settings.master, settings.conf)
    # Not keyfold.py: Python would import it in place of the package.
    file, properties = folder / "run_keyfold.py", folder / "spark.properties"
    file.write_text(program, encoding="utf-8")
    write_properties(properties, quietly_logged(spark_conf(settings)))
    own = ["--properties-file", str(properties), "--load-spark-defaults"]
    where = ["--master", settings.master, "--deploy-mode", "client", "--name", settings.app_name]
    return [str(spark_submit()), *where, *own, str(file), *arguments]


def spark_submit() -> Path:
    """Return the path of spark-submit: in SPARK_HOME, else in pyspark.

    Raises:
        KeyfoldError: SPARK_HOME has no spark-submit.
    """
    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    if not (launcher := home / "bin" / "spark-submit").is_file():
        raise Misconfigured(
            f"SPARK_HOME is {home}, which has no bin/spark-submit: unset it to use pyspark's, or let it name a Spark 4.2"
        )
    return launcher
