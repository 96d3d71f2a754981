"""Whether code has changed since a process loaded it."""

import hashlib
from collections.abc import Iterable
from pathlib import Path


def code_state(packages: Iterable[Path]) -> str:
    """A text that is another one once a Python file below these folders has changed, come or gone."""
    files = sorted(file for package in packages for file in package.rglob("*.py"))
    # By times and not by content: it is asked for at every attachment.
    return hashlib.sha256(repr([(str(file), file.stat().st_mtime_ns) for file in files]).encode()).hexdigest()
