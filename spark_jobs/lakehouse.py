"""The lakehouse: one folder that holds landing files, Delta tables, checkpoints and state.

HOME/landing/<stream>/                       files to ingest
HOME/events/<stream>/                        Delta, append
HOME/quarantine/<stream>/                    Delta, append
HOME/monitoring/<table>/                     Delta: what runs did
HOME/ingest/<stream>/<source>/               checkpoint and counts of one landing folder
HOME/jobs/<job>/current.json                 which generation is live
HOME/jobs/<job>/generation-0001/             generation.json, checkpoint/, ticks/, tables/<table>/
HOME/jobs/<job>/branches/<branch>/           the same, of a replay that never goes live
"""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, Schema

from spark_jobs.errors import KeyfoldError


@dataclass(frozen=True)
class Lakehouse:
    """Paths of everything below one home folder; creates nothing by itself."""

    home: Path

    def __post_init__(self) -> None:
        if "://" in str(self.home):
            raise KeyfoldError(
                f"the lakehouse home {self.home} is a URL; Keyfold needs a folder, on a shared mount for a cluster"
            )
        object.__setattr__(self, "home", Path(self.home).expanduser().resolve())

    def landing(self, stream: str) -> Path:
        """The folder where files of a stream land by default."""
        return self.home / "landing" / stream

    def events(self, stream: str) -> Path:
        """The Delta table of a stream's accepted events."""
        return self.home / "events" / stream

    def quarantine(self, stream: str) -> Path:
        """The Delta table of a stream's rejected rows and files."""
        return self.home / "quarantine" / stream

    def monitoring(self, table: str) -> Path:
        """A Delta table of what runs did."""
        return self.home / "monitoring" / table

    def ingest(self, stream: str) -> Path:
        """The folder that holds one checkpoint and one set of counts for each source of a stream."""
        return self.home / "ingest" / stream

    def job(self, job: str) -> Path:
        """The folder of a keyed job and all its generations."""
        return self.home / "jobs" / job

    def tables(self) -> dict[str, Path]:
        """Every Delta table that exists, by the name `keyfold show` takes; a branch's are `<table>@<branch>`."""
        found = {
            f"{kind}.{path.name}": path
            for kind in ("events", "quarantine", "monitoring")
            for path in sorted((self.home / kind).glob("*"))
        }
        for pointer in sorted(self.home.glob("jobs/*/current.json")):
            tables = pointer.parent / read_json(pointer)["generation"] / "tables"
            found |= {path.name: path for path in sorted(tables.glob("*"))}
        for path in sorted(self.home.glob("jobs/*/branches/*/tables/*")):
            found[f"{path.name}@{path.parents[1].name}"] = path
        return {name: path for name, path in found.items() if path.is_dir() and is_table(path)}

    def table(self, name: str) -> Path:
        """The path of an existing table.

        Raises:
            KeyfoldError: there is no such table; the message lists those there are.
        """
        tables = self.tables()
        if name not in tables:
            there = ", ".join(tables) or "none yet"
            raise KeyfoldError(f"no table {name!r} in {self.home}; tables there: {there}")
        return tables[name]


def is_table(path: Path) -> bool:
    """Whether a Delta table is there; a folder that a killed run left before its table was whole is none."""
    return DeltaTable.is_deltatable(str(path))


def create_table(path: Path, schema: pa.Schema) -> None:
    """Make an empty Delta table, unless there is one; every column may be NULL, as in what Spark appends."""
    nullable = pa.schema([field.with_nullable(True) for field in schema])
    # As often as Spark writes one by default; deltalake would take ten times as many commits.
    checkpoints = {"delta.checkpointInterval": "10"}
    DeltaTable.create(str(path), Schema.from_arrow(nullable), mode="ignore", configuration=checkpoints)


def read_json(path: Path) -> dict[str, Any]:
    """Read a small JSON object."""
    return json.loads(path.read_text(encoding="utf-8"))


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a small JSON object in one atomic step: a reader sees the old one or the new one, whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(content, file, indent=1, sort_keys=True)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


@contextmanager
def exclusive(folder: Path, what: str) -> Iterator[None]:
    """Hold a folder's lock, so that two runs never share a checkpoint; a killed run's lock is freed with it.

    Raises:
        KeyfoldError: another run holds it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "w", encoding="utf-8") as file:
        try:
            flock(file, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            raise KeyfoldError(f"{what} is already running on {folder}; wait for that run or stop it") from None
        yield
