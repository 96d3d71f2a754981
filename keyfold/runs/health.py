"""How well streams and jobs are: one sampler of their journals.

`keyfold health` prints it, the checks of Dagster show it, and `/health` and `/metrics` serve it. Each sample reads the journal, so there are no
separate counters, and a restart loses no count. Whether something is well is decided here alone.
"""

import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from keyfold import ingestion
from keyfold.errors import KeyfoldError, in_few_lines
from keyfold.ingestion.ingest_records import IngestDone
from keyfold.ingestion.landing import landing_folder
from keyfold.ingestion.listing import cannot_be_read, list_files
from keyfold.keyed.generation.batch_records import KeyedDone
from keyfold.keyed.generation.generations import live_generation
from keyfold.keyed.job_run import watermark
from keyfold.lakehouse import Lakehouse
from keyfold.storage.place import Place
from keyfold.times import BEGINNING

STALLED = timedelta(minutes=5)
"""Age of a planned batch without commit record at which its run is stalled, and `/health` answers 503."""

STALE = timedelta(hours=26)
"""How far a watermark may be behind the clock: a daily delivery, and two hours to process it."""

LEAST_FREE = 2**30
"""Bytes; with less on its disk, a lakehouse is not well."""

State = Literal["new", "running", "ok", "stale", "stalled", "interrupted", "damaged", "unreadable", "full"]

_WELL = frozenset({"new", "running", "ok"})


@dataclass(frozen=True)
class Health:
    """How up to date a stream or a job is, or how full the lakehouse's disk.

    Attributes:
        name, kind: which stream, job or disk.
        state: `new`, `running` or `ok`; else it is not well. `stale`: its last run, or its watermark, is too old; `stalled`: a run has a
            batch that should be done by now; `interrupted`: a run failed, or was killed, within a batch; `damaged`: its journal cannot be
            read; `unreadable`: files wait in a landing folder, or in a part of it, that cannot be read; `full`: the disk
            has less than `LEAST_FREE` bytes.
        detail: what is wrong, and what to do; empty if nothing is; of a disk, its free space.
        looked_at: when this was read.
        last_run: when a run last looked for events; of a stream, when it last committed a batch.
        watermark: of a job, after its first event.
        pending: age of the oldest planned batch that is not done.
        done: the commit record of the last batch.
    """

    name: str
    kind: Literal["stream", "job", "disk"]
    state: State
    detail: str
    looked_at: datetime
    last_run: datetime | None = None
    watermark: datetime | None = None
    pending: timedelta | None = None
    done: IngestDone | KeyedDone | None = None

    @property
    def is_well(self) -> bool:
        """Whether nothing needs to be done."""
        return self.state in _WELL

    @property
    def is_stalled(self) -> bool:
        """Whether a batch has been pending for longer than `STALLED`."""
        return self.pending is not None and self.pending > STALLED

    @property
    def behind(self) -> timedelta | None:
        """How far the watermark is behind the clock."""
        return self.watermark and self.looked_at - self.watermark


def sample(
    lakehouse: Lakehouse, streams: Iterable[str], jobs: Iterable[str], stale_after: timedelta = STALE
) -> list[Health]:
    """Read how well streams, jobs and the lakehouse's disk are, in this order; a bucket has no disk.

    A journal that cannot be read is the state `damaged`, with the error as detail. Landing folders on a disk are listed.

    Args:
        stale_after: age of the last run, and of a job's watermark, from which they are stale.
    """
    of_streams = [_or_damaged("stream", health_of_stream, lakehouse, name, stale_after) for name in streams]
    return [
        *(_with_landing(lakehouse, health) for health in of_streams),
        *(_or_damaged("job", health_of_job, lakehouse, name, stale_after) for name in jobs),
        *_health_of_disk(lakehouse),
    ]


def health_of_job(
    lakehouse: Lakehouse, job: str, stale_after: timedelta = STALE, now: datetime | None = None
) -> Health:
    """Read how up to date a job is.

    Args:
        stale_after: age of the last run, and of the watermark, from which the job is stale.
        now: the time to compare with; by default the clock's.

    Raises:
        KeyfoldError: the journal is damaged.
    """
    generation, now = live_generation(lakehouse, job), now or datetime.now(UTC)
    if generation is None:
        return Health(job, "job", "running" if lakehouse.job(job).is_held() else "new", "", now)
    last, clock, last_watermark = generation.journal.last_done(), generation.clock(), watermark(generation)
    health = Health(
        job,
        "job",
        "new",
        "",
        now,
        last_run=max((at for at in (last and last.finished_at, clock and clock.reading.wall) if at), default=None),
        # The first watermark is in the year 1.
        watermark=last_watermark if last_watermark and last_watermark > BEGINNING else None,
        done=last,
    )
    command = lakehouse.command("run", job)
    return _judged(health, lakehouse.job(job), generation.journal.pending, "the last run was", command, stale_after)


