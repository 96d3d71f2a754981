"""Finish calls that changed events and were cut off (`event_rewriting`), as far as a run or an ingest can that comes next."""

from collections.abc import Mapping
from contextlib import ExitStack, suppress
from datetime import timedelta
from typing import Any

from keyfold.errors import KeyfoldError, Locked
from keyfold.ingestion.event_rewrites import EventRewrite, apply_rewrites, end, replacing_files, rewrites
from keyfold.ingestion.ingest_settings import existing_ingest
from keyfold.ingestion.inspection import ingest_journal
from keyfold.journal import Journal
from keyfold.keyed.generation.generations import all_generations, live_generation
from keyfold.keyed.generation.live_record import live_generation_name
from keyfold.keyed.generation.run_mode import FullRefresh, Incremental, RunMode
from keyfold.keyed.job.contract import KeyedJob
from keyfold.lakehouse import Lakehouse, is_table
from keyfold.lakehouse.commits import committed_batch
from keyfold.lakehouse.file_changes import forget
from keyfold.state.changing.promoting import remove_other_generations
from keyfold.storage.place import Place

_PATIENCE = timedelta(seconds=30)


def jobs_behind(lakehouse: Lakehouse, rewrite: EventRewrite) -> list[str]:
    """Return the jobs that a call has left to compute again: those of which a generation is live that was there before."""
    return [job for job, before in rewrite.jobs.items() if _live_identity(lakehouse, job) in before]


def mode_of_run(lakehouse: Lakehouse, job: KeyedJob, mode: RunMode) -> RunMode:
    """Carry out what cut-off calls have left to do in the streams of a job; returns a full refresh if one must compute the job again.

    Raises:
        KeyfoldError: a job whose tables it reads comes first; names the command.
        Locked: an ingest of a stream is running.
    """
    for rewrite in rewrites(lakehouse):
        for stream in (stream.name for stream in job.streams if stream.name in rewrite.streams):
            if not rewrite.streams[stream].is_applied:
                with lakehouse.ingest(stream).exclusive(f"ingest of {stream}", patience=_PATIENCE):
                    apply_rewrites(lakehouse, stream)
        behind = jobs_behind(lakehouse, rewrite)
        if first := next((name for name in behind if name in job.producers), None):
            raise KeyfoldError(
                f"job {job.name} reads tables of job {first}, which has to be computed again, since {rewrite.cause} "
                f"by a call that was cut off: run it first, `{lakehouse.command('run', first)}`, or repeat the call"
            )
        if job.name in behind and isinstance(mode, Incremental):
            mode = FullRefresh(mode.advance_to)
    return mode


def end_finished(lakehouse: Lakehouse) -> None:
    """End the calls of which nothing is left to do. The caller holds no lock; calls whose locks others hold are left for later."""
    for rewrite in rewrites(lakehouse):
        if rewrite.is_applied and not jobs_behind(lakehouse, rewrite):
            with suppress(Locked), ExitStack() as locks:
                for stream in rewrite.streams if rewrite.forgets else ():
                    locks.enter_context(lakehouse.ingest(stream).exclusive(f"ingest of {stream}"))
                    apply_rewrites(lakehouse, stream)
                for job in rewrite.jobs if rewrite.forgets else ():
                    locks.enter_context(lakehouse.job(job).exclusive(f"job {job}"))
                end_rewrite(lakehouse, rewrite)


def end_rewrite(lakehouse: Lakehouse, rewrite: EventRewrite) -> int:
    """End a call: after an erasure, delete older versions of tables and older generations; returns the number of deleted files.

    For that, the caller must hold the locks of all its streams and jobs.
    """
    deleted = 0
    for job in rewrite.jobs if rewrite.forgets else ():
        remove_other_generations(lakehouse, job, branches=True, yes=True)
        if (live := live_generation(lakehouse, job)) is not None:
            tables = {name: live.table(name) for name in live.record.table_ids}
            deleted += _forget(tables, live.identity, live.journal)
    for stream in rewrite.streams if rewrite.forgets else ():
        ingest, tables = existing_ingest(lakehouse, stream), {"events": lakehouse.events(stream)}
        tables |= {"quarantine": lakehouse.quarantine(stream)}
        with replacing_files(lakehouse, stream):
            # Without an ingest, another program has written the events.
            deleted += _forget(tables, ingest.identity if ingest else "", ingest_journal(lakehouse, stream))
    end(lakehouse, rewrite)
    return deleted


def _forget(tables: Mapping[str, Place], identity: str, journal: Journal[Any, Any]) -> int:
    """Delete files of older versions, but those of the newest batch in a table that lacks it, as after a run that was cut off."""
    deleted, last = 0, journal.last_done()
    for name, table in tables.items():
        if is_table(table):
            taken, uncommitted = committed_batch(table, f"{identity}/{name}"), set[str]()
            if last is not None and (taken is None or taken < last.batch):
                uncommitted = {file.path for file in last.tables.get(name, ())}
            deleted += forget(table, uncommitted)
    return deleted


def _live_identity(lakehouse: Lakehouse, job: str) -> str | None:
    """Return the identity of a job's live generation; None if there is none, or none that a run can continue."""
    name = live_generation_name(lakehouse, job)
    with suppress(KeyfoldError):
        return next(
            (generation.identity for generation in all_generations(lakehouse, job) if generation.name == name), None
        )
    return None
