"""`keyfold journal`: what runs read lately, and what came of it."""

from typing import Annotated

import typer

from keyfold.cli.history import history_of
from keyfold.cli.options import DEFAULT_HOME, AsJson, Home
from keyfold.cli.terminal import failures, report
from keyfold.lakehouse import Lakehouse


def journal(
    name: Annotated[str, typer.Argument(metavar="JOB|STREAM", help="Whose journal.")],
    last: Annotated[int, typer.Option(min=1, help="How many batches.")] = 20,
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Print what was planned lately and what came of it, one line a batch."""
    with failures():
        history = history_of(Lakehouse(home), name, last)
        report(history.as_json(), as_json, "\n".join(history.describe()))
