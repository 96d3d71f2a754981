"""Pack Python packages into a reproducible zip for the workers of a cluster."""

import hashlib
import json
import socket
import zipfile
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path

from keyfold.errors import Misconfigured
from keyfold.session.shipped import MANIFEST, versions

_COMPILED = {".so", ".pyd", ".dylib"}
_LEFT_OUT = {".pyc", ".pyo"}
_DATE = (1980, 1, 1, 0, 0, 0)
"""The earliest date in a zip. All entries get it, so that modification times do not change the zip."""


def zip_packages(names: Iterable[str], folder: Path) -> Path:
    """Write installed packages into a zip that Python can import from.

    The zip's name contains a digest of its content, since Spark refuses a file whose name it knows with other content.

    Args:
        names: top-level packages or modules, by their import names.
        folder: the folder for the zip.

    Raises:
        KeyfoldError: a package is not installed, is not a folder on disk, or has compiled modules, which cannot be imported
            from a zip.
    """
    content = dict(sorted(entry for name in dict.fromkeys(names) for entry in _files(name)))
    # Part of the digest: a driver with other versions makes another zip.
    content[MANIFEST] = json.dumps({"driver": socket.gethostname(), "versions": versions()}).encode()
    digest = hashlib.sha256()
    for name, data in content.items():
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    made = folder / f"keyfold-{digest.hexdigest()[:16]}.zip"
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        # Packages without an __init__.py are found only if the zip has an entry for their folder.
        for entry in sorted({f"{parent}/" for name in content for parent in Path(name).parents if parent.name}):
            archive.writestr(_entry(entry), b"")
        for name, data in content.items():
            archive.writestr(_entry(name), data)
    return made


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _DATE)
    entry.compress_type = zipfile.ZIP_DEFLATED
    # The upper 16 bits hold the Unix mode. A fixed one, so that umask and installer do not change the zip.
    entry.external_attr = (0o755 if name.endswith("/") else 0o644) << 16
    return entry


def _files(name: str) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a package, each with its name in the zip."""
    spec = find_spec(name)
    if spec is None:
        raise Misconfigured(f"the package {name} is to be shipped to Spark's workers, but is not installed here")
    if spec.submodule_search_locations is None:
        if spec.origin is None or not spec.origin.endswith(".py"):
            raise Misconfigured(
                f"{name} is not a Python file or package on disk, and cannot be shipped to Spark's workers"
            )
        yield Path(spec.origin).name, Path(spec.origin).read_bytes()
        return
    for root in map(Path, spec.submodule_search_locations):
        if not root.is_dir():
            raise Misconfigured(f"{name} is in {root}, which is not a folder, and cannot be shipped to Spark's workers")
        for file in sorted(root.rglob("*")):
            if not file.is_file() or file.suffix in _LEFT_OUT or "__pycache__" in file.parts:
                continue
            if file.suffix in _COMPILED:
                raise Misconfigured(
                    f"{file} is compiled, and cannot be imported from a zip: install {name} in the workers' Python "
                    "(docs/reference/cluster.md), and do not ship it"
                )
            yield f"{name}/{file.relative_to(root).as_posix()}", file.read_bytes()
