"""`keyfold health`: print how up to date streams and jobs are; the exit code is for the machine's monitoring."""

import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from keyfold.cli.options import DEFAULT_HOME, AsJson, Home, require_known
from keyfold.cli.terminal import failures, print_rows, report
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


@dataclass(frozen=True)
class Standing:
    """How up to date a stream or a job is.

    Attributes:
        name: the stream or job.
        kind: `stream` or `job`.
        state: `ok`; `new`: no run yet; `running`; `stale`: the last run, or the watermark, is too old; `stalled`: a run has
            a batch that should be done by now; `interrupted`: a run failed, or was killed, within a batch; `damaged`: its
            journal cannot be read.
        last_run: when a run last looked for events (job), or committed a batch (stream); None before the first.
        watermark: the job's watermark; None before its first event, and for a stream.
        lag_seconds: time from the watermark to now.
        pending: number of batches that are planned and not committed.
        detail: what is wrong, and what to do.
    """

    name: str
    kind: str
    state: str
    last_run: datetime | None = None
    watermark: datetime | None = None
    lag_seconds: float | None = None
    pending: int = 0
    detail: str = ""


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
    with failures():
        lakehouse = Lakehouse(home)
        check_lakehouse_is_there(lakehouse)
        found = list(standings(lakehouse, names, timedelta(hours=stale_after)))
        free = free_bytes(lakehouse.home)
        if textfile is not None:
            _write_metrics(lakehouse, found, textfile)
        is_well = all(one.state in _WELL for one in found) and (free is None or free >= LEAST_FREE)
        if as_json:
            report({"is_well": is_well, "free_bytes": free, "health": [vars(one) for one in found]}, as_json, "")
        else:
            print_rows("health", [_shown(one) for one in found], _COLUMNS, as_json=False)
            if free is not None:
                full = "" if free >= LEAST_FREE else f": less than {LEAST_FREE / 2**30:g} GiB; make room"
                report({}, as_json, f"disk: {free / 2**30:,.1f} GiB free{full}")
    if not is_well:
        raise typer.Exit(1)


def _write_metrics(lakehouse: Lakehouse, found: Sequence[Standing], file: Path) -> None:
    # Imported late: only this needs Prometheus' library.
    from keyfold.runs.metrics_server import metrics_text  # noqa: PLC0415

    of_kind = {"job": samples_of_job, "stream": samples_of_ingest}
    # A damaged journal has no metrics; the exit code and the table say so.
    samples = [sample for one in found if one.state != "damaged" for sample in of_kind[one.kind](lakehouse, one.name)]
    write_whole(file, metrics_text(samples))
    # The exporter is another user; there are names and counts in it, and no row.
    file.chmod(0o644)


def standings(lakehouse: Lakehouse, names: Iterable[str] | None, stale_after: timedelta) -> Iterator[Standing]:
    """Read how up to date streams and jobs are from their journals; streams first."""
    wanted = set(names) if names else {*project_streams(), *project_jobs()}
    for kind, declared in (("stream", project_streams()), ("job", project_jobs())):
        for name in declared:
            if name not in wanted:
                continue
            try:
                yield (_of_stream if kind == "stream" else _of_job)(lakehouse, name, stale_after)
            except KeyfoldError as error:
                yield Standing(name, kind, "damaged", detail=str(error))


def free_bytes(home: Place) -> int | None:
    """Return the free space on a lakehouse's disk that this user may fill; None for a bucket."""
    folder = local_path(home)
    return None if folder is None else shutil.disk_usage(folder).free


def _of_stream(lakehouse: Lakehouse, name: str, stale_after: timedelta) -> Standing:
    journal, folder = ingest_journal(lakehouse, name), lakehouse.ingest(name)
    running, planned = _work(folder, journal)
    done = journal.last_done()
    last_run, command = done.finished_at if done else None, lakehouse.command("ingest", name)
    return _standing(name, "stream", command, running, planned, last_run, None, stale_after)


def _of_job(lakehouse: Lakehouse, name: str, stale_after: timedelta) -> Standing:
    generation = live_generation(lakehouse, name)
    if generation is None:
        return Standing(name, "job", "running" if is_held(lakehouse.job(name)) else "new")
    running, planned = _work(lakehouse.job(name), generation.journal)
    done, clock, reached = generation.journal.last_done(), generation.clock(), watermark(generation)
    looked = [at for at in (done and done.finished_at, clock and clock.reading.wall) if at]
    reached = reached if reached and reached > BEGINNING else None
    last_run, command = max(looked, default=None), lakehouse.command("run", name)
    return _standing(name, "job", command, running, planned, last_run, reached, stale_after)


def _work(folder: Place, journal: Journal[Any, Any]) -> tuple[bool, Sequence[datetime]]:
    """Whether a run is active, and when its uncommitted batches were planned, oldest first."""
    # Looked at before and after: a run that ends or begins meanwhile is not an interrupted one.
    before = is_held(folder)
    planned = [plan.planned_at for plan in journal.pending()]
    return before or is_held(folder), planned


def _standing(
    name: str,
    kind: str,
    command: str,
    running: bool,
    planned: Sequence[datetime],
    last_run: datetime | None,
    reached: datetime | None,
    stale_after: timedelta,
) -> Standing:
    now = datetime.now(UTC)
    state, detail = "running" if running else "ok" if last_run else "new", ""
    if planned and not running:
        state, detail = "interrupted", f"a run ended within a batch planned {_age(now - planned[0])} ago: `{command}`"
    elif planned and (now - planned[0]).total_seconds() > STALLED:
        state, detail = (
            "stalled",
            f"a batch was planned {_age(now - planned[0])} ago and is not done: see the run's log",
        )
    elif reached and now - reached > stale_after:
        state, detail = "stale", f"the watermark is {_age(now - reached)} behind the clock: are there new events?"
    elif last_run and not running and now - last_run > stale_after:
        what = "new rows were last read" if kind == "stream" else "the last run was"
        state, detail = "stale", f"{what} {_age(now - last_run)} ago: does anything start `{command}`?"
    lag = (now - reached).total_seconds() if reached else None
    return Standing(name, kind, state, last_run, reached, lag, len(planned), detail)


_COLUMNS = ("name", "kind", "state", "last_run", "watermark", "lag", "pending", "detail")


def _shown(one: Standing) -> dict[str, Any]:
    lag = "" if one.lag_seconds is None else _age(timedelta(seconds=one.lag_seconds))
    return vars(one) | {"last_run": _time(one.last_run), "watermark": _time(one.watermark), "lag": lag}


def _time(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def _age(length: timedelta) -> str:
    seconds = length.total_seconds()
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:,.0f} h" if seconds < 172_800 else f"{seconds / 86_400:,.0f} d"
