"""Find the generations of a job and the batches whose state is retained, and read its state as typed rows after any of them.

The commit record of the batch names the manifests of the state partitions. These name the parts, which are read a range of keys
at a time, in this process.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from keyfold.errors import NotFound
from keyfold.keyed.calling.slots import NO_SLOTS, SLOT, partitions_of
from keyfold.keyed.forms.values import columns_form
from keyfold.keyed.generation.batch_records import KeyedDone
from keyfold.keyed.generation.generations import RETAINED_BATCHES, Generation, all_generations, live_generation
from keyfold.keyed.generation.live_record import live_generation_name
from keyfold.keyed.generation.manifests import files_of, read_manifests
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.state_parts.manifest import Manifest
from keyfold.keyed.state_parts.part_reading import partition_reads, unreadable
from keyfold.lakehouse import Lakehouse
from keyfold.schemas import arrow_type
from keyfold.state.reading.state_rows import StateRows
from keyfold.state.rows.keys import Key, wanted_keys


def read_state(
    lakehouse: Lakehouse,
    job: KeyedJob | str,
    *,
    generation: str | None = None,
    batch: int | None = None,
    keys: Iterable[Key] = (),
) -> StateRows:
    """Read the rows of a job's state. Reading writes nothing, and can be done while the job runs.

    Args:
        lakehouse: the lakehouse.
        job: the job, or its name; with a name, the columns are taken from the state.
        generation: name of a generation or a branch; the live generation by default.
        batch: a retained batch; the last one by default.
        keys: the keys to read (`keys.Key`); all by default. Only state partitions that can have them are read.

    Raises:
        KeyfoldError: there is no such job, generation or batch, files are damaged, or a key does not fit the job.

    Example:
        >>> ride = read_state(lakehouse, "ride_summaries", keys=["ride-17"]).polars()  # doctest: +SKIP
    """
    name = job if isinstance(job, str) else job.name
    chosen = find_generation(lakehouse, name, generation)
    record = find_batch(chosen, batch)
    declared = chosen.record.declaration
    key = declared.key
    manifests = {} if record is None else manifests_of(chosen, record)
    subject = f"job {name}, {chosen.name}, batch {record and record.batch}"
    schema = _schema(subject, chosen, job if isinstance(job, KeyedJob) else None, manifests)
    wanted = wanted_keys(keys, key, schema)
    slots = wanted.slots(declared, schema) if wanted else None
    if slots is not None:
        labels = partitions_of(slots, chosen.partitions)
        manifests = {label: manifests[label] for label in labels if label in manifests}
    return StateRows(
        name, chosen.name, record and record.batch, key, schema, manifests, chosen.parts, _wanted=wanted, _slots=slots
    )


def _schema(subject: str, generation: Generation, job: KeyedJob | None, manifests: Mapping[int, bytes]) -> pa.Schema:
    """Return the columns of the state: the job's, or those in the state if the generation began with others."""
    columns = generation.record.declaration.state.columns
    if job is not None and columns_form(job.state.schema) == columns:
        return _nullable(job.state.schema)
    with unreadable(subject):
        for packed in manifests.values():
            # No slots, so no rows: only the columns are needed.
            for read in partition_reads(Manifest.unpack(packed), generation.parts, slots=NO_SLOTS):
                kinds = read().drop(SLOT).schema
                return pa.schema([(name, arrow_type(kind)) for name, kind in kinds.items()])
    if job is not None:
        return _nullable(job.state.schema)
    raise NotFound(f"{subject}: its state is empty, and no job of that name declares its columns")


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in schema])


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
    live, generations = live_generation_name(lakehouse, job), list[KnownGeneration]()
    for generation in all_generations(lakehouse, job):
        generations.append(
            KnownGeneration(
                generation, "branch" if generation.is_branch else "live" if generation.name == live else "kept"
            )
        )
    if not generations:
        there = ", ".join(jobs_with_state(lakehouse)) or "none yet"
        raise NotFound(f"no job {job!r} has run in {lakehouse.home}; jobs with state there: {there}")
    return generations


def find_generation(lakehouse: Lakehouse, job: str, name: str | None = None) -> Generation:
    """Return a generation or a branch of a job by its name; the live generation by default.

    Raises:
        KeyfoldError: there is none of that name; lists the names.
    """
    generations = generations_of(lakehouse, job)
    if name is None:
        if (live := live_generation(lakehouse, job)) is None:
            raise NotFound(f"job {job} has no live generation; name one of: {_listed(generations)}")
        return live
    for described in generations:
        if described.generation.name == name:
            return described.generation
    raise NotFound(f"job {job} has no generation {name!r}; it has {_listed(generations)}")


def retained_batches(generation: Generation) -> list[int]:
    """Return the batches whose state a generation retains, oldest first."""
    retained = generation.journal.kept()
    return [batch for batch in retained if retained[-1] - batch < RETAINED_BATCHES]


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
    record = generation.journal.done(retained[-1] if batch is None else batch) if retained else None
    if record is None or record.batch not in retained:
        subject = f"job {generation.record.job}, {generation.name}"
        raise NotFound(f"{subject} has no state of batch {batch}; retained: {_span(retained)}")
    return record


def manifests_of(generation: Generation, record: KeyedDone) -> dict[int, bytes]:
    """Read the manifests of all state partitions after a batch, by label.

    Raises:
        Damaged: a file of manifests is missing or damaged; names the remedy.
    """
    with unreadable(f"job {generation.record.job}, {generation.name}, batch {record.batch}"):
        return read_manifests(generation.manifests, files_of(record))


def _listed(generations: list[KnownGeneration]) -> str:
    return ", ".join(f"{described.generation.name} ({described.role})" for described in generations)


def _span(batches: list[int]) -> str:
    if not batches:
        return "none"
    gaps = len(batches) != batches[-1] - batches[0] + 1
    return ", ".join(map(str, batches)) if gaps else f"{batches[0]} to {batches[-1]}"
