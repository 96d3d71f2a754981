"""Find the generations and branches of a job, and the batches whose state is retained."""

import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from keyfold.errors import Damaged, NotFound
from keyfold.keyed.generation.checkpoint import finished_batch, state_identities
from keyfold.keyed.generation.generations import RETAINED_BATCHES, Generation, live_generation, live_generation_name
from keyfold.keyed.running.processor import STATE_VARIABLE
from keyfold.lakehouse import Lakehouse, read_json
from keyfold.lakehouse.files import open_for_reading
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
    partitions = _partitions(generation.checkpoint)
    if not partitions:
        return []
    # Only versions that all partitions have: Spark deletes old versions partition by partition. Their names are VERSION.zip, or
    # VERSION_ATTEMPT.zip.
    versions = set.intersection(
        *({int(path.stem.partition("_")[0]) for path in folder.glob("[0-9]*.zip")} for folder in partitions)
    )
    committed = _committed(generation.checkpoint)
    # Spark may keep more versions, but their parts are deleted.
    return [batch for batch in committed if batch + 1 in versions and committed[-1] - batch < RETAINED_BATCHES]


def find_batch(generation: Generation, batch: int | None = None) -> int | None:
    """Return the batch to read, after a check that its files exist and have their sizes.

    Args:
        batch: the batch; None for the last finished one.

    Returns:
        The batch; None if none is finished.

    Raises:
        KeyfoldError: the state of the batch is not retained, one of its files is missing, truncated or unreadable, or it is
            not the state of a keyed job.
    """
    where = f"job {generation.record['job']}, {generation.name}"
    retained, last = retained_batches(generation), finished_batch(generation.checkpoint)
    if batch is None and last is None:
        return None
    wanted = last if batch is None else batch
    assert wanted is not None  # noqa: S101 - narrows what the lines above have settled
    if wanted not in retained:
        # Spark deletes the oldest versions first: a batch that is missing between others is damage.
        if wanted in _committed(generation.checkpoint) and (not retained or wanted > retained[0]):
            lost = ", ".join(str(one) for one in _zips(generation.checkpoint, wanted) if not one.exists())
            raise Damaged(
                f"{where}: the state of batch {wanted} is not whole: missing {lost or generation.checkpoint / 'state'}; "
                f"restore it from a backup{_else_read(retained)}"
            )
        raise NotFound(f"{where} has no state of batch {wanted}; retained: {_span(retained)}")
    for archive in _zips(generation.checkpoint, wanted):
        _check(archive, where, retained, wanted)
    return wanted


def _known(record: Place, role: Role) -> KnownGeneration:
    return KnownGeneration(Generation(record.parent, read_json(record)), role)


def _check(archive: Place, where: str, retained: list[int], batch: int) -> None:
    remedy = f"restore it from a backup{_else_read([one for one in retained if one != batch])}"
    try:
        snapshot = _snapshot(archive)
    except (OSError, ValueError, KeyError, IndexError, zipfile.BadZipFile) as error:
        raise Damaged(f"{where}: {archive}, state of batch {batch}, cannot be read ({error}); {remedy}") from error
    families = snapshot.get("columnFamilyMapping", {})
    if families and STATE_VARIABLE not in families:
        own = ", ".join(name for name in families if name != "default") or "none by name"
        raise NotFound(
            f"{where}: {archive.parents[2]} holds no state of a keyed job (its variables: {own}); read a checkpoint of "
            "another query with `keyfold state read --checkpoint PATH`"
        )
    for file in snapshot.get("sstFiles", ()):
        path = archive.parent / "SSTs" / file["dfsSstFileName"]
        if not path.exists():
            raise Damaged(f"{where}: {path}, of the state of batch {batch}, is missing; {remedy}")
        # Checked here, since Spark's error for a truncated file is a Java stack trace without a remedy.
        if path.stat().st_size != file["sizeBytes"]:
            raise Damaged(
                f"{where}: {path}, of the state of batch {batch}, has {path.stat().st_size:,} bytes and should have "
                f"{file['sizeBytes']:,}; {remedy}"
            )


def _snapshot(archive: Place) -> dict[str, Any]:
    """Read the metadata of a version of a partition's state."""
    with open_for_reading(archive) as opened, zipfile.ZipFile(opened) as files:
        return json.loads(files.read("metadata").decode().split("\n", 1)[1])


def _zips(checkpoint: Place, batch: int) -> Iterator[Place]:
    identities = state_identities(checkpoint, batch)
    for folder in _partitions(checkpoint):
        # Batch 0 makes version 1: version 0 is the empty store.
        yield folder / f"{batch + 1}{identities.get(folder.name, '')}.zip"


def _partitions(checkpoint: Place) -> list[Place]:
    return sorted(path for path in (checkpoint / "state" / "0").glob("[0-9]*") if path.is_dir())


def _committed(checkpoint: Place) -> list[int]:
    return sorted(int(path.name) for path in (checkpoint / "commits").glob("[0-9]*") if path.name.isdigit())


def _listed(known: list[KnownGeneration]) -> str:
    return ", ".join(f"{one.generation.name} ({one.role})" for one in known)


def _span(batches: list[int]) -> str:
    if not batches:
        return "none"
    gaps = len(batches) != batches[-1] - batches[0] + 1
    return ", ".join(map(str, batches)) if gaps else f"{batches[0]} to {batches[-1]}"


def _else_read(retained: list[int]) -> str:
    return f", or read another batch (retained: {_span(retained)})" if retained else ""
