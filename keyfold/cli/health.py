"""`keyfold health`: print how up to date streams and jobs are; the exit code is for the machine's monitoring."""

import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from keyfold.cli.options import DEFAULT_HOME, AsJson, Home, require_known
from keyfold.cli.terminal import print_rows, report
from keyfold.errors import KeyfoldError
from keyfold.ingestion import ingest_journal
from keyfold.journal import Journal
from keyfold.keyed.generation.generations import live_generation
from keyfold.keyed.runner import watermark
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.files import is_held, write_whole
from keyfold.lakehouse.presence import check_lakehouse_is_there
from keyfold.project import project_jobs, project_streams
from keyfold.runs.health import STALE, STALLED, samples_of_ingest, samples_of_job
from keyfold.storage.place import Place, local_path
from keyfold.times import BEGINNING

LEAST_FREE = 2**30
"""Bytes; with less on its disk, a lakehouse is not well."""

_WELL = frozenset({"ok", "new", "running"})
"""The other states of a stream or job are `stale`: its last run, or its watermark, is too old; `stalled`: a run has a batch that should
be done by now; `interrupted`: a run failed, or was killed, within a batch; `damaged`: its journal cannot be read."""

_COLUMNS = ("name", "kind", "state", "last_run", "watermark", "detail")


def health(
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
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Print how up to date streams and jobs are, and the free disk space; the exit code is 1 if anything is not well.

    Reads the journals without Spark; runs may continue meanwhile.
    """
    for name in names or ():
        require_known("job or stream", name, [*project_jobs(), *project_streams()])
    lakehouse = Lakehouse(home)
    check_lakehouse_is_there(lakehouse)
    found = list(standings(lakehouse, names, timedelta(hours=stale_after)))
    if textfile is not None:
        _write_metrics(lakehouse, found, textfile)
    free = free_bytes(lakehouse.home)
    has_space = free is None or free >= LEAST_FREE
    is_well = has_space and all(one["state"] in _WELL for one in found)
    print_rows("health", found, _COLUMNS, as_json=as_json, is_well=is_well, free_bytes=free)
    if free is not None and not as_json:
        full = "" if has_space else f": less than {LEAST_FREE / 2**30:g} GiB; make room"
        report({}, as_json, f"disk: {free / 2**30:,.1f} GiB free{full}")
    if not is_well:
        raise typer.Exit(1)


def _write_metrics(lakehouse: Lakehouse, found: Sequence[Mapping[str, Any]], file: Path) -> None:
    # Imported late: only this needs Prometheus' library.
    from keyfold.runs.metrics_server import metrics_text  # noqa: PLC0415

    of_kind = {"job": samples_of_job, "stream": samples_of_ingest}
    # A damaged journal has no metrics; the exit code and the table say so.
    whole = [one for one in found if one["state"] != "damaged"]
    write_whole(file, metrics_text([each for one in whole for each in of_kind[one["kind"]](lakehouse, one["name"])]))
    # The exporter is another user; there are names and counts in it, and no row.
    file.chmod(0o644)


def standings(
    lakehouse: Lakehouse, names: Collection[str] | None, stale_after: timedelta
) -> Iterator[Mapping[str, Any]]:
    """Read how up to date streams and jobs are from their journals, streams first.

    Returns:
        For each its name, kind, state, `last_run` (when a run last looked for events; of a stream, when it committed a batch),
        `watermark` of a job, and as detail what is wrong and what to do.
    """
    for kind, declared, read in (("stream", project_streams(), _stream), ("job", project_jobs(), _job)):
        for name in declared:
            if names and name not in names:
                continue
            last_run, watermark = None, None
            try:
                last_run, watermark, state, detail = read(lakehouse, name, stale_after)
            except KeyfoldError as error:
                state, detail = "damaged", str(error)
            yield dict(zip(_COLUMNS, (name, kind, state, last_run, watermark, detail), strict=True))


def free_bytes(home: Place) -> int | None:
    """Return the free space on a lakehouse's disk that this user may fill; None for a bucket."""
    folder = local_path(home)
    return None if folder is None else shutil.disk_usage(folder).free


_Found = tuple[datetime | None, datetime | None, str, str]
"""Last run, watermark, state, detail."""


def _stream(lakehouse: Lakehouse, name: str, stale_after: timedelta) -> _Found:
    journal = ingest_journal(lakehouse, name)
    work, done = _work(lakehouse.ingest(name), journal), journal.last_done()
    last_run = done.finished_at if done else None
    ran = ("new rows were last read", lakehouse.command("ingest", name))
    return last_run, None, *_judged(*work, last_run, None, ran, stale_after)


def _job(lakehouse: Lakehouse, name: str, stale_after: timedelta) -> _Found:
    generation = live_generation(lakehouse, name)
    if generation is None:
        return None, None, "running" if is_held(lakehouse.job(name)) else "new", ""
    work, done = _work(lakehouse.job(name), generation.journal), generation.journal.last_done()
    clock, reached = generation.clock(), watermark(generation)
    last_run = max((at for at in (done and done.finished_at, clock and clock.reading.wall) if at), default=None)
    reached = reached if reached and reached > BEGINNING else None
    ran = ("the last run was", lakehouse.command("run", name))
    return last_run, reached, *_judged(*work, last_run, reached, ran, stale_after)


def _work(folder: Place, journal: Journal[Any, Any]) -> tuple[bool, Sequence[datetime]]:
    """Whether a run is active, and when its uncommitted batches were planned, oldest first."""
    # Looked at before and after: a run that ends or begins meanwhile is not an interrupted one.
    before = is_held(folder)
    planned = [plan.planned_at for plan in journal.pending()]
    return before or is_held(folder), planned


def _judged(
    running: bool,
    planned: Sequence[datetime],
    last_run: datetime | None,
    reached: datetime | None,
    ran: tuple[str, str],
    stale_after: timedelta,
) -> tuple[str, str]:
    """Return the state of a stream or job, and what to do."""
    now, (what, command) = datetime.now(UTC), ran
    if planned and not running:
        return "interrupted", f"a run ended within a batch planned {_age(now - planned[0])} ago: `{command}`"
    if planned and (now - planned[0]).total_seconds() > STALLED:
        return "stalled", f"a batch was planned {_age(now - planned[0])} ago and is not done: see the run's log"
    if reached and now - reached > stale_after:
        return "stale", f"the watermark is {_age(now - reached)} behind the clock: are there new events?"
    if last_run and not running and now - last_run > stale_after:
        return "stale", f"{what} {_age(now - last_run)} ago: does anything start `{command}`?"
    return "running" if running else "ok" if last_run else "new", ""


def _age(length: timedelta) -> str:
    return str(timedelta(seconds=round(length.total_seconds())))
