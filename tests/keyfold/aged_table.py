"""An event table that is made older, and maintained."""

import json
import os
from pathlib import Path

import pytest
from deltalake import CommitProperties, Transaction, write_deltalake

from keyfold.journal.sealed import sealed, unsealed
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.positions import Position, position_at
from keyfold.maintenance import Maintained, MaintainedTable, maintain
from keyfold.storage.disk_path import DiskPath
from keyfold.storage.place import to_place
from tests.shop import clicks

DAY = 86_400
EVENTS = "events.clicks"


@pytest.fixture
def table(lakehouse: Lakehouse) -> DiskPath:
    lakehouse.events("clicks").mkdir(parents=True)
    return DiskPath(str(lakehouse.events("clicks")))


def care(lakehouse: Lakehouse, table: DiskPath, **settings) -> Maintained:
    return maintain(lakehouse, MaintainedTable(EVENTS, table, **{"time": "at", **settings}))


def append(table: DiskPath, *minutes: int) -> None:
    for minute in minutes:
        write_deltalake(
            str(table),
            clicks(("ann", minute)),
            mode="append",
            commit_properties=CommitProperties(app_transactions=[Transaction("ingest", minute)]),
        )


def grow_old(table: DiskPath, days: float) -> None:
    """Make all that was done to a table so many days older."""
    records = list(table.parents[1].glob("jobs/*/*/journal/*.json"))
    for log in (table / "_delta_log").glob("*.json"):
        before = position_of(log)
        actions = [json.loads(line) for line in log.read_text().splitlines()]
        for action in actions:
            for name, key in (("commitInfo", "timestamp"), ("remove", "deletionTimestamp")):
                if name in action:
                    action[name][key] -= int(days * DAY * 1000)
        log.write_text("".join(json.dumps(action) + "\n" for action in actions))
        for record in records:
            content, number = unsealed(record.read_bytes())
            after = position_of(log).digest.encode()
            record.write_bytes(sealed(content.replace(before.digest.encode(), after), number))
    for file in table.rglob("*.parquet"):
        touch(file, file.stat().st_mtime - days * DAY)


def position_of(log: Path) -> Position:
    return position_at(to_place(log.parents[1]), int(log.stem))


def touch(file: Path, at: float) -> None:
    os.utime(file, (at, at))
