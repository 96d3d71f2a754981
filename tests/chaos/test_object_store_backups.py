"""A home in a bucket is checked, backed up and restored by the commands; a restored one is well, and goes on, wherever it is."""

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from keyfold.storage.bucket_path import BucketPath
from keyfold.storage.disk_path import DiskPath
from keyfold.storage.place import to_place
from tests.chaos.conftest import in_short
from tests.chaos.launcher import Command, Launcher
from tests.chaos.story import END, INGEST, TOTALS, WINDOWS, Homes, expected, found, land
from tests.object_store import ObjectStore

Typed = Callable[..., str]

NOTHING = "is_whole: yes"


@pytest.fixture
def typed(launcher: Launcher, object_store: ObjectStore) -> Typed:
    """Types commands on a home, one after the other; gives what they said."""

    def run(home: Path | str, *commands: Command, code: int = 0) -> str:
        ended, run = launcher.run(
            home,
            *commands,
            environment=object_store.environment(),
            hooks=["tests.chaos.hooks:short_leases", "tests.chaos.hooks:whole_runs"],
        )
        assert ended == code, run.said
        return run.said

    return run


def work_on(landed: Path) -> tuple[Command, ...]:
    return ((*INGEST, "--from", str(landed / "landing" / "clicks")), TOTALS, WINDOWS)


def object_of(place: str, *parts: str) -> BucketPath:
    """The last object of a home, or of backups, whose path has these parts."""
    return max(path for path in BucketPath(place).rglob("*") if all(part in str(path) for part in parts))


@pytest.mark.parametrize(
    "places",
    in_short(
        [("a bucket", "a disk", "a bucket")],
        itertools.product(["a bucket", "a disk"], repeat=3),
    ),
)
def test_a_home_is_restored_well_from_wherever_to_wherever_and_goes_on(
    typed: Typed, homes: Homes, bucket: str, tmp_path: DiskPath, places: tuple[str, str, str]
):
    def place(kind: str, name: str) -> str:
        return f"s3a://{bucket}/{name}" if kind == "a bucket" else str(tmp_path / name)

    landed = homes.copy(homes.fresh)
    home, backups, restored = map(place, places, ("home", "backups", "restored"))
    work = work_on(landed)
    said = typed(home, *work, ("check",), ("backup", backups))
    land(landed, 2, 2)
    said += typed(home, *work, ("check",), ("backup", backups))
    first, _ = typed(home, ("restore", backups, "--list")).split()
    said += typed(restored, ("restore", backups, "--at", first), ("check",), *work, END, ("check",))
    assert (said.count(NOTHING), said.count(" new_bytes: ")) == (4, 3)
    assert found(restored) == expected(landed)


def test_damaged_lost_and_older_objects_of_a_home_and_of_its_backup_are_named(typed: Typed, homes: Homes, bucket: str):
    landed, home, backups = homes.copy(homes.fresh), f"s3a://{bucket}/home", f"s3a://{bucket}/backups"
    typed(home, *work_on(landed), ("backup", backups))
    paths = [
        object_of(home, "events/clicks/_delta_log/", ".json"),
        object_of(home, "jobs/totals/", "/journal/", ".done.json"),
        object_of(home, "tables/windows/part-", ".parquet"),
    ]
    before = {path: path.read_bytes() for path in paths}
    entry, record, rows = paths
    entry.write_bytes(before[entry][:-2] + b"??")
    record.unlink()
    # Flipped bits of an object that is there are the store's to find.
    rows.unlink()
    said = typed(home, ("check",), code=1)
    for path, content in before.items():
        # A journal without a commit record does not agree with the tables that have its batch.
        damaged = path.parent if path == record else path
        assert f'"path":"{damaged}"' in said
        path.write_bytes(content)
    assert NOTHING in typed(home, ("check",))
    content = object_of(f"{backups}/content")
    content.write_bytes(content.read_bytes()[:-1] + b"?")
    said = typed(f"s3a://{bucket}/again", ("restore", backups), code=1)
    assert f"{content}, the content of" in said
    assert "restore another backup" in said


def test_a_backup_of_a_bucket_has_what_was_written_again_in_the_same_second_and_size(
    typed: Typed, homes: Homes, bucket: str
):
    home, backups = f"s3a://{bucket}/home", f"s3a://{bucket}/backups"
    file = to_place(f"{home}/landing/clicks/000.ndjson")
    # One of the pairs lies within a second of the store's clock.
    for number in range(8):
        file.write_bytes(b"%d" % number)
        typed(home, ("backup", backups))
        typed(f"{home}-{number}", ("restore", backups))
        assert to_place(f"{home}-{number}/landing/clicks/000.ndjson").read_bytes() == b"%d" % number


def test_what_cannot_be_checked_backed_up_or_restored_says_why(typed: Typed, homes: Homes, bucket: str):
    home, backups = f"s3a://{bucket}/home", f"s3a://{bucket}/backups"
    assert f"there is no lakehouse in {home}" in typed(home, ("check",), code=1)
    assert f"there is no lakehouse in {home}" in typed(home, ("backup", backups), code=1)
    assert f"{backups} has no backup" in typed(home, ("restore", backups), code=1)
    to_place(f"{home}/landing/clicks/000.ndjson").write_bytes(b"{}")
    assert "is inside the lakehouse" in typed(home, ("backup", f"{home}/backups"), code=1)
    assert "has no bucket not-there" in typed(home, ("backup", "s3a://not-there/backups"), code=1)
    assert "has no bucket not-there" in typed("s3a://not-there/home", ("check",), code=1)
    typed(home, ("backup", backups))
    assert f"{home} is not empty" in typed(home, ("restore", backups), code=1)
    assert {file.path.name for file in to_place(home).files_below()} == {"000.ndjson", ".lease"}
