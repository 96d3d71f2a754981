"""A branch that has proved itself becomes the live generation, and the job goes on from there."""

from keyfold.errors import Damaged, KeyfoldError, NotFound
from keyfold.journal.agreement import check_tables, has_taken_all
from keyfold.keyed.generation.checkpoint import finished_batch, follow_move
from keyfold.keyed.generation.generations import (
    Generation,
    branch_folder,
    generation_folder,
    go_live,
    live_generation,
)
from keyfold.keyed.plans.inputs import check_inputs
from keyfold.lakehouse import Lakehouse, exclusive, read_json
from keyfold.lakehouse.fail_points import reached
from keyfold.lakehouse.files import move_tree


def promote(lakehouse: Lakehouse, job: str, branch: str) -> Generation:
    """Make a branch the live generation, in one step; what was live stays beside it, until `prune`.

    The next run goes on from what the branch has read, with the parameters that it was made with.

    Raises:
        KeyfoldError: there is no such branch, it does not reach over all of history, it was cut off or is damaged, the event table is
            another one by now, or a run holds the job; what is live stays so.
    """
    with exclusive(lakehouse.job(job), f"job {job}"):
        generation = to_promote(lakehouse, job, branch)
        go_live(lakehouse, generation)
        return generation


def to_promote(lakehouse: Lakehouse, job: str, branch: str) -> Generation:
    """A branch as a generation that is to go live next; call it under the job's lock.

    Raises:
        KeyfoldError: as `promote`.
    """
    # A call that was killed between rename and `go_live` is gone on with: its branch is a branch no more.
    generation = _renamed(lakehouse, job, branch) or _promotable(lakehouse, job, branch)
    if generation.folder.parent.name == "branches":
        folder = generation_folder(lakehouse, job)
        move_tree(generation.folder, folder, "generation.json")
        reached("promote: renamed")
        generation = Generation(folder, generation.record)
    # State may be read before the next run, and in a store it is read where it lies alone.
    follow_move(generation.checkpoint)
    return generation


def _renamed(lakehouse: Lakehouse, job: str, branch: str) -> Generation | None:
    """What an earlier call had renamed before it was killed."""
    live = live_generation(lakehouse, job)
    for folder in sorted(lakehouse.job(job).glob("generation-*")):
        record = folder / "generation.json"
        is_newer = live is None or folder.name > live.name
        if is_newer and record.exists() and read_json(record).get("branch") == branch:
            return Generation(folder, read_json(record))
    return None


def _promotable(lakehouse: Lakehouse, job: str, branch: str) -> Generation:
    folder = branch_folder(lakehouse, job, branch)
    if not (folder / "generation.json").exists():
        there = ", ".join(sorted(one.name for one in folder.parent.glob("*"))) or "none"
        raise NotFound(f"job {job} has no branch {branch!r}; its branches: {there}")
    generation = Generation(folder, read_json(folder / "generation.json"))
    since, until = generation.record.get("span", (None, None))
    if since or until:
        raise KeyfoldError(
            f"branch {branch} of job {job} holds events {f'since {since} ' if since else ''}{f'until {until}' if until else ''}"
            f" alone, and a job goes on from all: make it anew without these bounds, `keyfold try {job} {branch}`"
        )
    done = generation.journal.last_done()
    if done is None or generation.journal.pending() or finished_batch(generation.checkpoint) != done.batch:
        raise KeyfoldError(f"branch {branch} of job {job} was cut off; make it anew: `keyfold try {job} {branch}`")
    ids = generation.record["table_ids"]
    tables, where = {name: generation.table(name) for name in ids}, f"branch {branch} of job {job}"
    remedy = f"make the branch anew: `keyfold try {job} {branch}`"
    opened = check_tables(generation.journal, tables, ids, generation.identity, where, remedy)
    if not has_taken_all(generation.journal, opened, generation.identity):
        raise Damaged(f"{where}: a table lacks its last batch; {remedy}")
    check_inputs(lakehouse, generation, where, remedy)
    return generation
