"""Paths of the lakehouse directory, which holds landing files, Delta tables, journals and state.

HOME is a folder on a disk, or in a bucket.

HOME/landing/<stream>/                       files to ingest
HOME/events/<stream>/                        Delta, append
HOME/quarantine/<stream>/                    Delta, append
HOME/monitoring/<table>/                     Delta: what runs did
HOME/ingest/<stream>/                        ingest.json, journal/, files/ (files read), ids/ (event ids seen)
HOME/aside/<stream>-<time>/                  the old tables of a rebuilt stream: delete them yourself
HOME/aside/<stream>-corrected/               corrected events, while `keyfold correct` shows what would differ
HOME/rewrites/<id>.json                      a call that changes events, until all that follows from it is done
HOME/backup/                                 the lock of a running backup
HOME/live.json                               which generation of each job is live (`live_record`)
HOME/tables/<table>/                         Delta: the live tables of jobs
HOME/jobs/<job>/generation-0001/             generation.json, journal/, state/; tables/<table>/ until it is live
HOME/jobs/<job>/branches/<branch>/           the same for a branch, such as a replay, with tables of its own
"""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
from deltalake import DeltaTable, Schema

from keyfold.columns import COMMENT, describe
from keyfold.errors import Misconfigured, NotFound
from keyfold.storage.place import Place, to_place


@dataclass(frozen=True, init=False)
class Lakehouse:
    """Paths of everything below a lakehouse directory. Creates nothing.

    Attributes:
        home: the lakehouse directory.
        ahead: generations of jobs to use instead of the live ones (`seeing`).
        beside: event tables to use instead of the streams' own.
        source: the lakehouse whose events and tables jobs read, while they write to this one; None for this one (`reading`).

    Example:
        >>> Lakehouse("s3a://lake/home").events("rides")
        BucketPath('s3a://lake/home/events/rides')
    """

    home: Place
    ahead: Mapping[str, str] = field(default_factory=dict, hash=False)
    beside: Mapping[str, Place] = field(default_factory=dict, hash=False)
    source: "Lakehouse | None" = None

    def __init__(self, home: Path | Place | str) -> None:
        """Check the lakehouse directory.

        Args:
            home: a path, or the URL of a folder in a bucket, such as `s3://BUCKET/FOLDER`.

        Raises:
            Misconfigured: the URL has another scheme, or the path has characters that Delta's library or Spark misread.
        """
        # The dataclass is frozen, so its own __init__ must bypass the check.
        object.__setattr__(self, "home", _home_of(home))
        object.__setattr__(self, "ahead", {})
        object.__setattr__(self, "beside", {})
        object.__setattr__(self, "source", None)

    def seeing(self, generations: Mapping[str, str], events: Mapping[str, Place] | None = None) -> "Lakehouse":
        """Return a copy that uses these generations of jobs as the live ones, and these tables as the event tables of streams."""
        copy = Lakehouse(self.home)
        object.__setattr__(copy, "ahead", dict(generations))
        object.__setattr__(copy, "beside", dict(self.beside if events is None else events))
        object.__setattr__(copy, "source", self.source)
        return copy

    def reading(self, source: "Lakehouse") -> "Lakehouse":
        """Return a copy whose jobs read events and tables of another lakehouse, which stays as it is, and write to this one.

        Example:
            >>> Lakehouse("/tmp/trials").reading(Lakehouse("/data/copy")).source_of().home.name
            'copy'
        """
        copy = self.seeing(self.ahead)
        object.__setattr__(copy, "source", source)
        return copy

    def source_of(self, producer: str | None = None) -> "Lakehouse":
        """Return the lakehouse from which jobs read the tables of a producer, or events."""
        return self if self.source is None or producer in self.ahead else self.source

    def landing(self, stream: str) -> Place:
        """Return the default landing folder of a stream's files."""
        return self.home / "landing" / stream

    def events(self, stream: str) -> Place:
        """Return the Delta table of a stream's accepted events."""
        return self.beside.get(stream) or self.home / "events" / stream

    def quarantine(self, stream: str) -> Place:
        """Return the Delta table of a stream's rejected rows and files."""
        return self.home / "quarantine" / stream

    def monitoring(self, table: str) -> Place:
        """Return a Delta table about runs."""
        return self.home / "monitoring" / table

    def ingest(self, stream: str) -> Place:
        """Return the folder of a stream's ingest journal and of the event ids seen."""
        return self.home / "ingest" / stream

    def job(self, job: str) -> Place:
        """Return the folder of a keyed job and all its generations."""
        return self.home / "jobs" / job

    @property
    def backup(self) -> Place:
        """Return the folder whose lock a running backup holds."""
        return self.home / "backup"

    @property
    def rewrites(self) -> Place:
        """Return the folder of the records of calls that change events, until they are finished."""
        return self.home / "rewrites"

    def live_table(self, table: str) -> Place:
        """Return the address of a job's table, which stays the same whatever generation fills it."""
        return self.home / "tables" / table

    def command(self, *words: str) -> str:
        """Return a `keyfold` command for this lakehouse that works in any shell and working directory.

        Example:
            >>> from pathlib import Path
            >>> Lakehouse(Path("/data/my house")).command("run", "rides", "--full-refresh")
            "keyfold run rides --full-refresh --home '/data/my house'"
        """
        return shlex.join(["keyfold", *words, "--home", str(self.home)])

    def tables(self) -> dict[str, Place]:
        """Return all existing Delta tables by the name that `keyfold show` takes. Those of a branch are `<table>@<branch>`."""
        named = {
            f"{kind}.{path.name}": path
            for kind in ("events", "quarantine", "monitoring")
            for path in sorted((self.home / kind).glob("*"))
        }
        named |= {path.name: path for path in sorted((self.home / "tables").glob("*"))}
        for path in sorted(self.home.glob("jobs/*/branches/*/tables/*")):
            named[f"{path.name}@{path.parents[1].name}"] = path
        return {name: path for name, path in named.items() if path.is_dir() and is_table(path)}

    def table(self, name: str) -> Place:
        """Return the path of an existing table.

        Raises:
            NotFound: there is no such table; the message lists the tables.
        """
        tables = self.tables()
        if name not in tables:
            there = ", ".join(tables) or "none yet"
            raise NotFound(f"no table {name!r} in {self.home}; tables there: {there}")
        return tables[name]


