"""Folders of a home as a person deals with them, on a disk and in a bucket: copied, moved, removed, filled with files."""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import pytest

from keyfold.storage.place import Place, path_below
from spark_jobs.simulation import SimulationSummary, simulate

empty_folder = pytest.mark.on_disk("of a folder without files, which a bucket has not")
"""Of tests in which nothing has landed, in a landing folder that is there."""


def copy_folder(folder: Place, to: Place) -> None:
    """Copy a folder to where none is yet, within its disk or its bucket."""
    if isinstance(folder, Path):
        shutil.copytree(folder, str(to))
        return
    for file in folder.files_below():
        file.path.add_name(to / str(path_below(file.path, folder)))


def remove_folder(folder: Place) -> None:
    """Remove a folder that is there."""
    assert folder.is_dir(), folder
    shutil.rmtree(folder) if isinstance(folder, Path) else folder.remove_tree()


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


def files_that_hold(lakehouse, text):
    """Every file below the home in which a Parquet value, or the text itself, is."""
    found = []
    for path in lakehouse.home.rglob("*"):
        if path.suffix == ".parquet":
            frame = pl.read_parquet(path)
            if any(text in str(value) for row in frame.rows() for value in row):
                found.append(path)
        elif path.is_file() and text.encode() in path.read_bytes():
            found.append(path)
    return found
