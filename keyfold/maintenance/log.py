"""Old entries of a Delta log, which whoever opens a table lists, all of them: a table that takes a batch a second gets 600,000 a week.

Delta itself deletes entries after 30 days (`delta.logRetentionDuration`), by their age alone; of event tables it does not
(`lakehouse.tables`). Here it goes by their number, and by who has yet to read them.
"""

import re
import time
from datetime import timedelta

from deltalake import DeltaTable

from keyfold.lakehouse import Lakehouse
from keyfold.maintenance.readers import readers
from keyfold.storage.place import Place

KEPT_VERSIONS = 1_000
"""So many of the newest are kept at least, and so is what jobs have yet to read."""

_MARGIN = timedelta(minutes=10)
"""Younger entries are kept: somebody may have listed them, and be about to read them."""

_ENTRY = re.compile(r"\.?(\d{20})\.(?:json|crc|checkpoint\.)")


def trim_log(lakehouse: Lakehouse, name: str, table: Place, kept: int = KEPT_VERSIONS) -> int:
    """Delete old entries of a table's log; gives how many. Versions before the oldest that is left can be read no more.

    Args:
        lakehouse: where the jobs are that read the table.
        name: of the table in plans, `events.<stream>` or a job's.
        table: its folder.
        kept: newest versions that are kept at least.

    Raises:
        KeyfoldError: a job's journal cannot be read, so that it cannot be told what it has yet to read.
    """
    bound = DeltaTable(str(table)).version() - kept
    # The entry of the version that a job has read last identifies the table to it.
    bound = min([bound, *(reader.read for reader in readers(lakehouse, name, table))])
    entries = [(int(found[1]), path) for path in (table / "_delta_log").iterdir() if (found := _ENTRY.match(path.name))]
    # A version is read from a checkpoint before it on, so that what is kept begins with one.
    checkpoints = [version for version, path in entries if ".checkpoint." in path.name and path.name[0] != "."]
    first = max((version for version in checkpoints if version <= bound), default=0)
    oldest = time.time_ns() - _MARGIN / timedelta(microseconds=1) * 1000
    # The oldest first: whatever breaks this off, what is left has no hole.
    gone = [path for version, path in sorted(entries) if version < first and path.stat().st_mtime_ns < oldest]
    for path in gone:
        path.unlink(missing_ok=True)
    return len(gone)
