"""Open the generation of a run: check that it agrees with its inputs, and finish the commits of an interrupted run."""

from dataclasses import dataclass

from keyfold.errors import Damaged, NotFound
from keyfold.keyed.execution.commit import commit, forget, remove_strays
from keyfold.keyed.execution.filling import fill
from keyfold.keyed.execution.generation_sources import Events
from keyfold.keyed.generation.continuing import agreeing_tables, check_generation, record_code, with_last_declaration
from keyfold.keyed.generation.generations import RETAINED_BATCHES, Generation, live_generation
from keyfold.keyed.generation.going_live import finish_going_live, go_live
from keyfold.keyed.generation.manifests import files_of, read_manifests
from keyfold.keyed.generation.run_mode import FullRefresh, Replay, RunMode
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.plans.input_tables import REMEDY, check_inputs
from keyfold.lakehouse import Lakehouse, is_table
from keyfold.lakehouse.table_features import check_mergeable
from keyfold.runners import Runners


def check_inputs_exist(lakehouse: Lakehouse, job: KeyedJob) -> None:
    """Check that a job's input tables exist.

    Raises:
        KeyfoldError: a stream was not ingested yet, a producer has not run, or an event table is gone; names the remedy.
    """
    for name in job.producers:
        # A producer without a batch has tables without rows: it runs, and its own producer has written nothing yet.
        if live_generation(lakehouse.source_of(name), name) is None:
            raise NotFound(
                f"job {job.name} reads a table of job {name}, which has not run in {lakehouse.home} yet; run "
                f"`{lakehouse.command('run', name)}` first"
            )
    for stream in job.streams:
        events = lakehouse.source_of().events(stream.name)
        if is_table(events):
            continue
        if (lakehouse.source_of().ingest(stream.name) / "ingest.json").exists():
            raise Damaged(
                f"job {job.name} reads events.{stream.name}, which is gone from {events} although files were ingested; restore "
                f"it, or run `{lakehouse.command('ingest', stream.name, '--rebuild')}`, and then this job with --full-refresh"
            )
        raise NotFound(
            f"job {job.name} reads events.{stream.name}, which is not in {lakehouse.home} yet; "
            f"run `keyfold ingest {stream.name} --from DIR` first"
        )


@dataclass(frozen=True)
class OpenedGeneration:
    """The generation of a run.

    Attributes:
        generation: the generation.
        new_code: what changed in the code of the job's functions since its last run, as text; empty for nothing.
    """

    generation: Generation
    new_code: str = ""


def generation_of_run(runners: Runners, lakehouse: Lakehouse, job: KeyedJob, mode: RunMode) -> OpenedGeneration:
    """Open or create the generation of a run. The caller holds the job's lock.

    Raises:
        KeyfoldError: a setting does not fit the live generation, or its journal, state and tables do not agree.
    """
    # A crash may have come between the decision that a generation goes live and the commits of its tables.
    finish_going_live(lakehouse, job.name)
    if isinstance(mode, Replay):
        return OpenedGeneration(
            fill(runners, lakehouse, job, Events((mode.since, mode.until), mode.share), branch=mode.branch).generation
        )
    live = None if isinstance(mode, FullRefresh) else live_generation(lakehouse, job.name)
    if live is not None:
        return continued(runners, lakehouse, job, with_last_declaration(live))
    is_first = not isinstance(mode, FullRefresh)
    generation = fill(runners, lakehouse, job, at_address=is_first).generation
    # The first generation goes live before it is filled: it replaces no tables that readers use.
    if is_first:
        go_live(lakehouse, generation)
    return OpenedGeneration(generation)


def continued(runners: Runners, lakehouse: Lakehouse, job: KeyedJob, live: Generation) -> OpenedGeneration:
    """Check that a job can continue its live generation, and do what a run that was cut off has left.

    Raises:
        KeyfoldError: as `generation_of_run`.
    """
    # These checks come before any write: a run that is refused changes nothing.
    code = check_generation(live, job)
    is_committed = _check_agreement(lakehouse, job, live)
    if (last := live.journal.last_done()) is not None:
        # A run may have crashed between its last commit record and the Delta commits.
        if not is_committed:
            commit(runners, job, live, last)
        forget(job, live, last.batch, RETAINED_BATCHES)
        remove_strays(live, last)
    return OpenedGeneration(live, record_code(live, code))


def _check_agreement(lakehouse: Lakehouse, job: KeyedJob, generation: Generation) -> bool:
    """Check that journal, state and tables agree; returns whether the tables have all commits of the last batch."""
    label = f"job {job.name}, {generation.name}"
    check_inputs(lakehouse, generation, label)
    opened, is_committed = agreeing_tables(generation, label, REMEDY)
    for table in job.tables:
        # Before a batch counts, which could not be merged.
        if table.mode == "upsert":
            check_mergeable(opened[table.name], generation.table(table.name))
    try:
        read_manifests(generation.manifests, files_of(generation.journal.last_done()))
    except Damaged as error:
        raise Damaged(f"{label}: {error}; restore it from a backup, or {REMEDY}") from error
    return is_committed
