"""`keyfold health`: print how up to date streams and jobs are; the exit code is for the machine's monitoring."""

import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from keyfold.cli.options import known
from keyfold.cli.terminal import print_rows
from keyfold.errors import KeyfoldError, in_few_lines
from keyfold.ingestion import ingest_journal
from keyfold.ingestion.landing import landing_folder
from keyfold.ingestion.listing import cannot_be_read, list_files
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
be done by now; `interrupted`: a run failed, or was killed, within a batch; `damaged`: its journal cannot be read; `unreadable`: files
wait in a landing folder, or in a part of it, that cannot be read. A disk can be `full`."""

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
    found = list(standings(lakehouse, names, timedelta(hours=stale_after)))
    if textfile is not None:
        _write_metrics(lakehouse, found, textfile)
    if (free := free_bytes(lakehouse.home)) is not None:
        detail = f"{free / 2**30:,.1f} GiB free"
        state = (
            ("ok", detail) if free >= LEAST_FREE else ("full", f"{detail}, less than {LEAST_FREE / 2**30:g}: make room")
        )
        found.append(dict(zip(_COLUMNS, ("disk", "disk", state[0], None, None, state[1]), strict=True)))
    is_well = all(one["state"] in _WELL for one in found)
    print_rows("health", found, _COLUMNS, is_well=is_well)
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
    for kind, declared, look in (("stream", project_streams(), _stream), ("job", project_jobs(), _job)):
        for name in [one for one in declared if not names or one in names]:
            try:
                found = look(lakehouse, name, stale_after)
            except KeyfoldError as error:
                found = "damaged", None, None, str(error)
            yield dict(zip(_COLUMNS, (name, kind, *found), strict=True))


def free_bytes(home: Place) -> int | None:
    """Return the free space on a lakehouse's disk that this user may fill; None for a bucket."""
    folder = local_path(home)
    return None if folder is None else shutil.disk_usage(folder).free


_Found = tuple[str, datetime | None, datetime | None, str]
"""State, last run, watermark, detail."""


def _stream(lakehouse: Lakehouse, name: str, stale_after: timedelta) -> _Found:
    journal, ran = ingest_journal(lakehouse, name), ("new rows were last read", lakehouse.command("ingest", name))
    done = journal.last_done()
    found = _judged(lakehouse.ingest(name), journal, done and done.finished_at, None, ran, stale_after)
    return _with_landing(landing_folder(lakehouse, name), found)


def _with_landing(landing: Place, found: _Found) -> _Found:
    """Add what of a landing folder on a disk ingest cannot read."""
    if local_path(landing) is None:
        return found
    state, last_run, reached, detail = found
    try:
        listing = list_files(landing)
    except FileNotFoundError:
        return found
    except OSError as error:
        return "unreadable", last_run, reached, str(cannot_be_read(landing, error))
    if listing.unreadable and state in _WELL:
        state = "unreadable"
    faults = in_few_lines([f"{landing / path} {what}" for path, what in listing.faults.items()], "entries")
    return state, last_run, reached, "; ".join(filter(None, (detail, *faults)))


def _job(lakehouse: Lakehouse, name: str, stale_after: timedelta) -> _Found:
    generation, ran = live_generation(lakehouse, name), ("the last run was", lakehouse.command("run", name))
    if generation is None:
        return "running" if is_held(lakehouse.job(name)) else "new", None, None, ""
    done, clock, reached = generation.journal.last_done(), generation.clock(), watermark(generation)
    last_run = max((at for at in (done and done.finished_at, clock and clock.reading.wall) if at), default=None)
    reached = reached if reached and reached > BEGINNING else None
    return _judged(lakehouse.job(name), generation.journal, last_run, reached, ran, stale_after)


def _judged(
    folder: Place,
    journal: Journal[Any, Any],
    last_run: datetime | None,
    reached: datetime | None,
    ran: tuple[str, str],
    stale_after: timedelta,
) -> _Found:
    """Return the state of a stream or job, and what to do."""
    # Looked at before and after: a run that ends or begins meanwhile is not an interrupted one.
    running, planned, now = is_held(folder), [plan.planned_at for plan in journal.pending()], datetime.now(UTC)
    running = running or is_held(folder)
    state, detail = "running" if running else "ok" if last_run else "new", ""
    if planned and not running:
        state, detail = "interrupted", f"a run ended within a batch planned {_age(now - planned[0])} ago: `{ran[1]}`"
    elif planned and (now - planned[0]).total_seconds() > STALLED:
        state, detail = (
            "stalled",
            f"a batch was planned {_age(now - planned[0])} ago and is not done: see the run's log",
        )
    elif reached and now - reached > stale_after:
        state, detail = "stale", f"the watermark is {_age(now - reached)} behind the clock: are there new events?"
    elif last_run and not running and now - last_run > stale_after:
        state, detail = "stale", f"{ran[0]} {_age(now - last_run)} ago: does anything start `{ran[1]}`?"
    return state, last_run, reached, detail


def _age(length: timedelta) -> str:
    return str(timedelta(seconds=round(length.total_seconds())))
