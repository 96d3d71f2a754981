"""`keyfold check`, `keyfold backup` and `keyfold restore`: verify a lakehouse, back it up and restore it."""

from dataclasses import asdict
from typing import Annotated

import typer

from keyfold.cli.terminal import report
from keyfold.lakehouse import Lakehouse
from keyfold.maintenance import backup as backups
from keyfold.maintenance import checking
from keyfold.storage.place import to_place

_Backups = Annotated[str, typer.Argument(metavar="BACKUPS", help="Folder of the backups, on a disk or in a bucket.")]


def check(lakehouse: Lakehouse) -> None:
    """Verify that journals, tables and state of a lakehouse agree and are complete; report damage and its remedy.

    Records and logs are read; data files and state must be there, with their sizes. Runs may continue meanwhile. The exit code
    is 1 if anything is damaged.
    """
    findings = checking.check(lakehouse)
    is_whole = not any(finding.is_damage for finding in findings)
    report({"is_whole": is_whole}, findings=[asdict(finding) for finding in findings])
    if not is_whole:
        raise typer.Exit(1)


def backup(to: _Backups, lakehouse: Lakehouse) -> None:
    """Make a consistent, incremental backup of the lakehouse; runs may continue meanwhile."""
    report(backups.back_up(lakehouse, to_place(to)))


def restore(
    source: _Backups,
    lakehouse: Lakehouse,
    at: Annotated[str | None, typer.Option(metavar="NAME", help="Name of the backup [default: the newest].")] = None,
    only_list: Annotated[bool, typer.Option("--list", help="List the backups and restore nothing.")] = False,
) -> None:
    """Restore a backup to an empty lakehouse directory; the next runs continue from it."""
    if only_list:
        names = backups.backups_in(to_place(source))
        report({"backups": names}, "\n".join(names) or f"no backup in {source}")
    else:
        report(backups.restore(to_place(source), lakehouse, at))
