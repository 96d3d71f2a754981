"""Commits of files that somebody else wrote: each batch of an application reaches a table once, however often it is tried.

What names a batch is Delta's own transaction record, (application, number): a table that has taken a number, or a later
one, takes it no more. A second one holds a digest of the batch's files, by which histories are told apart. The log entry is made durable before whoever committed goes on.
"""

import json
import time
from collections.abc import Mapping, Sequence
from urllib.parse import unquote

from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction

from keyfold.errors import Damaged, Locked
from keyfold.lakehouse.checksums import checksum_of_bytes
from keyfold.lakehouse.data_files import WrittenFile
from keyfold.lakehouse.files import sync_file, sync_folder
from keyfold.lakehouse.log_changes import DataFile
from keyfold.storage.lease import check_held
from keyfold.storage.place import Place

NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
"""For what is done beside runs: checkpoints of the log and its clean-up come with the tables' own commits."""


_TRIES = 100
"""Commits of others that may come between the look at a table and the replacement of its files."""


def committed_batch(table: Place, application: str) -> int | None:
    """The newest batch of an application that a table has taken, None before the first."""
    return DeltaTable(str(table)).transaction_version(application)


def committed_digest(delta: DeltaTable, application: str) -> int | None:
    """The `digest_of` the newest batch of an application that a table has taken; None where an older Keyfold committed it."""
    return delta.transaction_version(_of_files(application))


def digest_of(files: Sequence[WrittenFile]) -> int:
    """What tells a batch's files from those of the same number in another history: their names are random."""
    names = "\n".join(sorted(file.path for file in files))
    # A transaction's number has 63 bits.
    return int(checksum_of_bytes(names.encode()), 16) >> 1


def _of_files(application: str) -> str:
    return f"{application}#files"


def append_files(table: Place, files: Sequence[WrittenFile], application: str, batch: int) -> None:
    """Append written files to a table, unless it has taken this batch before.

    Args:
        table: an existing Delta table.
        files: in its folder; none makes no commit.
        application: names the sequence of batches in the table's log.
        batch: grows from one commit to the next.
    """
    if not files:
        return
    delta = DeltaTable(str(table))
    if not has_taken(delta, application, batch):
        commit_once(delta, table, [add_action(file) for file in files], files, application, batch)


def replace_files(table: Place, gone: Sequence[DataFile], files: Sequence[WrittenFile]) -> None:
    """Put written files in the place of others that hold the same rows: who reads the table's additions sees nothing new.

    Args:
        table: an existing Delta table.
        gone: files that it consists of; they stay on disk.
        files: in its folder, with the rows of those.

    Raises:
        KeyfoldError: the files do not have as many rows, or another process has replaced some of those; nothing is done.
    """
    before, after = sum(file.rows for file in gone), sum(file.rows for file in files)
    if before != after:
        raise Damaged(f"{table}: {before:,} rows became {after:,} as files were joined; they are left as they were")
    now = time.time_ns() // 1_000_000
    actions: list[AddAction | RemoveAction] = [add_action(file, is_new=False) for file in files]
    actions += [RemoveAction(file.path, False, now, file.bytes, {}) for file in gone]
    # Without tries of Delta's library, which does not look whether another commit has removed the same files: their rows
    # would be there twice.
    properties = CommitProperties(custom_metadata={"keyfold": "files joined"}, max_commit_retries=0)
    for _ in range(_TRIES):
        delta = DeltaTable(str(table))
        # Delta's log has paths as URLs: a blank in a partition or a name is %20 there.
        there = {unquote(path) for path in delta.get_add_actions()["path"].to_pylist()}
        if not there.issuperset(file.path for file in gone):
            raise Locked(f"{table}: another process has replaced some of its files meanwhile; let one at a time do so")
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
            continue  # an append, it may be
        _make_durable(delta, table, read)
        return
    raise Locked(f"{table}: other processes commit to it all the time, so that its files were not joined")


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
    """Commit a batch durably, which another run may do too, from the same commit record, where this one has lost its lease.

    Args:
        delta: the table as it was read.
        table: its folder.
        actions: the batch's.
        files: the batch's, by whose names this commit is told from that of another history.
        application: names the sequence of batches in the table's log.
        batch: whose commit it is.
        nobody_else: refuse where anybody has committed since the table was read, even if it was only to append.

    Raises:
        KeyfoldError: another process has written to the table at the same time; it has not taken the batch.
    """
    # Without another try, Delta's library does not look whether what it finds would go together with this.
    properties = CommitProperties(
        app_transactions=[Transaction(application, batch), Transaction(_of_files(application), digest_of(files))],
        max_commit_retries=0 if nobody_else else None,
    )
    read = delta.version()
    check_held()
    try:
        delta.create_write_transaction(
            list(actions), mode="append", schema=delta.schema(), commit_properties=properties
        )
    except CommitFailedError as error:
        if not has_taken(DeltaTable(str(table)), application, batch):
            raise Locked(
                f"{table}: another process has written to it at the same time, and batch {batch} was not committed "
                f"({error}); run again"
            ) from None
    _make_durable(delta, table, read)


def has_taken(delta: DeltaTable, application: str, batch: int) -> bool:
    """Whether a table, as it was read, has taken a batch of an application, or a later one."""
    taken = delta.transaction_version(application)
    return taken is not None and taken >= batch


def add_action(file: WrittenFile, *, is_new: bool = True) -> AddAction:
    """What names a written file in a table's log.

    Args:
        file: in the table's folder.
        is_new: whether who reads the table's additions reads it.
    """
    now = time.time_ns() // 1_000_000
    return AddAction(file.path, file.bytes, {}, now, is_new, statistics_of(file.rows, file.first, file.last))


def statistics_of(rows: int, first: Mapping[str, str], last: Mapping[str, str]) -> str:
    """A data file's statistics as Delta's log has them."""
    return json.dumps({"numRecords": rows, "minValues": first, "maxValues": last, "nullCount": {}})


def _make_durable(delta: DeltaTable, table: Place, read: int) -> None:
    """A log entry that a power cut takes away would be one that the journal counts on; others may have come after it.

    Args:
        delta: the table that was committed to.
        table: its folder.
        read: its version before.
    """
    delta.update_incremental()
    log = table / "_delta_log"
    for version in range(read + 1, delta.version() + 1):
        sync_file(log / f"{version:020d}.json")
    sync_folder(log)
