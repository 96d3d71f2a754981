"""Check that a cluster's worker has the library versions of the driver, which ships `keyfold` to it as a zip.

`import keyfold` imports this module from a zip. It loads none of these libraries before it has compared their versions.
"""

import json
import socket
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from keyfold.errors import Misconfigured

MANIFEST = "keyfold-shipped.json"
"""File in the zip with the driver's versions."""

NEEDED_BY_WORKERS = (
    "confluent-kafka",
    "deltalake",
    "httpx",
    "numpy",
    "obstore",
    "pandas",
    "polars",
    "polars-hash",
    "pyarrow",
    "pydantic",
    "shapely",
    "xxhash",
)
"""Distributions that code in workers imports: another version may compute other results, or fail during a run."""


def versions() -> dict[str, str]:
    """Return the versions of Python and of the distributions that workers need; "none" for one that is not installed."""
    import pyspark  # noqa: PLC0415 - only when it ships or checks

    # On a worker, pyspark is part of Spark, and not an installed distribution.
    numbers = {"Python": f"{sys.version_info.major}.{sys.version_info.minor}", "pyspark": pyspark.__version__}
    for name in NEEDED_BY_WORKERS:
        try:
            numbers[name] = version(name)
        except PackageNotFoundError:
            numbers[name] = "none"
    return numbers


def check_worker(loader: Any) -> None:
    """Check that this worker has the driver's versions.

    Args:
        loader: the loader of `keyfold`, which was shipped as a zip.

    Raises:
        KeyfoldError: some versions differ; names this node and both versions of each.
    """
    shipped = json.loads(loader.get_data(f"{loader.archive}/{MANIFEST}"))
    here = versions()
    others = [
        f"{name} {here.get(name)} here, {wanted} there"
        for name, wanted in shipped["versions"].items()
        if here.get(name) != wanted
    ]
    if others:
        raise Misconfigured(
            f"node {socket.gethostname()} ({sys.executable}) has other versions than the driver on {shipped['driver']}: "
            f"{'; '.join(others)}; give every node the driver's Python and its requirements.lock (docs/reference/cluster.md)"
        )
