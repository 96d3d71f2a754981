"""Open the generation of a run: check that it agrees with its inputs, and finish the commits of an interrupted run."""

from collections.abc import Iterator
from contextlib import contextmanager

from keyfold.errors import Damaged, NotFound
from keyfold.keyed.execution.commit import commit, forget, remove_strays
from keyfold.keyed.execution.filling import fill
from keyfold.keyed.execution.generation_sources import Events
from keyfold.keyed.generation.continuing import agreeing_tables, check_generation
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
        if live_generation(lakehouse, name) is None:
            raise NotFound(
                f"job {job.name} reads a table of job {name}, which has not run in {lakehouse.home} yet; run "
                f"`{lakehouse.command('run', name)}` first"
            )
    for stream in job.streams:
        events = lakehouse.events(stream.name)
        if is_table(events):
            continue
        if (lakehouse.ingest(stream.name) / "ingest.json").exists():
            raise Damaged(
                f"job {job.name} reads events.{stream.name}, which is gone from {events} although files were ingested; restore "
                f"it, or run `{lakehouse.command('ingest', stream.name, '--rebuild')}`, and then this job with --full-refresh"
            )
        raise NotFound(
            f"job {job.name} reads events.{stream.name}, which is not in {lakehouse.home} yet; "
            f"run `keyfold ingest {stream.name} --from DIR` first"
        )


@contextmanager
def generation_of_run(runners: Runners, lakehouse: Lakehouse, job: KeyedJob, mode: RunMode) -> Iterator[Generation]:
    """Open or create the generation of a run. The caller holds the job's lock.

    Raises:
        KeyfoldError: a setting does not fit the live generation, or its journal, state and tables do not agree.
    """
    # A crash may have come between the decision that a generation goes live and the commits of its tables.
    finish_going_live(lakehouse, job.name)
    if isinstance(mode, Replay):
        source = Events((mode.since, mode.until))
        generation = fill(runners, lakehouse, job, source, branch=mode.branch).generation
    elif isinstance(mode, FullRefresh):
        generation = fill(runners, lakehouse, job).generation
    # The first generation goes live before it is filled: it replaces no tables that readers use.
    elif (live := live_generation(lakehouse, job.name)) is None:
        generation = fill(runners, lakehouse, job, at_address=True).generation
        go_live(lakehouse, generation)
    else:
        generation = live
        # These checks come before any write: a run that is refused changes nothing.
        check_generation(generation, job)
        is_committed = _check_agreement(lakehouse, job, generation)
        if (done := generation.journal.last_done()) is not None:
            # A run may have crashed between its last commit record and the Delta commits.
            if not is_committed:
                commit(runners, job, generation, done)
            forget(job, generation, done.batch, RETAINED_BATCHES)
            remove_strays(generation, done)
    yield generation


def _check_agreement(lakehouse: Lakehouse, job: KeyedJob, generation: Generation) -> bool:
    """Check that journal, state and tables agree; returns whether the tables have all commits of the last batch."""
    where = f"job {job.name}, {generation.name}"
    check_inputs(lakehouse, generation, where)
    opened, is_committed = agreeing_tables(generation, where, REMEDY)
    for table in job.tables:
        # Before a batch counts, which could not be merged.
        if table.mode == "upsert":
            check_mergeable(opened[table.name], generation.table(table.name))
    try:
        read_manifests(generation.manifests, files_of(generation.journal.last_done()))
    except Damaged as error:
        raise Damaged(f"{where}: {error}; restore it from a backup, or {REMEDY}") from error
    return is_committed
