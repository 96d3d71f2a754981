"""How well streams and jobs are: one sampler of their journals.

`keyfold health` prints it, the checks of Dagster judge it, and `/health` and `/metrics` serve it. Each sample reads the journal, so there are no
separate counters, and a restart loses no count.
"""

from collections.abc import Callable, Sequence
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
from keyfold.lakehouse.files import is_held
from keyfold.storage.place import Place, local_path
from keyfold.times import BEGINNING

STALLED = timedelta(minutes=5)
"""Age of a planned batch without commit record at which its run is stalled, and `/health` answers 503."""

STALE = timedelta(hours=26)
"""How far a watermark may be behind the clock: a daily delivery, and two hours to process it."""

State = Literal["new", "running", "ok", "stale", "stalled", "interrupted", "damaged", "unreadable"]

_WELL = frozenset({"new", "running", "ok"})


@dataclass(frozen=True)
class Health:
    """How up to date a stream or a job is.

    Attributes:
        name, kind: which stream or job.
        state: `new`, `running` or `ok`; else it is not well. `stale`: its last run, or its watermark, is too old; `stalled`: a run has a
            batch that should be done by now; `interrupted`: a run failed, or was killed, within a batch; `damaged`: its journal cannot be
            read; `unreadable`: files wait in a landing folder, or in a part of it, that cannot be read.
        detail: what is wrong, and what to do; empty if nothing is.
        looked_at: when this was read.
        last_run: when a run last looked for events; of a stream, when it last committed a batch.
        watermark: of a job, after its first event.
        pending: age of the oldest planned batch that is not done.
        done: the commit record of the last batch.
    """

    name: str
    kind: Literal["stream", "job"]
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
    def behind(self) -> timedelta | None:
        """How far the watermark is behind the clock."""
        return self.watermark and self.looked_at - self.watermark


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
        return Health(job, "job", "running" if is_held(lakehouse.job(job)) else "new", "", now)
    done, clock, reached = generation.journal.last_done(), generation.clock(), watermark(generation)
    last_run = max((at for at in (done and done.finished_at, clock and clock.reading.wall) if at), default=None)
    # The first watermark is in the year 1.
    reached = reached if reached and reached > BEGINNING else None
    command = lakehouse.command("run", job)
    pending, state, detail = _judged(
        lakehouse.job(job), generation.journal.pending, last_run, reached, "the last run was", command, stale_after, now
    )
    return Health(job, "job", state, detail, now, last_run, reached, pending, done)


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
    done, command = journal.last_done(), lakehouse.command("ingest", stream)
    last_run, folder = done and done.finished_at, lakehouse.ingest(stream)
    pending, state, detail = _judged(
        folder, journal.pending, last_run, None, "new rows were last read", command, stale_after, now
    )
    return Health(stream, "stream", state, detail, now, last_run, None, pending, done)


def health_or_damage(kind: Literal["stream", "job"], lakehouse: Lakehouse, name: str, stale_after: timedelta) -> Health:
    """Read as `health_of_stream` or `health_of_job`; if the journal is damaged, that is the state, with the error as detail."""
    read = health_of_stream if kind == "stream" else health_of_job
    try:
        return read(lakehouse, name, stale_after)
    except KeyfoldError as error:
        return Health(name, kind, "damaged", str(error), datetime.now(UTC))


def with_landing(lakehouse: Lakehouse, health: Health) -> Health:
    """Add to a stream's health what of its landing folder on a disk ingest cannot read; this lists the folder."""
    landing = landing_folder(lakehouse, health.name)
    if local_path(landing) is None:
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
    folder: Place,
    plans: Callable[[], Sequence[Any]],
    last_run: datetime | None,
    reached: datetime | None,
    ran: str,
    command: str,
    stale_after: timedelta,
    now: datetime,
) -> tuple[timedelta | None, State, str]:
    """Return the age of the oldest pending batch, the state, and what to do."""
    # Looked at before and after: a run that ends or begins meanwhile is not an interrupted one.
    running, planned = is_held(folder), [plan.planned_at for plan in plans()]
    running = running or is_held(folder)
    # A batch may have been planned since `now`.
    pending = max(now - planned[0], timedelta(0)) if planned else None
    state: State = "running" if running else "ok" if last_run else "new"
    detail = ""
    if pending is not None and not running:
        state, detail = "interrupted", f"a run ended within a batch planned {_age(pending)} ago: `{command}`"
    elif pending is not None and pending > STALLED:
        state, detail = "stalled", f"a batch was planned {_age(pending)} ago and is not done: see the run's log"
    elif reached and now - reached > stale_after:
        state, detail = "stale", f"the watermark is {_age(now - reached)} behind the clock: are there new events?"
    elif last_run and not running and now - last_run > stale_after:
        state, detail = "stale", f"{ran} {_age(now - last_run)} ago: does anything start `{command}`?"
    return pending, state, detail


def _age(length: timedelta) -> str:
    return str(timedelta(seconds=round(length.total_seconds())))
