"""Make a branch the live generation, and remove generations that are no longer needed."""

from keyfold.errors import Damaged, KeyfoldError, NotFound
from keyfold.keyed.generation.continuing import agreeing_tables
from keyfold.keyed.generation.generation_record import RECORD, read_record
from keyfold.keyed.generation.generations import (
    Generation,
    all_generations,
    branch_folder,
    generation_folder,
    live_generation,
)
from keyfold.keyed.generation.going_live import finish_going_live, go_live
from keyfold.keyed.generation.manifests import files_of, read_manifests
from keyfold.keyed.plans.input_tables import check_inputs, check_unread
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.fail_points import fail_point
from keyfold.storage.place import path_below


def promote(lakehouse: Lakehouse, job: str, branch: str) -> Generation:
    """Make a branch the live generation, in one step. The old live generation stays, until `prune`.

    The next run continues after the events that the branch has read, with the branch's parameters.

    Raises:
        KeyfoldError: there is no such branch, it does not have all events, it was interrupted or is damaged, the event table
            was replaced since or lacks files that it has not read, or a run has locked the job; nothing is changed.
    """
    with lakehouse.job(job).exclusive(f"job {job}"):
        generation = to_promote(lakehouse, job, branch)
        go_live(lakehouse, generation)
        return generation


def to_promote(lakehouse: Lakehouse, job: str, branch: str) -> Generation:
    """Turn a branch into a generation that can go live. The caller must hold the job's lock.

    Raises:
        KeyfoldError: as `promote`.
    """
    finish_going_live(lakehouse, job)
    # If an earlier call was killed after the renaming, continue with its generation, which may even be live.
    folder = branch_folder(lakehouse, job, branch)
    generation = _renamed(lakehouse, job, branch, or_live=not folder.exists()) or _promotable(lakehouse, job, branch)
    if generation.is_branch:
        folder = generation_folder(lakehouse, job)
        # Its record last: in a bucket files move one by one, and a folder without it is no generation.
        generation.folder.move_tree(folder, "generation.json")
        fail_point("promote: renamed")
        generation = Generation(folder, generation.record)
    return generation


def _renamed(lakehouse: Lakehouse, job: str, branch: str, *, or_live: bool) -> Generation | None:
    """Return the generation that an interrupted call has made of a branch; None if there is none."""
    live = live_generation(lakehouse, job)
    for generation in all_generations(lakehouse, job):
        is_newer = live is None or generation.name > live.name or (or_live and generation.name == live.name)
        if is_newer and not generation.is_branch and generation.record.branch == branch:
            return generation
    return None


def _promotable(lakehouse: Lakehouse, job: str, branch: str) -> Generation:
    folder = branch_folder(lakehouse, job, branch)
    if not (folder / "generation.json").exists():
        there = ", ".join(sorted(sibling.name for sibling in folder.parent.glob("*"))) or "none"
        raise NotFound(f"job {job} has no branch {branch!r}; its branches: {there}")
    generation = Generation(folder, read_record(folder / RECORD))
    since, until = generation.record.span
    if since or until:
        raise KeyfoldError(
            f"branch {branch} of job {job} holds events {f'since {since} ' if since else ''}{f'until {until} ' if until else ''}"
            f"only, and a live generation needs all events: make the branch again without these bounds, `keyfold try {job} "
            f"{branch}`"
        )
    if generation.record.share is not None:
        raise KeyfoldError(
            f"branch {branch} of job {job} has {generation.record.share.share:.4%} of the keys only, and a live generation needs all: make "
            f"the branch again without --share, `keyfold try {job} {branch}`"
        )
    last = generation.journal.last_done()
    if last is None or generation.journal.pending():
        raise KeyfoldError(f"branch {branch} of job {job} was interrupted; make it again: `keyfold try {job} {branch}`")
    subject = f"branch {branch} of job {job}"
    remedy = f"make the branch again: `keyfold try {job} {branch}`"
    if not agreeing_tables(generation, subject, remedy)[1]:
        raise Damaged(f"{subject}: a table lacks its last batch; {remedy}")
    check_inputs(lakehouse, generation, subject, remedy)
    check_unread(lakehouse, generation, subject, remedy)
    try:
        read_manifests(generation.manifests, files_of(last))
    except Damaged as error:
        raise Damaged(f"{subject}: {error}; {remedy}") from error
    return generation


def prune(lakehouse: Lakehouse, job: str, *, branches: bool = False, yes: bool = False) -> list[str]:
    """Remove all generations of a job but the live one, and on request its branches; returns their names.

    Without `yes`, it only returns the names.

    Raises:
        KeyfoldError: the pointer to the live generation is lost, or a run has locked the job; nothing is removed.
    """
    with lakehouse.job(job).exclusive(f"job {job}"):
        return remove_other_generations(lakehouse, job, branches=branches, yes=yes)


def remove_other_generations(lakehouse: Lakehouse, job: str, *, branches: bool = False, yes: bool = False) -> list[str]:
    """As `prune`, for a caller that holds the job's lock."""
    if yes:
        # The replaced generation is needed until the live one has its tables.
        finish_going_live(lakehouse, job)
    live = live_generation(lakehouse, job)
    folders = sorted(lakehouse.job(job).glob("generation-*"))
    folders += sorted(lakehouse.job(job).glob("branches/*")) if branches else []
    others = [folder for folder in folders if live is None or folder != live.folder]
    for folder in others if yes else ():
        folder.remove_tree()
    return [str(path_below(folder, lakehouse.job(job))) for folder in others]
