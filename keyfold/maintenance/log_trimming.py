"""Delete old entries of a table's log, back to what its readers still need."""

import re
import time
from datetime import timedelta

from deltalake import DeltaTable

from keyfold.lakehouse import Lakehouse
from keyfold.maintenance.readers import readers
from keyfold.storage.place import Place

KEPT_VERSIONS = 1_000
"""Minimum number of newest versions to keep, besides those that jobs still have to read."""

_MARGIN = timedelta(minutes=10)
"""Younger entries are kept, since a reader may have listed them and be about to read them."""

_ENTRY = re.compile(r"\.?(\d{20})\.(?:json|crc|checkpoint\.)")


def trim_log(lakehouse: Lakehouse, name: str, table: Place, newest: int = KEPT_VERSIONS) -> int:
    """Delete old entries of a table's log, and return their number. Older versions of the table cannot be read afterwards.

    Args:
        lakehouse: the lakehouse of the jobs that read the table.
        name: the table's name in plans: `events.<stream>`, or that of a job's table.
        table: the table's folder.
        newest: minimum number of newest versions to keep.

    Raises:
        KeyfoldError: a job's journal cannot be read, so that it is not known what it still has to read.
    """
    bound = DeltaTable(str(table)).version() - newest
    # Keep the entry that a job read last, by which it recognizes the table.
    bound = min([bound, *(reader.read for reader in readers(lakehouse, name, table))])
    entries = [(int(entry[1]), path) for path in (table / "_delta_log").iterdir() if (entry := _ENTRY.match(path.name))]
    # Reading a version needs an earlier checkpoint, so the kept entries must begin with one.
    checkpoints = [version for version, path in entries if ".checkpoint." in path.name and path.name[0] != "."]
    first = max((version for version in checkpoints if version <= bound), default=0)
    oldest = time.time_ns() - _MARGIN / timedelta(microseconds=1) * 1000
    # Oldest first, so that an interruption leaves no gap.
    unneeded = [path for version, path in sorted(entries) if version < first and path.stat().st_mtime_ns < oldest]
    for path in unneeded:
        path.unlink(missing_ok=True)
    return len(unneeded)
