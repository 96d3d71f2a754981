"""The command that runs a Python program under spark-submit, in client mode, with all settings in a file."""

import os
from collections.abc import Sequence
from pathlib import Path

import pyspark

from keyfold.errors import Misconfigured
from keyfold.session.gateway import quietly_logged, write_properties
from keyfold.session.settings import SparkSettings, spark_conf
from keyfold.session.targets import check_target


def submit_command(settings: SparkSettings, program: str, arguments: Sequence[str], folder: Path) -> list[str]:
    """The command that runs a program under spark-submit; no setting stands in it, since secrets may be among them.

    Args:
        settings: of the session, which go to a file of mode 0600.
        program: Python code; the session that it builds with the same settings is the one that is submitted.
        arguments: of the program.
        folder: of this user alone; the file and the program are written there, and must stay until the command ends.

    Raises:
        KeyfoldError: the target wants more settings, or there is no spark-submit.

    Example:
        >>> submit_command(SparkSettings(master="yarn", conf=conf), "…", ["run", "rides"], folder)  # doctest: +SKIP
        ['…/bin/spark-submit', '--master', 'yarn', '--deploy-mode', 'client', …, '…/run_keyfold.py', 'run', 'rides']
    """
    check_target(settings.master, settings.conf)
    # Not keyfold.py: its folder comes first where Python looks for packages.
    file, properties = folder / "run_keyfold.py", folder / "spark.properties"
    file.write_text(program, encoding="utf-8")
    write_properties(properties, quietly_logged(spark_conf(settings)))
    own = ["--properties-file", str(properties), "--load-spark-defaults"]
    where = ["--master", settings.master, "--deploy-mode", "client", "--name", settings.app_name]
    return [str(spark_submit()), *where, *own, str(file), *arguments]


def spark_submit() -> Path:
    """Spark's own launcher: SPARK_HOME's, or else the one that pyspark brings.

    Raises:
        KeyfoldError: SPARK_HOME has none.
    """
    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    if not (launcher := home / "bin" / "spark-submit").is_file():
        raise Misconfigured(
            f"SPARK_HOME is {home}, which has no bin/spark-submit: unset it, and pyspark's own is taken, or name a Spark 4.2"
        )
    return launcher
