"""A copy of the project to write into: its packages and settings, with the environment of the original."""

import os
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_FOLDERS = ("keyfold", "spark_jobs", "assets", "expectations", "dagster_project")
_FILES = ("pyproject.toml", "workspace.yaml")


def copy_project(into: Path) -> Path:
    """Copy what runs, some 3 MB; `.venv` is a link."""
    for name in _FOLDERS:
        # With what Python has compiled: else every process of a copy compiles all of it anew.
        shutil.copytree(ROOT / name, into / name)
    for name in _FILES:
        shutil.copy(ROOT / name, into / name)
    # Ruff tells by its folders which imports are the project's own.
    (into / "benchmarks").mkdir()
    (into / ".venv").symlink_to(ROOT / ".venv")
    return into


def environment_of(project: Path, **more: str) -> dict[str, str]:
    """The environment of a shell in a copy: its code comes before the original's, which .venv points to."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KEYFOLD_", "DAGSTER_"))}
    path = f"{project}/.venv/bin:{os.environ['PATH']}"
    venv = str(project / ".venv")
    return (
        kept
        | {"PATH": path, "PYTHONPATH": str(project), "VIRTUAL_ENV": venv, "DAGSTER_DISABLE_TELEMETRY": "yes"}
        | more
    )
