"""`keyfold check`: verify a lakehouse."""

from dataclasses import asdict

import typer

from keyfold.cli.options import DEFAULT_HOME, AsJson, Home
from keyfold.cli.terminal import failures, report
from keyfold.lakehouse import Lakehouse
from keyfold.maintenance.checking import check as check_lakehouse


def check(home: Home = DEFAULT_HOME, as_json: AsJson = False) -> None:
    """Verify the journals, tables, data files and state of a lakehouse without Spark; report damage and its remedy.

    Every file is read and compared with the checksums in the journals. Runs may continue meanwhile. The exit code is 1 if
    anything is damaged.
    """
    with failures():
        found = check_lakehouse(Lakehouse(home))
        report(asdict(found) | {"is_whole": found.is_whole}, as_json, "\n".join(found.describe()))
    if not found.is_whole:
        raise typer.Exit(1)
