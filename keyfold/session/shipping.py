"""Python packages as one zip for a cluster's workers: the same bytes from the same files."""

import hashlib
import json
import socket
import zipfile
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path

from keyfold.errors import Misconfigured
from keyfold.shipped import MANIFEST, versions

_COMPILED = {".so", ".pyd", ".dylib"}
_LEFT_OUT = {".pyc", ".pyo"}
_DATE = (1980, 1, 1, 0, 0, 0)
"""The earliest that a zip can say; times of change are not content."""


def zip_packages(names: Iterable[str], folder: Path) -> Path:
    """Write installed packages into a zip that Python can import from.

    Its name tells its content: workers keep files by their names, and another content under a known name is an error to
    Spark.

    Args:
        names: top-level packages or modules, as they are imported.
        folder: where the zip goes.

    Raises:
        KeyfoldError: one is not installed, is no folder on disk, or holds compiled modules, which cannot be imported from
            a zip.
    """
    content = dict(sorted(entry for name in dict.fromkeys(names) for entry in _files(name)))
    # Last among what is hashed: of another driver's versions it is another zip.
    content[MANIFEST] = json.dumps({"driver": socket.gethostname(), "versions": versions()}).encode()
    digest = hashlib.sha256()
    for name, data in content.items():
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    made = folder / f"keyfold-{digest.hexdigest()[:16]}.zip"
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        # A package without an __init__.py is found by its folder's own entry alone.
        for entry in sorted({f"{parent}/" for name in content for parent in Path(name).parents if parent.name}):
            archive.writestr(_entry(entry), b"")
        for name, data in content.items():
            archive.writestr(_entry(name), data)
    return made


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _DATE)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = (0o755 if name.endswith("/") else 0o644) << 16
    return entry


def _files(name: str) -> Iterator[tuple[str, bytes]]:
    """The files of a package by their names in the zip."""
    spec = find_spec(name)
    if spec is None:
        raise Misconfigured(f"the package {name}, which is to go to Spark's workers, is not installed here")
    if spec.submodule_search_locations is None:
        if spec.origin is None or not spec.origin.endswith(".py"):
            raise Misconfigured(
                f"{name} is no Python file or package on disk, and cannot be shipped to Spark's workers"
            )
        yield Path(spec.origin).name, Path(spec.origin).read_bytes()
        return
    for root in map(Path, spec.submodule_search_locations):
        if not root.is_dir():
            raise Misconfigured(f"{name} is in {root}, which is no folder, and cannot be shipped to Spark's workers")
        for file in sorted(root.rglob("*")):
            if not file.is_file() or file.suffix in _LEFT_OUT or "__pycache__" in file.parts:
                continue
            if file.suffix in _COMPILED:
                raise Misconfigured(
                    f"{file} is compiled, and cannot be imported from a zip: have {name} in the workers' own Python "
                    "(docs/reference/cluster.md), and do not ship it"
                )
            yield f"{name}/{file.relative_to(root).as_posix()}", file.read_bytes()
