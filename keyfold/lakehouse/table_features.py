"""Find features of a Delta table with which its files are not all there is to its rows, so that Keyfold cannot change it by files.

Keyfold makes tables without any; somebody else may have turned one on.
"""

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from keyfold.errors import IncompatibleState
from keyfold.storage.place import Place

_READ_AS_THEY_STAND = {"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"}
"""Reader features of a table that do not change the meaning of its files' rows."""

_CHANGE_DATA_FEED = "changeDataFeed"


def check_mergeable(delta: DeltaTable, table: Place) -> None:
    """Check that rows can be merged into a table.

    Raises:
        IncompatibleState: the table has a feature that this does not allow; says how to get rid of it.
    """
    features = _layout(delta)
    remedy = "turn it off (ALTER TABLE ... DROP FEATURE), or write the table anew with --full-refresh, which puts the old one aside"
    if delta.metadata().configuration.get("delta.enableChangeDataFeed") == "true":
        features.add(_CHANGE_DATA_FEED)
    if features == {_CHANGE_DATA_FEED}:
        remedy = (
            "turn it off (ALTER TABLE ... SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'false')), and run again"
        )
    if features:
        raise IncompatibleState(
            f"{table} has {', '.join(sorted(features))}; Keyfold cannot merge rows into such a table: {remedy}"
        )


def is_replaceable(table: Place) -> bool:
    """Return whether all files of a table can be replaced by plain ones; also if there is no table.

    Raises:
        DeltaError: its log is damaged.
    """
    try:
        return not _layout(DeltaTable(str(table)))
    except TableNotFoundError:
        return True


def _layout(delta: DeltaTable) -> set[str]:
    """Return the features that say how the files of a table are read."""
    protocol = delta.protocol()
    features = set(protocol.reader_features or ()) - _READ_AS_THEY_STAND
    if protocol.min_reader_version == 2:
        features.add("columnMapping")
    if delta.metadata().partition_columns:
        features.add("partitions")
    return features
