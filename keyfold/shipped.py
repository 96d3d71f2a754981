"""On a cluster's worker: whether it is fit for the packages that the driver has shipped to it.

Imported wherever `keyfold` is: it loads nothing unless that came as a zip.
"""

import sys
from typing import Any

from keyfold.errors import Misconfigured

MANIFEST = "keyfold-shipped.json"
"""In the zip: the versions of the driver."""

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
"""Distributions that code in workers imports: another version would answer otherwise, or fail in the middle of a run."""


def versions() -> dict[str, str]:
    """Versions of this process's Python and of what workers need; "none" where something is not installed."""
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - only where it is asked for

    import pyspark  # noqa: PLC0415

    # Spark's own comes with Spark on a worker, and not as a distribution.
    found = {"Python": f"{sys.version_info.major}.{sys.version_info.minor}", "pyspark": pyspark.__version__}
    for name in NEEDED_BY_WORKERS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "none"
    return found


def check_worker(loader: Any) -> None:
    """See that this process has the versions of the driver that has shipped the package to it; nothing elsewhere.

    Args:
        loader: that has loaded `keyfold`.

    Raises:
        KeyfoldError: some differ; names this node and both versions of each.
    """
    if type(loader).__name__ != "zipimporter":
        return
    import json  # noqa: PLC0415 - only on a worker
    import socket  # noqa: PLC0415

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
