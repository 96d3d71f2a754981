"""Make generations of several jobs live in one atomic step: those of a producer and of the jobs that read its tables.

Each pointer first announces a decision file. The pointers count as changed as soon as that file exists.
"""

import uuid
from collections.abc import Sequence
from contextlib import suppress

from keyfold.keyed.generation.generations import Generation, go_live, live_pointer, pointer_of
from keyfold.lakehouse import Lakehouse, read_json
from keyfold.lakehouse.fail_points import reached
from keyfold.lakehouse.files import DamagedError, read_json_with_tag, replace_json, write_json_once
from keyfold.lakehouse.paths import announced, as_decided, decision_of
from keyfold.storage.lease import check_held
from keyfold.storage.place import Place


def go_live_together(lakehouse: Lakehouse, generations: Sequence[Generation]) -> None:
    """Make generations of several jobs live, in one atomic step. The caller must hold the locks of all jobs.

    Raises:
        KeyfoldError: as `go_live`; the live generations stay as they are.
    """
    if len(generations) == 1:
        go_live(lakehouse, generations[0])
        return
    jobs = [generation.record["job"] for generation in generations]
    decision = lakehouse.job(jobs[0]) / f"together-{uuid.uuid4().hex}.json"
    # Until the decision file exists, readers take the old generations from these pointers.
    for job, generation in zip(jobs, generations, strict=True):
        content, tag = live_pointer(lakehouse, job)
        tag = tag if generation.pointer_tag is None else generation.pointer_tag
        replace_json(pointer_of(lakehouse, job), announced(content, generation.name, decision), tag)
        reached("together: announced")
    # Decide nothing if a lease was lost while the pointers were written: another run may have gone live since.
    check_held()
    write_json_once(decision, {job: generation.name for job, generation in zip(jobs, generations, strict=True)})
    reached("together: decided")
    for job, generation in zip(jobs, generations, strict=True):
        settle_pointer(lakehouse, job)
        reached("together: settled")
        generation.record_checksums()


def settle_pointer(lakehouse: Lakehouse, job: str) -> None:
    """Write a pointer's content after a decision, or after an interrupted one. The caller must hold the job's lock."""
    pointer = pointer_of(lakehouse, job)
    # `live_generation` reports a damaged pointer.
    with suppress(DamagedError):
        content, tag = read_json_with_tag(pointer)
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
    content, _ = read_json_with_tag(pointer)
    return content is not None and decision_of(pointer, content) == decision
