"""Copy all rows of a Delta table to another one by linking its data files: no row is read or written."""

import re
import time
import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction

from keyfold.errors import IncompatibleState, Locked
from keyfold.lakehouse.commits import make_durable, statistics_of
from keyfold.lakehouse.data_files import STAGED
from keyfold.lakehouse.fail_points import fail_point
from keyfold.lakehouse.paths import is_table
from keyfold.lakehouse.positions import moved_to, moving, position_at
from keyfold.lakehouse.reading import data_file_paths, parquet_file
from keyfold.runners.in_threads import in_threads
from keyfold.storage.lease import check_held
from keyfold.storage.place import Place

REPLACED = (1 << 62) - 1
"""The number of a transaction that ends an application's commits to a table: it has taken every batch."""

_TRIES = 100
_THREADS = 8
"""Footers of files that are read at a time."""


def carry_rows(source: Place, target: Place) -> int:
    """Add all rows of a table to an empty one, and return their number.

    Each table has its own log: later changes of one do not affect the other. A file stays on disk as long as either
    table has a link to it.

    Args:
        source: an existing Delta table.
        target: an empty Delta table on the same disk. Columns that it lacks are left out: files keep them, unseen.

    Raises:
        KeyfoldError: the target has another type for a column, or a new one which files of the source have from before it was
            left out; nothing was changed.
    """
    delta, into = DeltaTable(str(source)), DeltaTable(str(target))
    _check_fits(delta, into, source)
    # New names: a commit cannot both remove a file and add one of its name, if these rows replace the source's later.
    names = {path: _renamed(path) for path in map(unquote, delta.get_add_actions()["path"].to_pylist())}
    _link(source, target, names)
    if names:
        check_held()
        left_out = {field.name for field in _schema(delta)} - {field.name for field in _schema(into)}
        into.create_write_transaction(_additions(delta, names, left_out), mode="append", schema=into.schema())
        (target / "_delta_log").sync_folder()
    return delta.count()


def replace_rows(source: Place, target: Place, taken: Mapping[str, int | None], replaced: str | None) -> None:
    """Replace all rows and columns of a table by those of another one, in one commit. Older versions stay in its history.

    A reader that has read all of the source can continue in the target (`positions.check_position`). Calling it again after a
    crash does what is left.

    Args:
        source: an existing Delta table, which nothing else writes to.
        target: the folder of the table, which need not exist.
        taken: transactions of the commit, by application; those without a number are left out.
        replaced: the application whose rows are replaced. It cannot commit to the target any more.

    Raises:
        KeyfoldError: other processes commit to the target all the time.
    """
    delta = DeltaTable(str(source))
    position = position_at(source, delta.version())
    if not is_table(target):
        DeltaTable.create(
            str(target), delta.schema(), mode="ignore", configuration=dict(delta.metadata().configuration)
        )
    if moved_to(target, position) is None:
        # Rows that the replaced application staged for its upserts.
        (target / STAGED).remove_tree(missing_ok=True)
    names = {path: path for path in map(unquote, delta.get_add_actions()["path"].to_pylist())}
    # Its own staged rows too, which commit records name.
    staged = (f"{STAGED}/{file.below}" for file in (source / STAGED).files_below())
    _link(source, target, names | {path: path for path in staged})
    fail_point("going live: files linked")
    additions = _additions(delta, names)
    ends = [] if replaced is None else [Transaction(replaced, REPLACED)]
    numbers = [Transaction(application, number) for application, number in taken.items() if number is not None]
    for _ in range(_TRIES):
        if moved_to(target, position) is not None:
            return
        into = DeltaTable(str(target))
        read = into.version()
        properties = CommitProperties(
            custom_metadata={"keyfold": "went live"},
            # The number of the version, so no other commit may come in between.
            app_transactions=[Transaction(moving(position), read + 1), *numbers, *ends],
            max_commit_retries=0,
        )
        check_held()
        try:
            into.create_write_transaction(
                additions, mode="overwrite", schema=delta.schema(), commit_properties=properties
            )
        except CommitFailedError:
            continue  # maintenance has committed: read the table again
        make_durable(target, read)
        return
    raise Locked(f"{target}: not replaced, since other processes commit to it all the time; run again")


def _link(source: Place, target: Place, names: Mapping[str, str]) -> None:
    for path, name in names.items():
        # An earlier call may have linked it. In a bucket it is copied, which may be repeated.
        with suppress(FileExistsError):
            (source / path).add_name(target / name)
    # A set: files of one folder need a single sync, before the commit that names them.
    for folder in {(target / name).parent for name in names.values()}:
        folder.sync_folder()


def _renamed(path: str) -> str:
    name, new = PurePosixPath(path).name, uuid.uuid4().hex
    own = re.sub(r"[0-9a-f]{32}(?=\.parquet$)", new, name, count=1)
    return str(PurePosixPath(path).with_name(own if own != name else f"part-{new}.parquet"))


def _additions(
    delta: DeltaTable, names: Mapping[str, str], left_out: Collection[str] = ()
) -> list[AddAction | RemoveAction]:
    """Return the actions that add the files of a table under other names, without statistics of columns that are left out."""
    listed = delta.get_add_actions(flatten=True)
    unseen = {f"{end}.{name}" for end in ("min", "max") for name in left_out}
    columns = {name: listed[name].to_pylist() for name in listed.schema.names if name not in unseen}
    return list(_additions_of(columns, names, time.time_ns() // 1_000_000))


def _additions_of(columns: Mapping[str, Any], names: Mapping[str, str], now: int) -> Iterator[AddAction]:
    for at, quoted in enumerate(columns["path"]):
        spans = {end: _spans(columns, end, at) for end in ("min", "max")}
        statistics = statistics_of(int(columns["num_records"][at]), spans["min"], spans["max"])
        yield AddAction(names[unquote(quoted)], columns["size_bytes"][at], {}, now, True, statistics)


def _check_fits(delta: DeltaTable, into: DeltaTable, source: Place) -> None:
    before, after = ({field.name: field.type for field in _schema(table)} for table in (delta, into))
    for name, kind in before.items():
        if after.get(name, kind) != kind:
            raise IncompatibleState(
                f"the rows of {source} do not fit the new table: column {name} is {kind}, and {after[name]} in the new "
                "table; let the job read its events again, with --full-refresh"
            )
    new = after.keys() - before.keys()
    files = data_file_paths(source) if new else ()
    left = set[str]().union(*in_threads((partial(_columns_of, file, new) for file in files), _THREADS))
    if left:
        raise IncompatibleState(
            f"files of {source} still have {', '.join(sorted(left))} from before it was left out, with other values: give the new "
            "column another name, or let the job read its events again, with --full-refresh"
        )


def _schema(table: DeltaTable) -> pa.Schema:
    return pa.schema(table.schema().to_arrow())  # type: ignore[arg-type]


def _columns_of(file: Place, names: Collection[str]) -> set[str]:
    with parquet_file(file) as opened:
        return {*opened.schema_arrow.names}.intersection(names)


def _spans(columns: Mapping[str, Any], end: str, at: int) -> dict[str, str]:
    """Return the minimum or maximum of each column of times of a file, as ISO 8601 in UTC."""
    return {
        name.removeprefix(f"{end}."): value.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        for name in columns
        if name.startswith(f"{end}.") and hasattr(value := columns[name][at], "strftime")
    }
