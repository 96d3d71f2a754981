"""Set how long a table's log checkpoints name removed files, a week by default.

A table with a batch per second removes 600,000 files a week. Its checkpoints, one per ten versions, would have 36 MB each, and
opening the table reads one.
"""

from datetime import timedelta

from deltalake import DeltaTable

from keyfold.maintenance.one_table import RETENTION
from keyfold.storage.place import Place

_PROPERTY = "delta.deletedFileRetentionDuration"


def remember_removals(table: Place, retention: timedelta) -> None:
    """Make a table's log name removed files for as long as maintenance keeps the files.

    No other process may write to the table meanwhile, since a concurrent append would fail.

    Args:
        table: an existing Delta table.
        retention: as for `maintain`.
    """
    delta = DeltaTable(str(table))
    wanted = _as_interval(retention)
    # A table without the property has Delta's default.
    if delta.metadata().configuration.get(_PROPERTY, _as_interval(RETENTION)) != wanted:
        delta.alter.set_table_properties({_PROPERTY: wanted})


def _as_interval(retention: timedelta) -> str:
    return f"interval {retention // timedelta(seconds=1)} seconds"
