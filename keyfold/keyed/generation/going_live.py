"""Make generations live: one of a job, or those of a producer and of the jobs that read its tables, in one atomic step.

The decision comes first. For one job it is the write of `current.json`. For several, each job's `current.json` announces a
decision file, and they count as changed as soon as that file exists. Then each table is replaced at its address by one commit
(`carrying.replace_rows`). After a crash, the next run of a job finishes its tables.
"""

import uuid
from contextlib import suppress

from keyfold.keyed.generation.generations import (
    FIRST_ENTRY,
    FORMAT,
    RECORD,
    Generation,
    announced,
    as_decided,
    decision_of,
    live_pointer,
    pointer_of,
    read_pointer,
    successor,
)
from keyfold.lakehouse import Lakehouse, is_table, read_json
from keyfold.lakehouse.carrying import replace_rows
from keyfold.lakehouse.fail_points import reached
from keyfold.lakehouse.files import (
    DamagedError,
    move_tree,
    remove_tree,
    replace_json,
    write_json_once,
)
from keyfold.lakehouse.presence import is_damaged
from keyfold.storage.lease import check_held
from keyfold.storage.place import Place


def go_live(lakehouse: Lakehouse, *generations: Generation) -> None:
    """Make generations of one or several jobs live, in one atomic step. The caller must hold the locks of all jobs.

    Raises:
        KeyfoldError: in an object store, another run has made a generation live, or removed dead ones, since one of these was
            created; the live generations stay as they are.
    """
    jobs = [generation.record["job"] for generation in generations]
    for job in jobs:
        finish_going_live(lakehouse, job)
    reached("generation: before it goes live")
    if len(generations) == 1:
        content, tag = _pointer(lakehouse, generations[0])
        # One small file is replaced atomically: a reader finds the old generation or the new one.
        replace_json(pointer_of(lakehouse, jobs[0]), successor(content, generations[0].name), tag)
    else:
        _decide(lakehouse, generations)
    reached("generation: live")
    for generation in generations:
        finish_going_live(lakehouse, generation.record["job"])
        reached("together: settled")
        generation.record_checksums()


def finish_going_live(lakehouse: Lakehouse, job: str) -> None:
    """Do what is left of a decision: replace the job's tables at their addresses. The caller must hold the job's lock.

    Nothing is done where nothing is left. A damaged record is left to `live_generation`, which reports it.
    """
    if job in lakehouse.ahead:
        return
    with suppress(DamagedError):
        _settle_pointer(lakehouse, job)
    content, _ = live_pointer(lakehouse, job)
    live, replaced = _named(lakehouse, job, content, "generation"), _named(lakehouse, job, content, "replaces")
    if live is None or not (live.folder / "tables").is_dir():
        return
    for name in live.record["table_ids"]:
        if live.is_aside(name):
            if is_damaged(lakehouse.live_table(name)):
                # No commit can replace it. It goes away with the generation that wrote it.
                _move(lakehouse.live_table(name), replaced.folder if replaced else lakehouse.job(job) / "damaged")
            done = live.journal.last_done()
            batch, digest = (done.last_written.get(name), done.last_files.get(name)) if done else (None, None)
            application = f"{live.identity}/{name}"
            replace_rows(
                live.aside(name),
                lakehouse.live_table(name),
                {application: batch, f"{application}#files": digest},
                f"{replaced.identity}/{name}" if replaced else None,
            )
            reached("going live: table replaced")
            (live.aside(name) / "_delta_log" / FIRST_ENTRY).unlink()
    if replaced is not None:
        for name in set(replaced.record["table_ids"]).difference(live.record["table_ids"]):
            # A table that the job no longer has goes where the generation is that wrote it.
            if is_table(lakehouse.live_table(name)):
                _move(lakehouse.live_table(name), replaced.folder)
    remove_tree(live.folder / "tables", missing_ok=True)


def _named(lakehouse: Lakehouse, job: str, content: dict[str, str] | None, role: str) -> Generation | None:
    """Return the generation that a pointer names; None if there is none that this version can read."""
    record = lakehouse.job(job) / (content or {}).get(role, "") / RECORD
    with suppress(FileNotFoundError, DamagedError):
        generation = Generation(record.parent, read_json(record))
        return generation if generation.record.get("format") == FORMAT else None
    return None


def _move(table: Place, folder: Place) -> None:
    to = folder / "tables" / table.name
    remove_tree(to, missing_ok=True)
    to.parent.mkdir(parents=True, exist_ok=True)
    move_tree(table, to, "_delta_log")


def _decide(lakehouse: Lakehouse, generations: tuple[Generation, ...]) -> None:
    names = {generation.record["job"]: generation.name for generation in generations}
    decision = lakehouse.job(next(iter(names))) / f"together-{uuid.uuid4().hex}.json"
    # Until the decision file exists, readers take the old generations from these pointers.
    for generation in generations:
        content, tag = _pointer(lakehouse, generation)
        pointer = pointer_of(lakehouse, generation.record["job"])
        replace_json(pointer, announced(content, generation.name, decision), tag)
        reached("together: announced")
    # Decide nothing if a lease was lost while the pointers were written: another run may have gone live since.
    check_held()
    write_json_once(decision, names)
    reached("together: decided")


def _pointer(lakehouse: Lakehouse, generation: Generation) -> tuple[dict[str, str] | None, str]:
    content, tag = live_pointer(lakehouse, generation.record["job"])
    return content, tag if generation.pointer_tag is None else generation.pointer_tag


def _settle_pointer(lakehouse: Lakehouse, job: str) -> None:
    """Write a pointer's content after a decision for several jobs, or after an interrupted one."""
    pointer = pointer_of(lakehouse, job)
    content, tag = read_pointer(pointer)
    if content is None or (decision := decision_of(pointer, content)) is None:
        return
    if (now := as_decided(pointer, content)) is None:
        pointer.unlink()
    else:
        replace_json(pointer, now, tag)
    # The last pointer that announces the decision removes it.
    if decision.exists() and not any(_waits_for(lakehouse, name, decision) for name in read_json(decision)):
        decision.unlink()


def _waits_for(lakehouse: Lakehouse, job: str, decision: Place) -> bool:
    pointer = pointer_of(lakehouse, job)
    content, _ = read_pointer(pointer)
    return content is not None and decision_of(pointer, content) == decision
