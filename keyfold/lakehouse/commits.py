"""Commit written data files to a Delta table: idempotent, each batch of an application is committed once.

A batch is identified by Delta's transaction record (application, number). A commit is skipped if the table has that number
or a later one. A second record holds a digest of the batch's file names; it distinguishes the same batch number of two
histories. The log entry is synced to disk before a commit returns.
"""

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import count

from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction

from keyfold.errors import Damaged, Locked
from keyfold.lakehouse.checksums import checksum_of_bytes
from keyfold.lakehouse.data_files import WrittenFile
from keyfold.lakehouse.log_changes import DataFile
from keyfold.lakehouse.presence import named_files
from keyfold.storage.lease import check_held
from keyfold.storage.place import Place

NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
"""For commits outside of runs: log checkpoints and log clean-up come with the commits of runs."""


_TRIES = 100
"""Tries of `replace_files`, each after another process has committed since it read the table."""


def committed_batch(table: Place, application: str) -> int | None:
    """Return the number of an application's newest batch in a table; None before the first."""
    return DeltaTable(str(table)).transaction_version(application)


def committed_digest(delta: DeltaTable, application: str) -> int | None:
    """Return the `digest_of` an application's newest batch in a table; None if the commit has none."""
    return delta.transaction_version(of_files(application))


def digest_of(files: Sequence[WrittenFile]) -> int:
    """Return a digest of a batch's file names. As names are random, the same batch of another history has another digest."""
    names = "\n".join(sorted(file.path for file in files))
    # Delta's transaction numbers have 63 bits.
    return int(checksum_of_bytes(names.encode()), 16) >> 1


def of_files(application: str) -> str:
    """Return the application whose numbers are the digests of another one's batches."""
    return f"{application}#files"


def append_files(
    table: Place, files: Sequence[WrittenFile], application: str, batch: int, delta: DeltaTable | None = None
) -> None:
    """Append written files to a table, unless it already has this batch.

    Args:
        table: an existing Delta table.
        files: files in its folder; without any, nothing is committed.
        application: the name of the sequence of batches in the table's log.
        batch: the batch's number, which increases from commit to commit.
        delta: the table, if it was opened since the last commit of this application: to open it again would list its whole log.
    """
    if not files:
        return
    delta = delta or DeltaTable(str(table))
    if not has_taken(delta, application, batch):
        commit_once(delta, table, [add_action(file) for file in files], files, application, batch)


def replace_files(table: Place, gone: Sequence[DataFile], files: Sequence[WrittenFile]) -> None:
    """Replace files of a table by files with the same rows. Readers of the table's additions see nothing new.

    Args:
        table: an existing Delta table.
        gone: files that the table consists of; they stay on disk.
        files: files in its folder with the same rows.

    Raises:
        KeyfoldError: the numbers of rows differ, or another process has replaced some of the files; nothing was changed.
    """
    before, after = sum(file.rows for file in gone), sum(file.rows for file in files)
    if before != after:
        raise Damaged(f"{table}: compaction made {after:,} rows of {before:,}; the table was not changed")
    now = time.time_ns() // 1_000_000
    actions: list[AddAction | RemoveAction] = [add_action(file, is_new=False) for file in files]
    # No data change: readers of the table's additions have read these rows.
    actions += [RemoveAction(file.path, False, now, file.bytes, {}) for file in gone]
    # No retries by Delta's library: it does not check whether another commit has removed the same files, and their rows
    # would be in the table twice.
    properties = CommitProperties(custom_metadata={"keyfold": "files joined"}, max_commit_retries=0)
    for _ in range(_TRIES):
        delta = DeltaTable(str(table))
        if not named_files(delta).keys() >= {file.path for file in gone}:
            raise Locked(
                f"{table}: another process has replaced some of its files; let only one process compact a table"
            )
        # Another commit was perhaps an append, which does not conflict: read the table again.
        if commit_next(delta, table, actions, properties):
            return
    raise Locked(f"{table}: not compacted, since other processes commit to it all the time; try again later")


def commit_next(
    delta: DeltaTable, table: Place, actions: list[AddAction | RemoveAction], properties: CommitProperties
) -> bool:
    """Commit as the version after the one that was read, durably; return False if another commit came first.

    Args:
        delta: the table as it was read.
        table: its folder.
        actions: what the commit adds and removes.
        properties: of the commit, without retries: Delta's library does not check whether another commit has removed the same files.
    """
    read = delta.version()
    check_held()
    try:
        delta.create_write_transaction(
            actions,
            mode="append",
            schema=delta.schema(),
            commit_properties=properties,
            post_commithook_properties=NO_HOOKS,
        )
    except CommitFailedError:
        return False
    make_durable(table, read)
    return True


def commit_once(
    delta: DeltaTable,
    table: Place,
    actions: Sequence[AddAction | RemoveAction],
    files: Sequence[WrittenFile],
    application: str,
    batch: int,
    *,
    nobody_else: bool = False,
) -> None:
    """Commit a batch durably. It succeeds too if another run, which took over the lease, has committed the same batch.

    Args:
        delta: the table as it was read.
        table: its folder.
        actions: the actions of the commit.
        files: the batch's files, of which the commit stores a digest.
        application: the name of the sequence of batches in the table's log.
        batch: the batch's number.
        nobody_else: fail on any commit since the table was read, also on an append.

    Raises:
        KeyfoldError: another process wrote to the table at the same time, and the batch was not committed.
    """
    # With no retries, Delta's library refuses any concurrent commit, also one that would not conflict.
    properties = CommitProperties(
        app_transactions=[Transaction(application, batch), Transaction(of_files(application), digest_of(files))],
        max_commit_retries=0 if nobody_else else None,
    )
    read = delta.version()
    check_held()
    try:
        delta.create_write_transaction(
            list(actions), mode="append", schema=delta.schema(), commit_properties=properties
        )
    except CommitFailedError as error:
        # This run's commit may have succeeded although its answer was lost, or the run that took over has made it.
        if not has_taken(DeltaTable(str(table)), application, batch):
            raise Locked(
                f"{table}: another process has written to it at the same time, and batch {batch} was not committed "
                f"({error}); run again"
            ) from None
    make_durable(table, read)


def has_taken(delta: DeltaTable, application: str, batch: int) -> bool:
    """Whether a table, as it was read, has an application's batch or a later one."""
    taken = delta.transaction_version(application)
    return taken is not None and taken >= batch


def add_action(file: WrittenFile, *, is_new: bool = True) -> AddAction:
    """Return the action that adds a written file to a table's log.

    Args:
        file: a file in the table's folder.
        is_new: whether its rows are new to readers of the table's additions.
    """
    now = time.time_ns() // 1_000_000
    return AddAction(file.path, file.bytes, {}, now, is_new, statistics_of(file.rows, file.first, file.last))


def statistics_of(rows: int, first: Mapping[str, str], last: Mapping[str, str]) -> str:
    """Return a data file's statistics as JSON, in the form of Delta's log."""
    return json.dumps({"numRecords": rows, "minValues": first, "maxValues": last, "nullCount": {}})


def make_durable(table: Place, read: int) -> None:
    """Sync the log entries of a commit, since the journal relies on them after a power cut. Objects of a store are durable.

    Args:
        table: the folder of the table that was committed to.
        read: its version before. All later entries are synced, as others may have committed too.
    """
    if table.local_path is None:
        return
    log = table / "_delta_log"
    # Up to the first that is not there: to ask Delta for the newest version would list the whole log.
    with suppress(FileNotFoundError):
        for version in count(read + 1):
            (log / f"{version:020d}.json").sync_file()
    log.sync_folder()
