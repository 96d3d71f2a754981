"""Ship Python packages to the workers of a cluster, in a zip that they import from."""

import json
import os
import socket
import zipfile
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from uuid import uuid4

from keyfold.errors import Misconfigured
from keyfold.project import project_packages
from keyfold.session.shipped import MANIFEST, versions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COMPILED = {".so", ".pyd", ".dylib"}

_READ_BY_WORKERS = ("KEYFOLD_ENRICHMENT_", "KEYFOLD_KAFKA_", "AWS_", "GOOGLE_", "AZURE_", "AZURITE_")
"""Prefixes of variables that code in workers reads. On one machine, workers inherit them."""


def ship(session: "SparkSession", names: tuple[str, ...]) -> None:
    """Ship packages to the workers of a cluster, and variables with every task.

    Args:
        session: the session.
        names: packages besides `keyfold` and the project's own.

    Raises:
        KeyfoldError: as `packed`.
    """
    session.sparkContext.addPyFile(str(packed(names)))
    session.sparkContext.environment.update(
        {name: value for name, value in os.environ.items() if name.startswith(_READ_BY_WORKERS)}
    )


@cache
def packed(names: tuple[str, ...]) -> Path:
    """Return a zip of `keyfold`, the project's packages and others; the same for all sessions of this process.

    Spark puts it on this process's path too, where a second look would find the packages in it.

    Raises:
        KeyfoldError: a package is not installed, is not a folder on disk, or has compiled modules, which cannot be imported
            from a zip.
    """
    # As long as the process: Spark serves the file to executors that start later.
    folder = TemporaryDirectory(prefix="keyfold-")
    _FOLDERS.append(folder)
    content = dict(entry for name in ("keyfold", *project_packages(), *names) for entry in _files(name))
    content[MANIFEST] = json.dumps({"driver": socket.gethostname(), "versions": versions()}).encode()
    # A name of its own: Spark refuses a file whose name it knows with other content.
    archive = Path(folder.name) / f"keyfold-{uuid4().hex}.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
        # Packages without an __init__.py are found only if the zip has an entry for their folder.
        for parent in sorted({parent for name in content for parent in Path(name).parents if parent.name}):
            zipped.mkdir(parent.as_posix())
        for name, data in content.items():
            zipped.writestr(name, data)
    return archive


_FOLDERS: list[TemporaryDirectory[str]] = []


def _files(name: str) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a package, each with its name in the zip."""
    spec = find_spec(name)
    if spec is None:
        raise Misconfigured(
            f"the package {name} is to be shipped to Spark's workers, but is not installed here: install it, or take it out of KEYFOLD_SPARK_SHIP"
        )
    roots = [Path(location) for location in spec.submodule_search_locations or ()]
    if (not roots and (spec.origin is None or not spec.origin.endswith(".py"))) or not all(map(Path.is_dir, roots)):
        raise Misconfigured(
            f"{name} is not a Python file or package on disk, and cannot be shipped to Spark's workers: install it in their Python, and take it out of KEYFOLD_SPARK_SHIP"
        )
    if not roots:
        yield Path(str(spec.origin)).name, Path(str(spec.origin)).read_bytes()
    for root in roots:
        for file in sorted(root.rglob("*")):
            if not file.is_file() or "__pycache__" in file.parts:
                continue
            if file.suffix in _COMPILED:
                raise Misconfigured(
                    f"{file} is compiled, and cannot be imported from a zip: install {name} in the workers' Python "
                    "(docs/reference/cluster.md), and do not ship it"
                )
            yield f"{name}/{file.relative_to(root).as_posix()}", file.read_bytes()
