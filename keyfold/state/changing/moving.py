"""What a change of a job would mean, before anything runs; and the move that takes its state along."""

from dataclasses import dataclass

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from keyfold.errors import IncompatibleState, KeyfoldError, NotFound
from keyfold.keyed.generation.generations import Generation, Origin, live_generation
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.plans.inputs import input_tables
from keyfold.lakehouse import Lakehouse, exclusive, is_table
from keyfold.state.changing.migrating import Change, Verdict, changes_to, migrate, verdict_of
from keyfold.state.changing.state_rewriting import Rewritten, rewrite
from keyfold.state.reading.retained_batches import find_batch
from keyfold.storage.place import Place

_RECENT = 20


@dataclass(frozen=True)
class ChangePlan:
    """What it takes to run a job as it is now.

    Attributes:
        job, generation: whose, and what is live; None where the job has never run.
        changes: settings that differ from the live generation's.
        verdict: `free`: the next run goes on; `move`: `keyfold state move` first; `refresh`: all events are read again.
        events, event_bytes: that a refresh reads.
        open_events, state_bytes: that a move rewrites.
        seconds: about how long it takes, by the speed of the last runs; None where nothing tells.
    """

    job: str
    generation: str | None
    changes: tuple[Change, ...]
    verdict: Verdict
    events: int
    event_bytes: int
    open_events: int
    state_bytes: int
    seconds: float | None


def plan_change(lakehouse: Lakehouse, job: KeyedJob, partitions: int | None = None) -> ChangePlan:
    """Say what a job's settings and schemas, as they are now, mean to what is live. Of its step's code this knows nothing.

    Args:
        lakehouse: where the job is.
        job: as it is to run.
        partitions: of the state store, if they are to be others.
    """
    live = live_generation(lakehouse, job.name)
    counted = [_event_table(table) for table in input_tables(lakehouse, job).values()]
    events, size = sum(rows for rows, _ in counted), sum(size for _, size in counted)
    if live is None:
        return ChangePlan(job.name, None, (), "free", events, size, 0, 0, None)
    changes = changes_to(job, live)
    born = live.partitions
    if partitions is not None and partitions != born:
        changes = (*changes, Change("shuffle_partitions", born, partitions, "move", "the store is written anew"))
    verdict, done = verdict_of(changes), live.journal.last_done()
    if done:
        find_batch(live)  # a state that is not whole cannot be moved: said now, and not amid the move
    return ChangePlan(
        job=job.name,
        generation=live.name,
        changes=changes,
        verdict=verdict,
        events=events,
        event_bytes=size,
        open_events=done.open_events if done else 0,
        state_bytes=done.state_bytes if done else 0,
        seconds=_seconds(live, events) if verdict == "refresh" else None,
    )


def move(spark: SparkSession, lakehouse: Lakehouse, job: KeyedJob, partitions: int | None = None) -> Rewritten:
    """Take a job's state and tables into a new generation as the job is now, and make that live in one step.

    The old generation stays beside it, until `prune`.

    Raises:
        KeyfoldError: nothing has changed, a change needs a refresh (says which), the last run was cut off, or a run
            holds the job. The old generation stays live.
    """
    with exclusive(lakehouse.job(job.name), f"job {job.name}"):
        # Under the lock: a run in between could put another generation in its place.
        plan = plan_change(lakehouse, job, partitions)
        live = live_generation(lakehouse, job.name)
        if live is None:
            raise NotFound(f"job {job.name} has never run: there is nothing to move")
        if plan.verdict == "refresh":
            told = "; ".join(f"{one.setting}: {one.why}" for one in plan.changes if one.verdict == "refresh")
            raise IncompatibleState(
                f"job {job.name} cannot take its state along: {told}. Set it back, or read all events again: "
                f"`keyfold run {job.name} --full-refresh`"
            )
        if plan.verdict == "free":
            raise KeyfoldError(f"job {job.name}: nothing has changed that {live.name} was born with: just run it")
        session = spark
        if partitions is not None:
            # Its own: the caller's session keeps the partitions that it has.
            session = spark.newSession()
            session.conf.set("spark.sql.shuffle.partitions", str(partitions))
        settings = ", ".join(one.setting for one in plan.changes)
        return rewrite(session, lakehouse, job, live, _origin(live, settings), migrate(job, live))


def _origin(live: Generation, settings: str) -> Origin:
    before = live.origin
    skipped, seeded = (before.events_skipped, before.events_seeded) if before else (0, 0)
    return Origin("move", f"{live.name}: {settings}", skipped, seeded)


def _event_table(table: Place) -> tuple[int, int]:
    if not is_table(table):
        return 0, 0
    delta = DeltaTable(str(table))
    return delta.count(), sum(delta.get_add_actions(flatten=True)["size_bytes"].to_pylist())


def _seconds(live: Generation, events: int) -> float | None:
    """How long reading so many events takes, by the last batches that read some."""
    recent = [one for one in live.journal.recent(_RECENT) if one.events]
    worked = sum(one.seconds for one in recent)
    return None if not worked else events * worked / sum(one.events for one in recent)