def is_table(path: Place) -> bool:
    """Whether a folder holds a Delta table. A folder whose table was not yet committed when a run was killed does not."""
    # The first entry, which most tables still have, since Delta's library lists the whole log, which may be long.
    return (path / "_delta_log" / f"{0:020d}.json").exists() or DeltaTable.is_deltatable(str(path))


def create_table(path: Place, schema: pa.Schema, *, is_read_by_version: bool = False) -> str:
    """Create an empty Delta table, if there is none, and return its id. All columns are nullable, as Spark appends them so.

    The descriptions of the schema's columns (`keyfold.columns`) become column comments.

    Args:
        path: the table's folder.
        schema: its columns.
        is_read_by_version: whether jobs read the table's changes by version. Delta then does not delete log entries by age;
            maintenance deletes those that no job still has to read.
    """
    # Spark's default number of commits between log checkpoints; that of deltalake is ten times as large.
    properties = {"delta.checkpointInterval": "10"}
    if is_read_by_version:
        properties["delta.enableExpiredLogCleanup"] = "false"
    return str(
        DeltaTable.create(str(path), table_schema(schema), mode="ignore", configuration=properties).metadata().id
    )


def table_schema(schema: pa.Schema) -> Schema:
    """Return the Delta schema of Arrow columns: all nullable, with their comments."""
    return Schema.from_arrow(pa.schema([_as_in_delta(field) for field in schema]))


def table_id(path: Place) -> str:
    """Return the id that Delta gave a table when it was created."""
    return str(DeltaTable(str(path)).metadata().id)


def _as_in_delta(field: pa.Field) -> pa.Field:
    comment = describe(field)
    # Only the comment: programs read units and origins from the declaration.
    return field.with_nullable(True).with_metadata({COMMENT: comment.encode()} if comment else {})


def _home_of(text: Path | Place | str) -> Place:
    """Check a lakehouse directory, and make its path absolute: Delta's library and Spark must open the same one.

    Raises:
        Misconfigured: the URL has another scheme, or the path has characters that Delta's library or Spark misread.
    """
    place = to_place(text)
    if (path := place.local_path) is not None:
        if re.search(r"%[0-9A-Fa-f]{2}|\\", str(path)):
            raise Misconfigured(
                f"the lakehouse directory {text} must not contain \\ or % before two hexadecimal digits, since Delta's library "
                "decodes it as part of a URL and opens another folder; choose another name"
            )
        # Absolute, since Spark's workers and Dagster's processes may run in other working directories.
        return path.expanduser().resolve()
    # Delta's library decodes some characters as parts of a URL, and Spark's state reader escapes others.
    key = "/".join(place.parts)
    if quote(key, safe="/+=") != key:
        raise Misconfigured(
            f"the lakehouse directory {text}: in a bucket its path must be of letters, digits and . _ - ~ + = only, since "
            "Delta's library and Spark misread other characters; choose another name"
        )
    return place
