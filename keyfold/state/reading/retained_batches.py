"""Find the generations and branches of a job, and the batches whose state is retained."""

from dataclasses import dataclass
from typing import Literal

from keyfold.errors import NotFound
from keyfold.keyed.generation.batch_records import KeyedDone
from keyfold.keyed.generation.generations import RETAINED_BATCHES, Generation, live_generation
from keyfold.keyed.generation.live_record import live_generation_name
from keyfold.keyed.generation.manifests import files_of, read_manifests
from keyfold.lakehouse import Lakehouse, read_json
from keyfold.state.reading.state_rows import unreadable
from keyfold.storage.place import Place

Role = Literal["live", "kept", "branch"]


@dataclass(frozen=True)
class KnownGeneration:
    """A generation of a job and its role: `live`, `kept` (the predecessor), or `branch`."""

    generation: Generation
    role: Role


def jobs_with_state(lakehouse: Lakehouse) -> list[str]:
    """Return the names of the jobs that have a generation."""
    return sorted({path.parents[1].name for path in lakehouse.home.glob("jobs/*/generation-*/generation.json")})


def generations_of(lakehouse: Lakehouse, job: str) -> list[KnownGeneration]:
    """Return the generations of a job, oldest first, then its branches.

    Raises:
        KeyfoldError: the job has none.
    """
    live, folder = live_generation_name(lakehouse, job), lakehouse.job(job)
    born = sorted(folder.glob("generation-*/generation.json"))
    known = [_known(record, "live" if record.parent.name == live else "kept") for record in born]
    known += [_known(record, "branch") for record in sorted(folder.glob("branches/*/generation.json"))]
    if not known:
        there = ", ".join(jobs_with_state(lakehouse)) or "none yet"
        raise NotFound(f"no job {job!r} has run in {lakehouse.home}; jobs with state there: {there}")
    return known


def find_generation(lakehouse: Lakehouse, job: str, name: str | None = None) -> Generation:
    """Return a generation or a branch of a job by its name; the live generation by default.

    Raises:
        KeyfoldError: there is none of that name; lists the names.
    """
    known = generations_of(lakehouse, job)
    if name is None:
        if (live := live_generation(lakehouse, job)) is None:
            raise NotFound(f"job {job} has no live generation; name one of: {_listed(known)}")
        return live
    for one in known:
        if one.generation.name == name:
            return one.generation
    raise NotFound(f"job {job} has no generation {name!r}; it has {_listed(known)}")


def retained_batches(generation: Generation) -> list[int]:
    """Return the batches whose state a generation retains, oldest first."""
    kept = generation.journal.kept()
    return [batch for batch in kept if kept[-1] - batch < RETAINED_BATCHES]


def find_batch(generation: Generation, batch: int | None = None) -> KeyedDone | None:
    """Return the commit record of the batch to read.

    Args:
        batch: the batch; None for the last one.

    Returns:
        Its commit record; None if no batch is committed.

    Raises:
        KeyfoldError: the state of the batch is not retained, or its record cannot be read.
    """
    retained = retained_batches(generation)
    if batch is None and not retained:
        return None
    done = generation.journal.done(retained[-1] if batch is None else batch) if retained else None
    if done is None or done.batch not in retained:
        where = f"job {generation.record['job']}, {generation.name}"
        raise NotFound(f"{where} has no state of batch {batch}; retained: {_span(retained)}")
    return done


def manifests_of(generation: Generation, done: KeyedDone) -> dict[int, bytes]:
    """Read the manifests of all state partitions after a batch, by label.

    Raises:
        Damaged: a file of manifests is missing or damaged; names the remedy.
    """
    with unreadable(f"job {generation.record['job']}, {generation.name}, batch {done.batch}"):
        return read_manifests(generation.manifests, files_of(done))


def _known(record: Place, role: Role) -> KnownGeneration:
    return KnownGeneration(Generation(record.parent, read_json(record)), role)


def _listed(known: list[KnownGeneration]) -> str:
    return ", ".join(f"{one.generation.name} ({one.role})" for one in known)


def _span(batches: list[int]) -> str:
    if not batches:
        return "none"
    gaps = len(batches) != batches[-1] - batches[0] + 1
    return ", ".join(map(str, batches)) if gaps else f"{batches[0]} to {batches[-1]}"
