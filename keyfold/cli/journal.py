"""`keyfold journal`: print the last batches of a job or of a stream's ingest."""

from dataclasses import asdict
from typing import Annotated

import typer

from keyfold.cli.options import known
from keyfold.cli.state_reading import all_jobs
from keyfold.cli.terminal import print_rows
from keyfold.ingestion import ingest_journal
from keyfold.keyed.generation.generations import live_generation
from keyfold.lakehouse import Lakehouse
from keyfold.project import project_if_any


def journal(
    name: Annotated[str, typer.Argument(metavar="JOB|STREAM", help="The job or stream.")],
    lakehouse: Lakehouse,
    last: Annotated[int, typer.Option(min=1, help="Number of batches.")] = 20,
) -> None:
    """Print the last batches of a job or of a stream's ingest. The next run resumes unfinished batches."""
    project, jobs = project_if_any(), all_jobs(lakehouse)
    streams = [*(project.streams if project else ()), *(folder.name for folder in lakehouse.home.glob("ingest/*"))]
    known("job or stream", name, {**jobs, **dict.fromkeys(streams)})
    live = None if name in streams else live_generation(lakehouse, name)
    found = ingest_journal(lakehouse, name) if name in streams else live and live.journal
    batches = [asdict(one) for one in found.history(last)] if found else []
    about = {"name": name, "generation": live and live.name, "pending": len(found.pending()) if found else 0}
    print_rows("batches", batches, ("batch", "planned_at", "seconds", "read", "made"), **about)
