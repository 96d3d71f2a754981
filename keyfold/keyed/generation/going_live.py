"""Make generations live: one of a job, or those of a producer and of the jobs that read its tables, in one atomic step.

The decision comes first: the live record is replaced, which names the live generations of all jobs. Then each table is replaced at
its address by one commit (`carrying.replace_rows`). After a crash, the next run of a job finishes its tables.
"""

from contextlib import suppress

from keyfold.errors import Locked
from keyfold.keyed.generation.generation_record import FORMAT, RECORD, read_record
from keyfold.keyed.generation.generations import FIRST_ENTRY, Generation
from keyfold.keyed.generation.live_record import Entry, changing_live, live_entry
from keyfold.lakehouse import Lakehouse, is_table
from keyfold.lakehouse.carrying import replace_rows
from keyfold.lakehouse.fail_points import fail_point
from keyfold.lakehouse.presence import is_damaged
from keyfold.lakehouse.table_features import is_replaceable
from keyfold.storage.place import Place
from keyfold.storage.storage_path import DamagedError


def go_live(lakehouse: Lakehouse, *generations: Generation) -> None:
    """Make generations of one or several jobs live, in one atomic step. The caller must hold the locks of all jobs.

    Raises:
        KeyfoldError: another run has made a generation live, or removed dead ones, since one of these was created; the live
            generations stay as they are.
    """
    jobs = [generation.record.job for generation in generations]
    for job in jobs:
        finish_going_live(lakehouse, job)
    fail_point("generation: before it goes live")
    with changing_live(lakehouse) as entries:
        for job, generation in zip(jobs, generations, strict=True):
            before = entries.get(job)
            if generation.replacing not in ((), (before,)):
                raise Locked(
                    f"job {job}: another run has made a generation live, or removed old ones, since {generation.name} was created; "
                    "nothing was changed. Run it again"
                )
            replaced = before.generation if before and before.generation != generation.name else None
            entries[job] = Entry(generation=generation.name, replaces=replaced)
    fail_point("generation: live")
    for generation in generations:
        finish_going_live(lakehouse, generation.record.job)
        fail_point("going live: one job")


def finish_going_live(lakehouse: Lakehouse, job: str) -> None:
    """Do what is left of a decision: replace the job's tables at their addresses. The caller must hold the job's lock.

    Nothing is done where nothing is left. A damaged record is left to `live_generation`, which reports it.
    """
    if job in lakehouse.ahead or (entry := live_entry(lakehouse, job)) is None:
        return
    live, replaced = (_named(lakehouse, job, name) for name in (entry.generation, entry.replaces))
    if live is None or not (live.folder / "tables").is_dir():
        return
    for name in live.record.table_ids:
        if live.is_aside(name):
            if is_damaged(lakehouse.live_table(name)) or not is_replaceable(lakehouse.live_table(name)):
                # No commit can replace it. It goes away with the generation that wrote it.
                _move(lakehouse.live_table(name), replaced.folder if replaced else lakehouse.job(job) / "damaged")
            last = live.journal.last_done()
            batch, digest = (last.last_written.get(name), last.last_files.get(name)) if last else (None, None)
            application = f"{live.identity}/{name}"
            replace_rows(
                live.aside(name),
                lakehouse.live_table(name),
                {application: batch, f"{application}#files": digest},
                f"{replaced.identity}/{name}" if replaced else None,
            )
            fail_point("going live: table replaced")
            (live.aside(name) / "_delta_log" / FIRST_ENTRY).unlink()
    if replaced is not None:
        for name in set(replaced.record.table_ids).difference(live.record.table_ids):
            # A table that the job no longer has goes where the generation is that wrote it.
            if is_table(lakehouse.live_table(name)):
                _move(lakehouse.live_table(name), replaced.folder)
    (live.folder / "tables").remove_tree(missing_ok=True)


def _named(lakehouse: Lakehouse, job: str, name: str | None) -> Generation | None:
    """Return a generation of a job; None if there is none that this version can read."""
    record = lakehouse.job(job) / (name or "") / RECORD
    with suppress(FileNotFoundError, DamagedError):
        generation = Generation(record.parent, read_record(record))
        return generation if generation.record.format == FORMAT else None
    return None


def _move(table: Place, folder: Place) -> None:
    to = folder / "tables" / table.name
    to.remove_tree(missing_ok=True)
    to.parent.mkdir(parents=True, exist_ok=True)
    table.move_tree(to, "_delta_log")
