"""Read a job's state as typed rows, after any retained batch.

The commit record of the batch names the manifests of the state partitions. These name the parts, which are read a range of keys
at a time, in this process.
"""

from collections.abc import Iterable, Mapping

import pyarrow as pa

from keyfold.errors import NotFound
from keyfold.keyed.calling.slots import NO_SLOTS, SLOT, partitions_of
from keyfold.keyed.generation.fingerprint import fixed_settings
from keyfold.keyed.generation.generations import Generation
from keyfold.keyed.job.contract import KeyedJob
from keyfold.lakehouse import Lakehouse
from keyfold.state.reading.retained_batches import find_batch, find_generation, manifests_of
from keyfold.state.reading.state_rows import StateRows, partition_reads
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
    done = find_batch(chosen, batch)
    born, key = chosen.record["fixed"], tuple(chosen.record["fixed"]["key"])
    manifests = {} if done is None else manifests_of(chosen, done)
    where = f"job {name}, {chosen.name}, batch {done and done.batch}"
    schema = _schema(where, chosen, job if isinstance(job, KeyedJob) else None, manifests)
    wanted = wanted_keys(keys, key, schema)
    slots = wanted.slots(born, schema) if wanted else None
    if slots is not None:
        labels = partitions_of(slots, chosen.partitions)
        manifests = {label: manifests[label] for label in labels if label in manifests}
    return StateRows(name, chosen.name, done and done.batch, key, schema, manifests, chosen.parts, wanted, slots)


def _schema(where: str, generation: Generation, job: KeyedJob | None, manifests: Mapping[int, bytes]) -> pa.Schema:
    """Return the columns of the state: the job's, or those in the state if the generation began with others."""
    born = generation.record["fixed"]["columns of state"]
    if job is not None and fixed_settings(job)["columns of state"] == born:
        return _nullable(job.state.schema)
    for packed in manifests.values():
        # No slots, so no rows: only the columns are needed.
        for read in partition_reads(where, generation.parts, packed, slots=NO_SLOTS):
            return _plain(read().drop(SLOT).to_arrow().schema)
    if job is not None:
        return _nullable(job.state.schema)
    raise NotFound(f"{where}: its state is empty, and no job of that name declares its columns")


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in schema])


def _plain(schema: pa.Schema) -> pa.Schema:
    """Return the schema with the types that jobs declare. Polars uses the large variants only."""
    return pa.schema([pa.field(field.name, _plain_type(field.type)) for field in schema])


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_large_list(kind):
        return pa.list_(_plain_type(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _plain_type(field.type)) for field in kind])
    return kind
