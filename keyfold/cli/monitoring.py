"""`keyfold health` and `journal`: print how up to date streams and jobs are, and their last batches."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from keyfold.cli.options import look_up
from keyfold.cli.state_reading import all_jobs
from keyfold.cli.terminal import print_rows
from keyfold.ingestion import ingest_journal
from keyfold.keyed.generation.generations import live_generation
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.presence import check_lakehouse_is_there
from keyfold.project import project_if_any, project_jobs, project_streams
from keyfold.runs.health import STALE, Health, sample
from keyfold.runs.metrics import metrics_of
from keyfold.storage.disk_path import DiskPath

_COLUMNS = ("name", "kind", "state", "last_run", "watermark", "detail")


def health(
    lakehouse: Lakehouse,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="JOB|STREAM", help="The jobs and streams [default: all].")
    ] = None,
    stale_after: Annotated[
        float,
        typer.Option(
            min=0, metavar="HOURS", help="Age of the last run, and of a job's watermark, from which they are stale."
        ),
    ] = STALE / timedelta(hours=1),
    textfile: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.prom",
            help="Write the metrics of these jobs and streams there too, for the node exporter's textfile collector.",
        ),
    ] = None,
) -> None:
    """Print how up to date streams and jobs are, and the free disk space; the exit code is 1 if anything is not well.

    Reads the journals without Spark; runs may continue meanwhile.
    """
    streams, jobs = project_streams(), project_jobs()
    for name in names or ():
        look_up("job or stream", name, {**jobs, **streams})
    check_lakehouse_is_there(lakehouse)
    chosen = names or [*streams, *jobs]
    sampled = sample(
        lakehouse,
        [name for name in streams if name in chosen],
        [name for name in jobs if name in chosen],
        timedelta(hours=stale_after),
    )
    if textfile is not None:
        _write_metrics(sampled, textfile)
    is_well = all(health.is_well for health in sampled)
    rows = [{column: getattr(health, column) for column in _COLUMNS} for health in sampled]
    print_rows("health", rows, _COLUMNS, is_well=is_well)
    if not is_well:
        raise typer.Exit(1)


def journal(
    name: Annotated[str, typer.Argument(metavar="JOB|STREAM", help="The job or stream.")],
    lakehouse: Lakehouse,
    last: Annotated[int, typer.Option(min=1, help="Number of batches.")] = 20,
) -> None:
    """Print the last batches of a job or of a stream's ingest. The next run resumes unfinished batches."""
    project, jobs = project_if_any(), all_jobs(lakehouse)
    streams = [*(project.streams if project else ()), *(folder.name for folder in lakehouse.home.glob("ingest/*"))]
    look_up("job or stream", name, {**jobs, **dict.fromkeys(streams)})
    live = None if name in streams else live_generation(lakehouse, name)
    journal_ = ingest_journal(lakehouse, name) if name in streams else live and live.journal
    batches = [asdict(batch) for batch in journal_.history(last)] if journal_ else []
    about = {"name": name, "generation": live and live.name, "pending": len(journal_.pending()) if journal_ else 0}
    print_rows("batches", batches, ("batch", "planned_at", "seconds", "read", "made"), **about)


def _write_metrics(sampled: Sequence[Health], file: Path) -> None:
    # Imported late: only this needs Prometheus' library.
    from keyfold.runs.metrics_server import metrics_text  # noqa: PLC0415

    # A damaged journal has no metrics; the exit code and the table say so.
    whole = [health for health in sampled if health.state != "damaged"]
    DiskPath(file).write_whole(metrics_text([metric for health in whole for metric in metrics_of(health)]))
    # The exporter is another user; there are names and counts in it, and no row.
    file.chmod(0o644)
