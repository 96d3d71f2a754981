"""Detect that code has changed since a process loaded it."""

import hashlib
from collections.abc import Iterable
from pathlib import Path


def code_state(packages: Iterable[Path]) -> str:
    """Return a digest that differs once a Python file below these folders was changed, added or removed."""
    files = sorted(file for package in packages for file in package.rglob("*.py"))
    # Modification times are faster than content, and each run that attaches computes this.
    return hashlib.sha256(repr([(str(file), file.stat().st_mtime_ns) for file in files]).encode()).hexdigest()
