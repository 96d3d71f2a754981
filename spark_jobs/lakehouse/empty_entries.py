"""Entries of a Delta log that are empty: whoever reads the table takes one for a commit that did nothing, and misses rows.

A disk that lost power amid a commit may leave its entry so, as the last; any other was put there by somebody, or by a
file system that has failed.
"""

import re

from spark_jobs.errors import KeyfoldError
from spark_jobs.lakehouse.files import files_below, sync_folder
from spark_jobs.objects.lease import check_held
from spark_jobs.objects.place import Place

_ENTRY = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.")


def empty_entries(table: Place) -> list[int]:
    """Versions of a Delta table whose log entries count and are empty, in order; those that a checkpoint holds do not count."""
    checkpoint, empty = -1, []
    for file in files_below(table / "_delta_log"):
        if found := _CHECKPOINT.match(file.path.name):
            checkpoint = max(checkpoint, int(found[1]))
        elif not file.bytes and (found := _ENTRY.fullmatch(file.path.name)):
            empty.append(int(found[1]))
    return sorted(version for version in empty if version > checkpoint)


def check_no_entry_is_empty(table: Place) -> None:
    """See that a table's log tells all that it should.

    Raises:
        KeyfoldError: an entry is empty.
    """
    for version in empty_entries(table):
        raise told_of(table, version)


def told_of(table: Place, version: int) -> KeyfoldError:
    """What to say of an empty entry to who reads the table."""
    return KeyfoldError(
        f"the log of {table} is damaged: entry {version} is empty, so that what it said is missing from the table; restore "
        "it. Of a table of Keyfold, its next ingest or run says what else can be done"
    )


def take_back(table: Place, version: int) -> None:
    """Remove the last entry, which is empty: a commit that a loss of power broke off."""
    check_held()
    log = table / "_delta_log"
    (log / f"{version:020d}.json").unlink()
    sync_folder(log)
