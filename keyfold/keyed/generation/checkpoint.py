"""Check that Spark's checkpoint of a generation agrees with the journal.

Spark numbers batches as the journal does. It finishes a batch after the journal has its commit record, so it is level with the
journal or one batch behind. Batches that it has begun without a commit record are repeated.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession

from keyfold.errors import Damaged, KeyfoldError
from keyfold.journal.checksums import differences, read_checksums
from keyfold.keyed.generation.generations import Generation
from keyfold.lakehouse.files import DamagedError, files_below, remove_tree, write_durably
from keyfold.storage.lease import check_held
from keyfold.storage.place import Place, local_path

_SCHEMA_FILE = re.compile(r'"(?:file|s3a):[^"]*?/checkpoint/state/(\d+/_stateSchema/[^"]*)"')


def finished_batch(checkpoint: Place) -> int | None:
    """Return the last batch that Spark has finished; None before the first."""
    return max(_numbers(checkpoint / "commits"), default=None)


def state_identities(checkpoint: Place, batch: int) -> dict[str, str]:
    """Return the id of the attempt that wrote a finished batch's state, by the folder of the state partition.

    Spark puts the id into the names of state files, and records it when the batch is finished. So a driver that paused for
    longer than its lease, and continues beside the run that took over, writes files that nobody reads. Empty for a checkpoint
    without ids (state store checkpoint format 1).
    """
    # Operator 0: the query has one stateful operator, with one store per partition.
    stores = _entry(checkpoint, batch).get("stateUniqueIds", {}).get("0", [])
    return {str(partition): f"_{identities[0]}" for partition, identities in enumerate(stores)}


def names_attempts(checkpoint: Place) -> bool:
    """Whether names of state files have the id of the attempt that wrote them. A checkpoint keeps the format it began with."""
    finished = finished_batch(checkpoint)
    return finished is None or bool(state_identities(checkpoint, finished))


def check_checkpoint(generation: Generation, where: str) -> None:
    """Check that the checkpoint agrees with the journal, and remove files that a crash left incomplete.

    Raises:
        KeyfoldError: the checkpoint is missing, or is older or newer than the journal; names the remedy.
    """
    checkpoint, done = generation.checkpoint, generation.journal.last_done()
    if done is None or (done.batch == 0 and finished_batch(checkpoint) is None):
        # Nothing is finished: the first batch starts from nothing, and a crash may have left incomplete files.
        remove_tree(checkpoint, missing_ok=True)
        return
    remedy = "restore the one that belongs to it, or start a new generation with --full-refresh"
    _remove_empty(checkpoint, done.batch, where, remedy)
    finished = finished_batch(checkpoint)
    if done.batch == 0 and finished is None:
        # The entry that finishes batch 0 was empty, after a power failure or on a full disk: repeat the batch.
        remove_tree(checkpoint)
        return
    if finished is None or not (checkpoint / "metadata").exists() or not (checkpoint / "state").is_dir():
        raise Damaged(f"{where}: its checkpoint {checkpoint} is missing although batches were done; {remedy}")
    if finished > done.batch:
        raise Damaged(
            f"{where}: its checkpoint has finished batch {finished}, which its journal {generation.journal.folder} does "
            f"not know: the journal is older than the checkpoint (a restored backup?); {remedy}"
        )
    # A crash leaves it one batch behind: the commit record is written before Spark finishes the batch.
    if finished < done.batch - 1:
        raise Damaged(
            f"{where}: its checkpoint has finished batch {finished}, its journal {generation.journal.folder} says that "
            f"batch {done.batch} was done: the checkpoint is older than the journal (a restored backup?); {remedy}"
        )
    _check_content(generation, done.batch, where, remedy)
    _remove_parts(generation, finished)
    follow_move(checkpoint)


def clear_unfinished_checkpoint(spark: SparkSession, checkpoint: Place) -> None:
    """Delete a checkpoint in a bucket in which Spark has finished no batch.

    Spark refuses to begin its first batch if there is a folder of state. In a bucket Hadoop makes empty objects for folders,
    whose names end in a slash: only Hadoop can delete them.
    """
    if "://" not in str(checkpoint) or finished_batch(checkpoint) is not None:
        return
    check_held()
    context: Any = spark.sparkContext
    path = context._jvm.org.apache.hadoop.fs.Path(str(checkpoint))
    path.getFileSystem(context._jsc.hadoopConfiguration()).delete(path, True)


def follow_move(checkpoint: Place) -> None:
    """Correct the absolute paths in Spark's metadata of the state schema, after the checkpoint was moved.

    The caller must hold the job's lock.
    """
    for entry, text in _written_elsewhere(checkpoint):
        write_durably(entry, text.encode())
        # Hadoop verifies a file with the checksum file beside it, which is out of date now.
        entry.with_name(f".{entry.name}.crc").unlink(missing_ok=True)


def check_is_readable(checkpoint: Place) -> None:
    """Check that Spark's state reader finds the files of a checkpoint. On a disk, `state_source` handles moved checkpoints.

    Raises:
        KeyfoldError: the checkpoint is in an object store, and was moved there after the last run.
    """
    if local_path(checkpoint) is None and next(_written_elsewhere(checkpoint), None) is not None:
        raise KeyfoldError(
            f"{checkpoint} was moved here, and has the old paths of its files: run the job once, which corrects them, and "
            "then read its state"
        )


def _written_elsewhere(checkpoint: Place) -> Iterator[tuple[Place, str]]:
    """Yield the metadata files that have old paths, each with its corrected content."""
    place = str(checkpoint) if "://" in str(checkpoint) else f"file:{checkpoint}"
    for metadata in (checkpoint / "state").glob("*/_metadata/v2"):
        entries = [metadata / str(number) for number in sorted(_numbers(metadata), reverse=True)]
        for entry in entries:
            text = entry.read_text(encoding="utf-8")
            here = _SCHEMA_FILE.sub(lambda found: f'"{place}/state/{found[1]}"', text)
            if here == text:
                break  # if the newest is correct, so are the older ones
            yield entry, here


def _remove_parts(generation: Generation, finished: int) -> None:
    """Remove state parts of a batch that Spark has not finished: the next attempt writes its own."""
    for file in list(files_below(generation.parts)):
        number = file.path.name.partition("-")[0]
        if number.isdigit() and int(number) > finished:
            file.path.unlink(missing_ok=True)


def _check_content(generation: Generation, last: int, where: str, remedy: str) -> None:
    """Check that the checkpoint's files have the recorded checksums: Spark would continue from an older version silently."""
    try:
        recorded = read_checksums(generation.journal.folder)
    except DamagedError:
        return  # `keyfold check` reports it
    if recorded is None:
        return
    for path, what in differences(recorded, {"checkpoint": generation.checkpoint}, trust_times=True):
        # A power failure leaves the last entries empty. `_remove_empty` has removed them, and the batch is repeated.
        if path.parent.name in ("commits", "offsets") and int(path.name) >= last and not path.exists():
            continue
        raise Damaged(f"{where}: {path} of its checkpoint {what} (a restored backup?); {remedy}")


def _remove_empty(checkpoint: Place, done: int, where: str, remedy: str) -> None:
    """Remove empty entries of batches that will be repeated; a power failure leaves them."""
    for log in ("offsets", "commits"):
        for file in list(files_below(checkpoint / log)):
            entry = file.path
            if file.bytes or not entry.name.isdigit():
                continue
            # Spark does not write entries of earlier batches again.
            if int(entry.name) < done:
                raise Damaged(f"{where}: {entry} of its checkpoint is empty; {remedy}")
            entry.unlink()
            entry.with_name(f".{entry.name}.crc").unlink(missing_ok=True)


def _entry(checkpoint: Place, batch: int) -> dict[str, Any]:
    """Read Spark's entry of a finished batch; empty if there is none."""
    try:
        # The first line is the version of Spark's format, such as `v1`.
        return json.loads((checkpoint / "commits" / str(batch)).read_text(encoding="utf-8").partition("\n")[2] or "{}")
    except (FileNotFoundError, ValueError):
        return {}


def _numbers(log: Place) -> list[int]:
    return [int(path.name) for path in log.glob("[0-9]*") if path.name.isdigit()]
