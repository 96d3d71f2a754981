"""Plan a change of a job, and move its state to a new generation for the changed job."""

from dataclasses import dataclass

from deltalake import DeltaTable

from keyfold.errors import IncompatibleState, KeyfoldError, NotFound
from keyfold.keyed.execution.filling import Filled, fill
from keyfold.keyed.execution.generation_sources import StateAfter
from keyfold.keyed.generation.continuing import code_of_generation, complete_batch
from keyfold.keyed.generation.generations import Generation, live_generation
from keyfold.keyed.generation.going_live import go_live
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.plans.input_tables import input_tables
from keyfold.lakehouse import Lakehouse, is_table
from keyfold.runners import Runners
from keyfold.state.changing.history import check_is_new, with_history
from keyfold.state.changing.migrating import Change, Changes, Verdict, changes_to, migrate
from keyfold.state.reading.reader import find_batch
from keyfold.storage.place import Place

_RECENT = 20


@dataclass(frozen=True)
class ChangePlan:
    """The changes of a job, and what they require.

    Attributes:
        job, generation: the job, and its live generation; None if the job has never run.
        changes: settings that differ from those of the live generation.
        effects: what else differs, of what is read and stored, since it follows from the settings.
        verdict: `free`: the next run continues; `judge`: it continues, with other code; `move`: `keyfold state move` first;
            `refresh`: all events are read again.
        code_since: the first batch that had the code of the last run; None if the generation was created with it.
        code_change: what had changed in it then.
        events, event_bytes: amount that a refresh reads.
        open_events, state_bytes: amount that a move rewrites.
        seconds: estimated duration of a refresh, by the speed of the last runs; None if unknown.
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
    code_since: int | None = None
    code_change: str = ""
    effects: tuple[Change, ...] = ()


def plan_change(lakehouse: Lakehouse, job: KeyedJob, partitions: int | None = None) -> ChangePlan:
    """Compare what a job declares, and the code of its functions, with its live generation.

    Args:
        job: the changed job.
        partitions: new number of state partitions; None keeps the number.
    """
    return _plan(lakehouse, job, live_generation(lakehouse, job.name), partitions)


def move(
    lakehouse: Lakehouse,
    job: KeyedJob,
    partitions: int | None = None,
    *,
    from_history: bool = False,
    yes: bool = False,
    runners: Runners,
) -> Filled:
    """Move a job's state and tables to a new generation for the changed job, and make it live in one step.

    The old generation stays, until `prune`. Without `yes`, it only checks that the move is possible and counts what it would take along.

    Args:
        partitions: new number of state partitions; None keeps the number.
        from_history: whether new aggregates of rows of state come from a replay of all events.

    Raises:
        KeyfoldError: nothing has changed, no aggregate is new that `from_history` could fill, a change needs a refresh (names it), the last run was interrupted, or a run has
            locked the job. The old generation stays live.
    """
    with lakehouse.job(job.name).exclusive(f"job {job.name}"):
        # Read and plan under the lock: otherwise a run could replace the live generation in between.
        live = live_generation(lakehouse, job.name)
        if live is None:
            raise NotFound(f"job {job.name} has never run: there is nothing to move")
        plan = _plan(lakehouse, job, live, partitions)
        if plan.verdict == "refresh":
            reasons = "; ".join(
                f"{change.setting}: {change.why}"
                for change in (*plan.changes, *plan.effects)
                if change.verdict == "refresh"
            )
            raise IncompatibleState(
                f"the state of job {job.name} cannot be moved: {reasons}. Set it back, or read all events again: "
                f"`keyfold run {job.name} --full-refresh`"
            )
        if plan.verdict in ("free", "judge"):
            raise KeyfoldError(f"job {job.name}: no setting of {live.name} has changed: run the job as usual")
        settings = ", ".join(change.setting for change in plan.changes)
        source = StateAfter(live, complete_batch(live), settings)
        if from_history:
            check_is_new(job, live)
        if not yes:
            return Filled(live, source.count_rows(), None, source.count_table_rows(job))
        if not from_history:
            moved = fill(runners, lakehouse, job, source, migrate(job, live), partitions=partitions)
        else:
            with with_history(runners, lakehouse, job, source, migrate(job, live)) as with_replay:
                moved = fill(runners, lakehouse, job, with_replay, partitions=partitions)
        go_live(lakehouse, moved.generation)
        return moved


def _plan(lakehouse: Lakehouse, job: KeyedJob, live: Generation | None, partitions: int | None) -> ChangePlan:
    tables = [_event_table(table) for table in input_tables(lakehouse, job).values()]
    events, size = sum(rows for rows, _ in tables), sum(size for _, size in tables)
    if live is None:
        return ChangePlan(job.name, None, (), "free", events, size, 0, 0, None)
    changes = changes_to(job, live)
    now = live.partitions
    if partitions is not None and partitions != now:
        words = f"{now} → {partitions}"
        change = Change("partitions", str(now), str(partitions), words, "move", "the state is rewritten")
        changes = Changes((*changes.settings, change), changes.effects)
    verdict, last, code = changes.verdict, live.journal.last_done(), code_of_generation(live)
    if last:
        find_batch(live)  # damaged state cannot be moved: report it now, and not during the move
    return ChangePlan(
        job=job.name,
        generation=live.name,
        changes=changes.settings,
        effects=changes.effects,
        verdict=verdict,
        events=events,
        event_bytes=size,
        open_events=last.open_events if last else 0,
        state_bytes=last.state_bytes if last else 0,
        seconds=_seconds(live, events) if verdict == "refresh" else None,
        code_since=code.since if code.change else None,
        code_change=code.change,
    )


def _event_table(table: Place) -> tuple[int, int]:
    if not is_table(table):
        return 0, 0
    delta = DeltaTable(str(table))
    return delta.count(), sum(delta.get_add_actions(flatten=True)["size_bytes"].to_pylist())


def _seconds(live: Generation, events: int) -> float | None:
    """Estimate the seconds to read that many events, from the last batches with events."""
    recent = [record for record in live.journal.recent(_RECENT) if record.events]
    worked = sum(record.seconds for record in recent)
    return None if not worked else events * worked / sum(record.events for record in recent)
