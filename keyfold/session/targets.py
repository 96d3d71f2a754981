"""Spark's targets (local, a cluster, Spark Connect): their defaults, and a check of required settings before a start.

This process always holds a job's lock and writes its journal. It is the driver too, except with Spark Connect, whose server is
started, configured and secured by those who run it. Targets differ in where executors come from.
"""

import os
import re
from collections.abc import Mapping

from keyfold.errors import Misconfigured

LOOPBACK = "127.0.0.1"

_LOOPBACK_MASTER = re.compile(r"spark://(127\.[\d.]+|localhost):\d+(,(127\.[\d.]+|localhost):\d+)*")


def cluster_defaults(master: str, conf: Mapping[str, str]) -> dict[str, str]:
    """Return the default settings of Spark on a cluster.

    Args:
        master: a master that is not local.
        conf: the given settings.
    """
    defaults = {
        # Otherwise anybody who reaches the port of the driver or of an executor could run code there.
        "spark.authenticate": "true",
        # A path without a scheme is on the shared mount, for Spark too, whatever Hadoop's own files say.
        "spark.hadoop.fs.defaultFS": "file:///",
    }
    if conf.get("spark.authenticate", "true") == "true":
        defaults["spark.network.crypto.enabled"] = "true"
    if "spark.driver.host" not in conf:
        # `check_target` allows this only for a master on this machine.
        defaults |= {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
    return defaults


def check_target(master: str, conf: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> None:
    """Check the settings of a target that Spark itself would not miss.

    Args:
        master: the Spark master.
        conf: the given settings.

    Raises:
        KeyfoldError: settings are missing, or contradict Keyfold's guarantees.
    """
    # PySpark itself sets SPARK_REMOTE with the first client of Spark Connect.
    if master.startswith("sc://"):
        return
    if _asks_for_connect(conf, environment):
        raise Misconfigured(
            f"Spark's master is {master}, but SPARK_REMOTE, spark.remote or spark.api.mode ask for Spark Connect: unset them, and "
            "give the server's address as the master (KEYFOLD_SPARK_MASTER=sc://host:15002)"
        )
    if master.startswith("local"):
        return
    where = f"Spark on {master} needs more settings (KEYFOLD_SPARK_CONF)"
    if conf.get("spark.submit.deployMode", "client") != "client":
        raise Misconfigured(
            f"{where}: spark.submit.deployMode must be client: the driver is this process, which holds the job's lock and journal"
        )
    if "spark.driver.host" not in conf and not _LOOPBACK_MASTER.fullmatch(master):
        raise Misconfigured(
            f"{where}: spark.driver.host, this machine's address for executors (the driver listens only there, and without it only "
            "on loopback)"
        )


def _asks_for_connect(conf: Mapping[str, str], environment: Mapping[str, str]) -> bool:
    return (
        "spark.remote" in conf
        or conf.get("spark.api.mode", "classic") != "classic"
        or any(environment.get(name) for name in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"))
        or environment.get("SPARK_API_MODE", "classic") != "classic"
    )
