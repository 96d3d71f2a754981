"""Where everything of the lakehouse lies: one folder that holds landing files, Delta tables, journals and state.

HOME is a folder of a file system, or of an object store: s3a://BUCKET/FOLDER.

HOME/landing/<stream>/                       files to ingest
HOME/events/<stream>/                        Delta, append
HOME/quarantine/<stream>/                    Delta, append
HOME/monitoring/<table>/                     Delta: what runs did
HOME/open/<job>/                             Delta: the keys that are open, as of when it was written
HOME/ingest/<stream>/                        ingest.json, journal/, files/ (those that were read), ids/ (those that were seen)
HOME/aside/<stream>-<time>/                  what a rebuild of a stream's tables has put aside: delete it yourself
HOME/jobs/<job>/current.json                 which generation is live (`pointers`)
HOME/jobs/<job>/together-<id>.json           while generations of several jobs go live together: that they do
HOME/jobs/<job>/generation-0001/             generation.json, journal/, checkpoint/, tables/<table>/
HOME/jobs/<job>/branches/<branch>/           the same, of a replay beside the live one
"""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from keyfold.errors import Misconfigured, NotFound
from keyfold.lakehouse.files import read_json
from keyfold.lakehouse.pointers import as_decided
from keyfold.lakehouse.tables import is_table
from keyfold.storage.object_path import ObjectPath
from keyfold.storage.place import Place, to_place

_TAKEN_FOR_A_URL = "since Delta's own library takes that for a part of a URL and looks for another; name it otherwise"


@dataclass(frozen=True, init=False)
class Lakehouse:
    """Paths of everything below one home folder; creates nothing by itself.

    Attributes:
        home: the folder.
        ahead: jobs, each with the generation that is taken for its live one (`seeing`).

    Example:
        >>> Lakehouse("s3a://lake/home").events("rides")
        ObjectPath('s3a://lake/home/events/rides')
    """

    home: Place
    ahead: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __init__(self, home: Place | str) -> None:
        """Whose home is a folder: a path, or the text `s3a://BUCKET/FOLDER`.

        Raises:
            Misconfigured: it is a URL of something else, or of a folder that Delta's library does not find.
        """
        place = to_place(home)
        # Delta's library takes some characters for parts of a URL, Spark's reader of state others for what they are escaped to.
        if isinstance(place, ObjectPath) and quote(place.key, safe="/+=") != place.key:
            raise Misconfigured(
                f"the lakehouse home {home}: in a bucket its path must be of letters, digits and . _ - ~ + = alone, since Delta's "
                "own library and Spark look for others under other names; name it otherwise"
            )
        if isinstance(place, Path):
            if re.search(r"%[0-9A-Fa-f]{2}|\\", str(place)):
                raise Misconfigured(
                    f"the lakehouse home {home} must be without \\ and without % before two digits, {_TAKEN_FOR_A_URL}"
                )
            # Whole paths: Spark's workers and Dagster's processes need not stand in the folder that a relative one
            # begins at.
            place = place.expanduser().resolve()
        object.__setattr__(self, "home", place)
        object.__setattr__(self, "ahead", {})

    def seeing(self, generations: Mapping[str, str]) -> "Lakehouse":
        """The same, where these generations of jobs are taken for the live ones: for what is built on them before they are."""
        found = Lakehouse(self.home)
        object.__setattr__(found, "ahead", dict(generations))
        return found

    def landing(self, stream: str) -> Place:
        """The folder where files of a stream land by default."""
        return self.home / "landing" / stream

    def events(self, stream: str) -> Place:
        """The Delta table of a stream's accepted events."""
        return self.home / "events" / stream

    def quarantine(self, stream: str) -> Place:
        """The Delta table of a stream's rejected rows and files."""
        return self.home / "quarantine" / stream

    def monitoring(self, table: str) -> Place:
        """A Delta table of what runs did."""
        return self.home / "monitoring" / table

    def open_state(self, job: str) -> Place:
        """The Delta table of a job's open keys, as they were when it was last written."""
        return self.home / "open" / job

    def ingest(self, stream: str) -> Place:
        """The folder of a stream's ingest journal and of the ids that it has seen."""
        return self.home / "ingest" / stream

    def job(self, job: str) -> Place:
        """The folder of a keyed job and all its generations."""
        return self.home / "jobs" / job

    def command(self, *words: str) -> str:
        """A command for this lakehouse as a person types it, whatever environment and folder he is in.

        Example:
            >>> Lakehouse(Path("/data/my house")).command("run", "rides", "--full-refresh")
            "keyfold run rides --full-refresh --home '/data/my house'"
        """
        return shlex.join(["keyfold", *words, "--home", str(self.home)])

    def tables(self) -> dict[str, Place]:
        """Every Delta table that exists, by the name `keyfold show` takes; a branch's are `<table>@<branch>`."""
        found = {
            f"{kind}.{path.name}": path
            for kind in ("events", "quarantine", "monitoring", "open")
            for path in sorted((self.home / kind).glob("*"))
        }
        for pointer in sorted(self.home.glob("jobs/*/current.json")):
            live = as_decided(pointer, read_json(pointer)) or {}
            tables = pointer.parent / self.ahead.get(pointer.parent.name, live.get("generation", "")) / "tables"
            found |= {path.name: path for path in sorted(tables.glob("*"))}
        for path in sorted(self.home.glob("jobs/*/branches/*/tables/*")):
            found[f"{path.name}@{path.parents[1].name}"] = path
        return {name: path for name, path in found.items() if path.is_dir() and is_table(path)}

    def table(self, name: str) -> Place:
        """The path of an existing table.

        Raises:
            NotFound: there is no such table; the message lists those there are.
        """
        tables = self.tables()
        if name not in tables:
            there = ", ".join(tables) or "none yet"
            raise NotFound(f"no table {name!r} in {self.home}; tables there: {there}")
        return tables[name]
