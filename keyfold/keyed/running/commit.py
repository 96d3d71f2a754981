"""From a commit record to the tables: every commit of a batch, each once, however often it is tried."""

from pyarrow import types
from pyspark.sql import SparkSession

from keyfold.keyed.generation.batch_records import KeyedDone
from keyfold.keyed.generation.generations import Generation
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.output_table import OutputTable
from keyfold.keyed.rows.hashing import key_hash
from keyfold.lakehouse.commits import append_files
from keyfold.lakehouse.fail_points import reached
from keyfold.lakehouse.files import remove_tree
from keyfold.lakehouse.leaves import HashOf
from keyfold.lakehouse.merging import merge_files


def commit(spark: SparkSession, job: KeyedJob, generation: Generation, done: KeyedDone) -> None:
    """Make the commits that a commit record stands for; those that were made already are passed over."""
    reached("commit: before")
    for number, table in enumerate(job.tables):
        if number:
            reached("commit: one table")
        files, path = done.tables.get(table.name, ()), generation.table(table.name)
        application = f"{generation.identity}/{table.name}"
        if table.mode == "append":
            append_files(path, files, application, done.batch)
        else:
            merge_files(spark, path, files, table.key, application, done.batch, hash_of(table))
    reached("commit: after")


def hash_of(table: OutputTable) -> HashOf | None:
    """By which an upsert table is divided; None of one with a time in its key: old times are met by none of the new."""
    kinds = [table.schema.field(name).type for name in table.key]
    is_hashable = all(types.is_string(kind) or types.is_integer(kind) or types.is_boolean(kind) for kind in kinds)
    return key_hash if is_hashable else None


def forget(job: KeyedJob, generation: Generation, batch: int, kept: int) -> None:
    """Remove what no batch that may still be worked on again needs, once Spark has finished a batch.

    Args:
        batch: that Spark has finished: its answers from outside.
        kept: for how many batches rows that were merged are kept, for those who look at what a run wrote, and state can
            be read.
    """
    # Only now: until Spark has finished the batch it may be worked on again, and must be answered the same.
    remove_tree(generation.answers / f"{batch:09d}", missing_ok=True)
    old = generation.journal.done(batch - kept)
    if old is None:
        return
    for table in job.tables:
        if table.mode == "upsert":
            for file in old.tables.get(table.name, ()):
                (generation.table(table.name) / file.path).unlink(missing_ok=True)
    # State of the batch before that one, which needed them, can be read no more.
    for name in old.dropped_parts:
        (generation.parts / name).unlink(missing_ok=True)
