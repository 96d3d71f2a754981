"""`keyfold journal`: what runs read lately, and what came of it."""

from typing import Annotated

import typer

from spark_jobs.cli.history import history_of
from spark_jobs.cli.options import DEFAULT_HOME, AsJson, Home
from spark_jobs.cli.terminal import failures, report
from spark_jobs.jobs.registry import JOBS
from spark_jobs.lakehouse import Lakehouse
from spark_jobs.streams import STREAMS


def journal(
    name: Annotated[str, typer.Argument(metavar="JOB|STREAM", help="Whose journal.")],
    last: Annotated[int, typer.Option(min=1, help="How many batches.")] = 20,
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Print what was planned lately and what came of it, one line a batch."""
    if name not in JOBS and name not in STREAMS:
        raise typer.BadParameter(f"no job and no stream {name!r}; there are {', '.join([*JOBS, *STREAMS])}")
    with failures():
        history = history_of(Lakehouse(home), name, last)
        report(history.as_json(), as_json, "\n".join(history.describe()))
