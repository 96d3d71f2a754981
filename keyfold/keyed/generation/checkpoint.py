"""Spark's checkpoint of a generation: which batches it has finished, and whether that fits the journal.

Spark numbers its batches as the journal does. It finishes one after the journal has its commit record, so it is level with
the journal or one batch behind; what it began and the journal does not know counts for nothing.
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
from keyfold.storage.place import Place
from keyfold.storage.remote_path import RemotePath

_SCHEMA_FILE = re.compile(r'"(?:file|s3a):[^"]*?/checkpoint/state/(\d+/_stateSchema/[^"]*)"')


def finished_batch(checkpoint: Place) -> int | None:
    """The last batch that Spark has finished, None before the first."""
    return max(_numbers(checkpoint / "commits"), default=None)


def state_identities(checkpoint: Place, batch: int) -> dict[str, str]:
    """What tells the state of a finished batch from what other attempts at it wrote, by the name of the partition's folder.

    Spark's files of state are named by it, and the entry that finishes the batch names it. So a driver that stood still for longer
    than its lease, and goes on beside the run that took over, writes files that nobody reads. Empty for checkpoints
    that were begun before files had it.
    """
    stores = _entry(checkpoint, batch).get("stateUniqueIds", {}).get("0", [])
    return {str(partition): f"_{identities[0]}" for partition, identities in enumerate(stores)}


def names_attempts(checkpoint: Place) -> bool:
    """Whether files of state are named by the attempt that wrote them; not so where a checkpoint began before they were."""
    finished = finished_batch(checkpoint)
    return finished is None or bool(state_identities(checkpoint, finished))


def check_checkpoint(generation: Generation, where: str) -> None:
    """See that the checkpoint is of one time with the journal, and take away what a crash left half written.

    Raises:
        KeyfoldError: it is lost, older or newer than the journal; names the remedy.
    """
    checkpoint, done = generation.checkpoint, generation.journal.last_done()
    if done is None or (done.batch == 0 and finished_batch(checkpoint) is None):
        # No batch, or one that is worked on again from nothing: whatever is there, a crash may have left half of it.
        remove_tree(checkpoint, missing_ok=True)
        return
    remedy = "restore the one that belongs to it, or start a new generation with --full-refresh"
    _remove_empty(checkpoint, done.batch, where, remedy)
    finished = finished_batch(checkpoint)
    if done.batch == 0 and finished is None:
        # The entry that said that it was finished was empty: a power cut, or a full disk.
        remove_tree(checkpoint)
        return
    if finished is None or not (checkpoint / "metadata").exists() or not (checkpoint / "state").is_dir():
        raise Damaged(f"{where}: its checkpoint {checkpoint} is missing although batches were done; {remedy}")
    if finished > done.batch:
        raise Damaged(
            f"{where}: its checkpoint has finished batch {finished}, which its journal {generation.journal.folder} does "
            f"not know: the journal is older than the checkpoint (a restored backup?); {remedy}"
        )
    # One behind is as a crash leaves it: the commit record comes first, Spark's own commit after.
    if finished < done.batch - 1:
        raise Damaged(
            f"{where}: its checkpoint has finished batch {finished}, its journal {generation.journal.folder} says that "
            f"batch {done.batch} was done: the checkpoint is older than the journal (a restored backup?); {remedy}"
        )
    _check_content(generation, done.batch, where, remedy)
    _remove_parts(generation, finished)
    follow_move(checkpoint)


def clear_what_was_begun(spark: SparkSession, checkpoint: Place) -> None:
    """Take away what stands in a store for the folders of a checkpoint in which Spark has finished no batch.

    Spark begins its first batch only where there is no folder of state. In a bucket Hadoop makes empty objects for folders,
    by names that end in a slash, which nobody but Hadoop can name.
    """
    if "://" not in str(checkpoint) or finished_batch(checkpoint) is not None:
        return
    check_held()
    context: Any = spark.sparkContext
    path = context._jvm.org.apache.hadoop.fs.Path(str(checkpoint))
    path.getFileSystem(context._jsc.hadoopConfiguration()).delete(path, True)


def follow_move(checkpoint: Place) -> None:
    """Put the checkpoint's own place into what Spark wrote of its state's schema: it names files by their whole path.

    Call it only under the lock of whoever writes there.
    """
    for entry, text in _written_elsewhere(checkpoint):
        write_durably(entry, text.encode())
        # Hadoop compares a file with the checksum beside it, and would call the mended one damaged.
        entry.with_name(f".{entry.name}.crc").unlink(missing_ok=True)


def check_is_readable(checkpoint: Place) -> None:
    """See that Spark's reader of state finds the files of a checkpoint; on a disk it is led to those of one that was moved.

    Raises:
        KeyfoldError: it lies in a store, and was moved there since a run last wrote to it.
    """
    if isinstance(checkpoint, RemotePath) and next(_written_elsewhere(checkpoint), None) is not None:
        raise KeyfoldError(
            f"{checkpoint} was moved here, and names its files where they were: run the job once, which puts that right, and "
            "read its state then"
        )


def _written_elsewhere(checkpoint: Place) -> Iterator[tuple[Place, str]]:
    """What names files of the checkpoint where they were, each with what it is to hold."""
    place = str(checkpoint) if "://" in str(checkpoint) else f"file:{checkpoint}"
    for metadata in (checkpoint / "state").glob("*/_metadata/v2"):
        entries = [metadata / str(number) for number in sorted(_numbers(metadata), reverse=True)]
        for entry in entries:
            text = entry.read_text(encoding="utf-8")
            here = _SCHEMA_FILE.sub(lambda found: f'"{place}/state/{found[1]}"', text)
            if here == text:
                break  # the newest is of this place, and so are all before it
            yield entry, here


def _remove_parts(generation: Generation, finished: int) -> None:
    """Remove parts of state that an attempt wrote at a batch which Spark has not finished: the next one writes its own."""
    for file in list(files_below(generation.parts)):
        number = file.path.name.partition("-")[0]
        if number.isdigit() and int(number) > finished:
            file.path.unlink(missing_ok=True)


def _check_content(generation: Generation, last: int, where: str, remedy: str) -> None:
    """See that the checkpoint's files are those that the journal knows: Spark goes on from an older version's without a word."""
    try:
        recorded = read_checksums(generation.journal.folder)
    except DamagedError:
        return  # `keyfold check` names it
    if recorded is None:
        return
    for path, what in differences(recorded, {"checkpoint": generation.checkpoint}, trust_times=True):
        # A power cut leaves the last ones empty; `_remove_empty` has taken them away, and the batch is worked on again.
        if path.parent.name in ("commits", "offsets") and int(path.name) >= last and not path.exists():
            continue
        raise Damaged(f"{where}: {path} of its checkpoint {what} (a restored backup?); {remedy}")


def _remove_empty(checkpoint: Place, done: int, where: str, remedy: str) -> None:
    """Remove entries without content, as a power cut leaves them, of batches that will be worked on again."""
    for log in ("offsets", "commits"):
        for file in list(files_below(checkpoint / log)):
            entry = file.path
            if file.bytes or not entry.name.isdigit():
                continue
            # Spark goes on from earlier ones and does not write them again.
            if int(entry.name) < done:
                raise Damaged(f"{where}: {entry} of its checkpoint is empty; {remedy}")
            entry.unlink()
            entry.with_name(f".{entry.name}.crc").unlink(missing_ok=True)


def _entry(checkpoint: Place, batch: int) -> dict[str, Any]:
    """What Spark says of a batch that it has finished."""
    try:
        return json.loads((checkpoint / "commits" / str(batch)).read_text(encoding="utf-8").partition("\n")[2] or "{}")
    except (FileNotFoundError, ValueError):
        return {}


def _numbers(log: Place) -> list[int]:
    return [int(path.name) for path in log.glob("[0-9]*") if path.name.isdigit()]