def health_of_stream(
    lakehouse: Lakehouse, stream: str, stale_after: timedelta = STALE, now: datetime | None = None
) -> Health:
    """Read how up to date the ingest of a stream is.

    Args:
        stale_after: age of the last batch from which the stream is stale.
        now: the time to compare with; by default the clock's.

    Raises:
        KeyfoldError: the journal is damaged.
    """
    journal, now = ingestion.ingest_journal(lakehouse, stream), now or datetime.now(UTC)
    last, command = journal.last_done(), lakehouse.command("ingest", stream)
    health = Health(stream, "stream", "new", "", now, last_run=last and last.finished_at, done=last)
    return _judged(health, lakehouse.ingest(stream), journal.pending, "new rows were last read", command, stale_after)


def free_bytes(home: Place) -> int | None:
    """Return the free space on a lakehouse's disk that this user may fill; None for a bucket."""
    folder = home.local_path
    return None if folder is None else shutil.disk_usage(folder).free


def age_text(length: timedelta) -> str:
    """Write an age to the second: `1 day, 3:00:00`."""
    return str(timedelta(seconds=round(length.total_seconds())))


def _health_of_disk(lakehouse: Lakehouse) -> list[Health]:
    if (free := free_bytes(lakehouse.home)) is None:
        return []
    remedy = "" if free >= LEAST_FREE else f", less than {LEAST_FREE / 2**30:g}: make room"
    detail = f"{free / 2**30:,.1f} GiB free{remedy}"
    return [Health("disk", "disk", "full" if remedy else "ok", detail, datetime.now(UTC))]


def _or_damaged(
    kind: Literal["stream", "job"],
    read: Callable[[Lakehouse, str, timedelta], Health],
    lakehouse: Lakehouse,
    name: str,
    stale_after: timedelta,
) -> Health:
    try:
        return read(lakehouse, name, stale_after)
    except KeyfoldError as error:
        return Health(name, kind, "damaged", str(error), datetime.now(UTC))


def _with_landing(lakehouse: Lakehouse, health: Health) -> Health:
    """Add to a stream's health what of its landing folder on a disk ingest cannot read; this lists the folder."""
    landing = landing_folder(lakehouse, health.name)
    if landing.local_path is None:
        return health
    try:
        listing = list_files(landing)
    except FileNotFoundError:
        return health
    except OSError as error:
        return replace(health, state="unreadable", detail=str(cannot_be_read(landing, error)))
    faults = in_few_lines([f"{landing / path} {fault}" for path, fault in listing.faults.items()], "entries")
    state = "unreadable" if listing.unreadable and health.is_well else health.state
    return replace(health, state=state, detail="; ".join(filter(None, (health.detail, *faults))))


def _judged(
    health: Health,
    folder: Place,
    plans: Callable[[], Sequence[Any]],
    ran: str,
    command: str,
    stale_after: timedelta,
) -> Health:
    """Add the age of the oldest pending batch, the state, and what to do."""
    # Looked at before and after: a run that ends or begins meanwhile is not an interrupted one.
    running, planned = folder.is_held(), [plan.planned_at for plan in plans()]
    running = running or folder.is_held()
    # A batch may have been planned since the health was looked at.
    pending = max(health.looked_at - planned[0], timedelta(0)) if planned else None
    health = replace(health, state="running" if running else "ok" if health.last_run else "new", pending=pending)
    since_run = health.last_run and health.looked_at - health.last_run
    if pending is not None and not running:
        detail = f"a run ended within a batch planned {age_text(pending)} ago: `{command}`"
        return replace(health, state="interrupted", detail=detail)
    if pending is not None and health.is_stalled:
        detail = f"a batch was planned {age_text(pending)} ago and is not done: see the run's log"
        return replace(health, state="stalled", detail=detail)
    if health.behind and health.behind > stale_after:
        detail = f"the watermark is {age_text(health.behind)} behind the clock: are there new events?"
        return replace(health, state="stale", detail=detail)
    if since_run and not running and since_run > stale_after:
        detail = f"{ran} {age_text(since_run)} ago: does anything start `{command}`?"
        return replace(health, state="stale", detail=detail)
    return health
