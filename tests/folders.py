"""Folders of a home as a person deals with them, on a disk and in a bucket: copied, moved, removed, filled with files."""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from spark_jobs.objects.object_path import ObjectPath
from spark_jobs.objects.place import Place
from spark_jobs.simulation import SimulationSummary, simulate


def copy_folder(folder: Place, to: Place) -> None:
    """Copy a folder to where none is yet, within its disk or its bucket."""
    if isinstance(folder, ObjectPath) and isinstance(to, ObjectPath):
        for path, _ in folder.below():
            path.copy_to(to / path.relative_to(folder))
    else:
        shutil.copytree(str(folder), str(to))


def remove_folder(folder: Place) -> None:
    """Remove a folder that is there."""
    if isinstance(folder, ObjectPath):
        assert folder.is_dir(), folder
        folder.remove_tree()
    else:
        shutil.rmtree(folder)


def move_folder(folder: Place, to: Place) -> None:
    """Move a folder to where none is yet; in a bucket it is copied, and removed where it was."""
    if isinstance(folder, Path) and isinstance(to, Path):
        folder.rename(to)
    else:
        copy_folder(folder, to)
        remove_folder(folder)


def simulate_into(landing: Place, stream: str, **options: Any) -> SimulationSummary:
    """Simulate a stream's files into a landing folder, wherever that is."""
    if isinstance(landing, Path):
        return simulate(stream, landing, **options)
    with TemporaryDirectory() as folder:
        made = simulate(stream, Path(folder), **options)
        for file in Path(folder).iterdir():
            (landing / file.name).write_bytes(file.read_bytes())
    return made
