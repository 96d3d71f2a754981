"""`keyfold check`: whether a lakehouse is whole."""

from dataclasses import asdict

import typer

from keyfold.cli.options import DEFAULT_HOME, AsJson, Home
from keyfold.cli.terminal import failures, report
from keyfold.lakehouse import Lakehouse
from keyfold.maintenance.checking import check as check_lakehouse


def check(home: Home = DEFAULT_HOME, as_json: AsJson = False) -> None:
    """Verify a whole lakehouse without Spark: journals, tables, data files, state; name what is damaged, and the remedy.

    Everything is read and compared with the checksums that the journals keep. Runs may go on meanwhile. Exit code 1 where
    something is damaged.
    """
    with failures():
        found = check_lakehouse(Lakehouse(home))
        report(asdict(found) | {"is_whole": found.is_whole}, as_json, "\n".join(found.describe()))
    if not found.is_whole:
        raise typer.Exit(1)
