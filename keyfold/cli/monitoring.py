"""`keyfold health` and `journal`: print how up to date streams and jobs are, and their last batches."""

import shutil
from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from keyfold.cli.options import known
from keyfold.cli.state_reading import all_jobs
from keyfold.cli.terminal import print_rows
from keyfold.ingestion import ingest_journal
from keyfold.keyed.generation.generations import live_generation
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.files import write_whole
from keyfold.lakehouse.presence import check_lakehouse_is_there
from keyfold.project import project_if_any, project_jobs, project_streams
from keyfold.runs.health import STALE, Health, health_or_damage, with_landing
from keyfold.runs.metrics import metrics_of
from keyfold.storage.place import Place, local_path

LEAST_FREE = 2**30
"""Bytes; with less on its disk, a lakehouse is not well."""

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
    for name in names or ():
        known("job or stream", name, {**project_jobs(), **project_streams()})
    check_lakehouse_is_there(lakehouse)
    sampled = sample(lakehouse, names, timedelta(hours=stale_after))
    if textfile is not None:
        _write_metrics(sampled, textfile)
    rows = [{column: getattr(health, column) for column in _COLUMNS} for health in sampled]
    is_well = all(health.is_well for health in sampled)
    if (free := free_bytes(lakehouse.home)) is not None:
        detail, has_room = f"{free / 2**30:,.1f} GiB free", free >= LEAST_FREE
        state = "ok" if has_room else "full"
        detail += "" if has_room else f", less than {LEAST_FREE / 2**30:g}: make room"
        rows.append(dict(zip(_COLUMNS, ("disk", "disk", state, None, None, detail), strict=True)))
        is_well = is_well and has_room
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
    known("job or stream", name, {**jobs, **dict.fromkeys(streams)})
    live = None if name in streams else live_generation(lakehouse, name)
    found = ingest_journal(lakehouse, name) if name in streams else live and live.journal
    batches = [asdict(one) for one in found.history(last)] if found else []
    about = {"name": name, "generation": live and live.name, "pending": len(found.pending()) if found else 0}
    print_rows("batches", batches, ("batch", "planned_at", "seconds", "read", "made"), **about)


def sample(lakehouse: Lakehouse, names: Sequence[str] | None, stale_after: timedelta) -> list[Health]:
    """Read how up to date the project's streams and jobs are, or those of some names; streams first."""
    streams = [name for name in project_streams() if not names or name in names]
    jobs = [name for name in project_jobs() if not names or name in names]
    of_streams = [health_or_damage("stream", lakehouse, name, stale_after) for name in streams]
    return [
        *(with_landing(lakehouse, health) for health in of_streams),
        *(health_or_damage("job", lakehouse, name, stale_after) for name in jobs),
    ]


def free_bytes(home: Place) -> int | None:
    """Return the free space on a lakehouse's disk that this user may fill; None for a bucket."""
    folder = local_path(home)
    return None if folder is None else shutil.disk_usage(folder).free


def _write_metrics(sampled: Sequence[Health], file: Path) -> None:
    # Imported late: only this needs Prometheus' library.
    from keyfold.runs.metrics_server import metrics_text  # noqa: PLC0415

    # A damaged journal has no metrics; the exit code and the table say so.
    whole = [health for health in sampled if health.state != "damaged"]
    write_whole(file, metrics_text([metric for health in whole for metric in metrics_of(health)]))
    # The exporter is another user; there are names and counts in it, and no row.
    file.chmod(0o644)
