"""Spark's targets (local, standalone, YARN, Kubernetes): their defaults, and a check of required settings before a start.

This process always holds a job's lock and writes its journal. It is the driver too, except with Spark Connect, whose server is
started, configured and secured by those who run it. Targets differ in where executors come from.
"""

import os
import re
from collections.abc import Mapping
from enum import Enum
from pathlib import Path

from keyfold.errors import Misconfigured
from keyfold.storage.place import Place, local_path

LOOPBACK = "127.0.0.1"

_LOOPBACK_MASTER = re.compile(r"spark://(127\.[\d.]+|localhost):\d+(,(127\.[\d.]+|localhost):\d+)*")

_EXECUTOR_MOUNT = re.compile(r"spark\.kubernetes\.executor\.volumes\.\w+\.[\w-]+\.mount\.path")

_SECRETS = ("spark.authenticate.secret", "spark.authenticate.secret.file")


class Target(Enum):
    """Provider of executors."""

    LOCAL = "local"
    STANDALONE = "standalone"
    YARN = "yarn"
    KUBERNETES = "kubernetes"
    CONNECT = "connect"


def target_of(master: str) -> Target:
    """Return the target of a Spark master URL.

    Example:
        >>> target_of("spark://one:7077"), target_of("k8s://https://api:6443")
        (<Target.STANDALONE: 'standalone'>, <Target.KUBERNETES: 'kubernetes'>)
    """
    if master.startswith("spark://"):
        return Target.STANDALONE
    if master.startswith("k8s://"):
        return Target.KUBERNETES
    if master.startswith("sc://"):
        return Target.CONNECT
    return Target.YARN if master == "yarn" else Target.LOCAL


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


def check_target(
    master: str, conf: Mapping[str, str], home: Place | None = None, environment: Mapping[str, str] = os.environ
) -> None:
    """Check that a target's required settings are given.

    Args:
        master: the Spark master.
        conf: the given settings.
        home: the lakehouse directory, if known.

    Raises:
        KeyfoldError: settings are missing, or contradict Keyfold's guarantees; the message lists all of them.
    """
    if _asks_for_connect(conf, environment):
        raise Misconfigured(
            f"Spark's master is {master}, but SPARK_REMOTE, spark.remote or spark.api.mode ask for Spark Connect: unset them, and "
            "give the server's address as the master (KEYFOLD_SPARK_MASTER=sc://host:15002)"
        )
    target = target_of(master)
    if target in (Target.LOCAL, Target.CONNECT):
        return
    missing = [*_driver(master, conf), *_secret(target, conf)]
    if target is Target.YARN:
        missing += _yarn(conf, environment)
    if target is Target.KUBERNETES:
        missing += _kubernetes(conf, home)
    if missing:
        raise Misconfigured(f"Spark on {master} needs more settings (KEYFOLD_SPARK_CONF): " + "; ".join(missing))


def _asks_for_connect(conf: Mapping[str, str], environment: Mapping[str, str]) -> bool:
    return (
        "spark.remote" in conf
        or conf.get("spark.api.mode", "classic") != "classic"
        or any(environment.get(name) for name in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"))
        or environment.get("SPARK_API_MODE", "classic") != "classic"
    )


def _driver(master: str, conf: Mapping[str, str]) -> list[str]:
    missing: list[str] = []
    if conf.get("spark.submit.deployMode", "client") != "client":
        missing.append(
            "spark.submit.deployMode must be client: the driver is this process, which holds the job's lock and journal"
        )
    if "spark.driver.host" not in conf and not _LOOPBACK_MASTER.fullmatch(master):
        missing.append(
            "spark.driver.host, this machine's address for executors (the driver listens only there, and without it only on "
            "loopback)"
        )
    return missing


def _secret(target: Target, conf: Mapping[str, str]) -> list[str]:
    # On YARN and Kubernetes, Spark generates a secret for each application.
    if target is not Target.STANDALONE or conf.get("spark.authenticate", "true") != "true":
        return []
    if any(name in conf for name in _SECRETS):
        return []
    return [
        "spark.authenticate.secret, the same as on the master and all workers (or spark.authenticate.secret.file, a file that "
        "holds it); or, in a network where everybody may run code on the cluster, spark.authenticate=false"
    ]


def _yarn(conf: Mapping[str, str], environment: Mapping[str, str]) -> list[str]:
    missing: list[str] = []
    folder = environment.get("HADOOP_CONF_DIR") or environment.get("YARN_CONF_DIR")
    if folder is None:
        missing.append("the variable HADOOP_CONF_DIR (or YARN_CONF_DIR), the folder of the cluster's own settings")
    elif not (Path(folder) / "yarn-site.xml").is_file():
        missing.append(f"a yarn-site.xml in {folder}, which HADOOP_CONF_DIR (or YARN_CONF_DIR) names")
    if "://" not in conf.get("spark.yarn.stagingDir", ""):
        missing.append(
            "spark.yarn.stagingDir, a full URL such as hdfs://namenode:8020/user/keyfold: paths without a scheme are on the "
            "lakehouse's mount"
        )
    return missing


def _kubernetes(conf: Mapping[str, str], home: Place | None) -> list[str]:
    missing: list[str] = []
    image = "spark.kubernetes.container.image"
    if image not in conf and "spark.kubernetes.executor.container.image" not in conf:
        missing.append(f"{image}, an image with this Python and the locked packages")
    folder = None if home is None else local_path(home)
    if home is not None and folder is None:
        return missing
    mounts = [Path(path) for name, path in conf.items() if _EXECUTOR_MOUNT.fullmatch(name)]
    volume = "spark.kubernetes.executor.volumes.persistentVolumeClaim.home.mount.path"
    if not mounts:
        missing.append(f"a volume for the lakehouse in executors ({volume} and its options.claimName)")
    elif folder is not None and not any(folder.is_relative_to(mount) for mount in mounts):
        mounted = ", ".join(map(str, mounts))
        missing.append(f"a volume that holds the lakehouse {folder} at the same path ({volume}); mounted are {mounted}")
    return missing
