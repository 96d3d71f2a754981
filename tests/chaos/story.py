"""What faults come to: clicks that land in files, are ingested, and worked on by two jobs; and how the outcome is counted.

What should be there DuckDB says, from the landing files; what is there the tables say.
"""

import json
import shutil
from collections import Counter
from pathlib import Path

import duckdb
from deltalake import DeltaTable

from keyfold.lakehouse import Lakehouse
from keyfold.storage.place import Place
from tests.chaos.launcher import Command, Launcher
from tests.chaos.tally import Rows

INGEST = ("ingest", "clicks", "--settle", "0")
TOTALS, WINDOWS = ("run", "totals"), ("run", "windows")
END = ("run", "windows", "--advance-to", "2024-06-01T00:00:00Z")
"""Closes every window."""

WORK = (INGEST, TOTALS, WINDOWS)
TO_THE_END = (*WORK, END)

_USERS = ("ann", "bob", "cat", "dan", "eve")
_MINUTES_A_FILE = 40

_CLICKS = """
    CREATE TABLE click AS SELECT DISTINCT "user" AS who, "at" AS moment
    FROM read_json(?, format = 'newline_delimited', ignore_errors = true,
                   columns = {'user': 'VARCHAR', 'at': 'TIMESTAMPTZ', 'clicks': 'BIGINT'})
    WHERE "user" IS NOT NULL AND "at" IS NOT NULL AND clicks IS NOT NULL
"""
_TABLES = {
    "events": "SELECT who, strftime(moment, '%Y-%m-%d %H:%M'), 1 FROM click",
    "totals": "SELECT who, count(*), 1 FROM click GROUP BY 1",
    "changes": "SELECT who, NULL, count(*) FROM click GROUP BY 1",
    "windows": "SELECT who, strftime(time_bucket(INTERVAL 10 MINUTE, moment), '%Y-%m-%d %H:%M'), count(*) FROM click "
    "GROUP BY 1, 2",
}


def land(home: Path, first: int, files: int, *, lines: int = 12) -> None:
    """Write files of clicks, each of later minutes than those before; a copy and a line that is no click in each."""
    landing = home / "landing" / "clicks"
    landing.mkdir(parents=True, exist_ok=True)
    for number in range(first, first + files):
        told = []
        for index in range(lines):
            minute = number * _MINUTES_A_FILE + index * 2
            at = f"2024-01-{1 + minute // 1440:02}T{minute // 60 % 24:02}:{minute % 60:02}:00Z"
            told.append(json.dumps({"user": _USERS[(index * 7 + number) % len(_USERS)], "at": at, "clicks": 1}))
        told.insert(3, told[0])
        told.insert(5, f'{{"user": "mal", "at": "{number}')
        (landing / f"{number:03}.ndjson").write_text("".join(f"{line}\n" for line in told))


def moment(minute: int) -> str:
    """A minute of a day that `land` leaves free."""
    return f"2024-02-01T{minute // 60:02}:{minute % 60:02}:00Z"


def click(user: str, minute: int) -> str:
    """A line with a click."""
    return json.dumps({"user": user, "at": moment(minute), "clicks": 1}) + "\n"


def expected(home: Path) -> Rows:
    """What the tables should hold, by DuckDB, from the landing files."""
    duck = duckdb.connect()
    duck.execute("SET TimeZone = 'UTC'")
    files = str(home / "landing" / "clicks" / "**" / "*.ndjson*")
    duck.execute(_CLICKS, [files])
    rejected = sum(path.read_text().count('"mal"') for path in (home / "landing" / "clicks").rglob("*.ndjson"))
    rows: Rows = Counter({("quarantine",): rejected})
    for table, query in _TABLES.items():
        for who, what, count in duck.execute(query).fetchall():
            rows[table, who, what] += count
    duck.close()
    return rows


def found(home: Path | str) -> Rows:
    """What the tables hold, of a folder or of a home in an object store: rows of `totals`, else clicks added up."""
    lakehouse = Lakehouse(home)
    rows: Rows = Counter({("quarantine",): len(rows_of(lakehouse.quarantine("clicks")))})
    for row in rows_of(lakehouse.events("clicks")):
        rows["events", row["user"], f"{row['at']:%Y-%m-%d %H:%M}"] += 1
    for row in rows_of(lakehouse.table("totals")):
        rows["totals", row["user"], row["clicks"]] += 1
    for row in rows_of(lakehouse.table("changes")):
        rows["changes", row["user"], None] += row["clicks"]
    for row in rows_of(lakehouse.table("windows")):
        rows["windows", row["user"], f"{row['window']:%Y-%m-%d %H:%M}"] += row["clicks"]
    # A click that came late is lost to its window.
    for row in rows_of(lakehouse.table("late.windows")):
        rows["late", row["user"], f"{row['at']:%Y-%m-%d %H:%M}"] += 1
    return rows


def unreadable(home: Path) -> list[str]:
    """Which tables are there and cannot be read, `ingest` for those of ingest, `jobs` for those of jobs."""
    lakehouse = Lakehouse(home)
    told = []
    for owner, tables in (
        ("ingest", (lakehouse.events("clicks"), lakehouse.quarantine("clicks"))),
        ("jobs", tuple(map(lakehouse.table, ("totals", "changes", "windows", "late.windows")))),
    ):
        for table in tables:
            try:
                rows_of(table)
            except Exception:
                told.append(owner)
                break
    return told


def rows_of(table: Place) -> list[dict]:
    """The rows of a table."""
    return DeltaTable(str(table)).to_pyarrow_table().to_pylist()


class Homes:
    """Lakehouses in which the same has happened so far, to be copied and broken.

    Attributes:
        fresh: clicks have landed, and nothing has run.
        running: two files have been worked on, two more have landed.
    """

    def __init__(self, launcher: Launcher, folder: Path) -> None:
        self.fresh, self.running = folder / "fresh", folder / "running"
        self._launcher, self._folder, self._count = launcher, folder, 0
        self._prepared: dict[tuple[Path, tuple[Command, ...]], Path] = {}
        land(self.fresh, 0, 2)
        land(self.running, 0, 2)
        self.work(self.running, *WORK)
        land(self.running, 2, 2)

    def after(self, of: Path, *commands: Command) -> Path:
        """A copy of one in which commands have run; made once, and not to be changed."""
        if (of, commands) not in self._prepared:
            self._prepared[of, commands] = self.copy(of)
            self.work(self._prepared[of, commands], *commands)
        return self._prepared[of, commands]

    def copy(self, of: Path) -> Path:
        """Another one like it, to be broken."""
        self._count += 1
        return shutil.copytree(of, self._folder / f"home-{self._count}", symlinks=True)

    def work(self, home: Path, *commands: Command) -> None:
        """Run commands that must go well."""
        code, run = self._launcher.run(home, *commands)
        assert code == 0, run.said
