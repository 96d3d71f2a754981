"""Remove old generations and branches of a job."""

from dataclasses import dataclass

from keyfold.keyed.generation.generations import live_generation
from keyfold.lakehouse import Lakehouse, exclusive
from keyfold.lakehouse.files import files_below, remove_tree
from keyfold.storage.place import path_below


@dataclass(frozen=True)
class Pruned:
    """A removed folder.

    Attributes:
        name: name of the generation, or `branches/NAME`.
        bytes: size of its files, without those that it shares with another generation.
    """

    name: str
    bytes: int


def prune(lakehouse: Lakehouse, job: str, *, branches: bool = False, dry_run: bool = False) -> list[Pruned]:
    """Remove all generations of a job but the live one, and on request its branches.

    Raises:
        KeyfoldError: the pointer to the live generation is lost, or a run has locked the job; nothing is removed.
    """
    with exclusive(lakehouse.job(job), f"job {job}"):
        return remove_other_generations(lakehouse, job, branches=branches, dry_run=dry_run)


def remove_other_generations(
    lakehouse: Lakehouse, job: str, *, branches: bool = False, dry_run: bool = False
) -> list[Pruned]:
    """As `prune`, for a caller that holds the job's lock."""
    live = live_generation(lakehouse, job)
    folders = sorted(lakehouse.job(job).glob("generation-*"))
    folders += sorted(lakehouse.job(job).glob("branches/*")) if branches else []
    removed = []
    for folder in folders:
        if live is not None and folder == live.folder:
            continue
        # A file with a second hard link is also a file of another generation, which keeps it.
        size = sum(file.bytes for file in files_below(folder) if not file.is_shared)
        removed.append(Pruned(str(path_below(folder, lakehouse.job(job))), size))
        if not dry_run:
            remove_tree(folder)
    return removed
