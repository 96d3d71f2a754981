"""`keyfold check`, `keyfold backup` and `keyfold restore`: verify a lakehouse, back it up and restore it."""

from dataclasses import asdict
from typing import Annotated

import typer

from keyfold.cli.options import DEFAULT_HOME, AsJson, Home
from keyfold.cli.terminal import report
from keyfold.lakehouse import Lakehouse
from keyfold.maintenance.backup import back_up, backups_in
from keyfold.maintenance.backup import restore as restore_backup
from keyfold.maintenance.checking import check as check_lakehouse
from keyfold.storage.place import to_place

_Backups = Annotated[str, typer.Argument(metavar="BACKUPS", help="Folder of the backups, on a disk or in a bucket.")]


def check(home: Home = DEFAULT_HOME, as_json: AsJson = False) -> None:
    """Verify the journals, tables, data files and state of a lakehouse without Spark; report damage and its remedy.

    Every file is read and compared with the checksums in the journals. Runs may continue meanwhile. The exit code is 1 if
    anything is damaged.
    """
    findings = [asdict(one) for one in check_lakehouse(Lakehouse(home))]
    is_whole = not any(one["is_damage"] for one in findings)
    report({"is_whole": is_whole, "findings": findings}, as_json)
    if not is_whole:
        raise typer.Exit(1)


def backup(
    to: _Backups,
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Make a consistent, incremental backup of the lakehouse; runs may continue meanwhile."""
    made = back_up(Lakehouse(home), to_place(to))
    report(asdict(made), as_json)


def restore(
    source: _Backups,
    at: Annotated[str | None, typer.Option(metavar="NAME", help="Name of the backup [default: the newest].")] = None,
    only_list: Annotated[bool, typer.Option("--list", help="List the backups and restore nothing.")] = False,
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Restore a backup to an empty lakehouse directory; the next runs continue from it."""
    if only_list:
        names = backups_in(to_place(source))
        report({"backups": names}, as_json, "\n".join(names) or f"no backup in {source}")
        return
    made = restore_backup(to_place(source), Lakehouse(home), at)
    report(asdict(made), as_json)
