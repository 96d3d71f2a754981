"""What a table's log remembers of files that the table has replaced: each of its checkpoints names them all, for a week by default.

A table that takes a batch a second replaces 600,000 files a week. Its checkpoints, of which one comes every ten versions,
would have 36 MB each, and whoever opens the table reads one.
"""

from datetime import timedelta

from deltalake import DeltaTable

from keyfold.maintenance.one_table import RETENTION
from keyfold.storage.place import Place

_PROPERTY = "delta.deletedFileRetentionDuration"


def remember_removals(table: Place, retention: timedelta) -> None:
    """Have a table's log remember for so long which files were replaced: as long as maintenance keeps the files themselves.

    Nobody else may write to the table meanwhile: who appends to it would have to begin again.

    Args:
        table: an existing Delta table.
        retention: as `maintain` takes it.
    """
    delta = DeltaTable(str(table))
    wanted = _told(retention)
    # Where a table says nothing, it is Delta's own default.
    if delta.metadata().configuration.get(_PROPERTY, _told(RETENTION)) != wanted:
        delta.alter.set_table_properties({_PROPERTY: wanted})


def _told(retention: timedelta) -> str:
    return f"interval {retention // timedelta(seconds=1)} seconds"
