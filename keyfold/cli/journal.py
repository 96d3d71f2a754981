"""`keyfold journal`: print the last batches of a job or stream."""

from typing import Annotated

import typer

from keyfold.cli.history import history_of
from keyfold.cli.options import DEFAULT_HOME, AsJson, Home
from keyfold.cli.terminal import failures, report
from keyfold.lakehouse import Lakehouse


def journal(
    name: Annotated[str, typer.Argument(metavar="JOB|STREAM", help="The job or stream.")],
    last: Annotated[int, typer.Option(min=1, help="Number of batches.")] = 20,
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Print the last batches of a job or of a stream's ingest, one line each."""
    with failures():
        history = history_of(Lakehouse(home), name, last)
        report(history.as_json(), as_json, "\n".join(history.describe()))
