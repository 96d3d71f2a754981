"""Maintain Delta tables without a JVM: compaction of small files, and deletion of files that are no longer needed.

Compaction is safe for readers at any time: its commits change no data, so jobs skip them, and the replaced files stay.
Deletion needs care, since a job opens the files that were added after its last read, even if later versions have replaced
them. So:

- Files are kept for the retention period, and back to the oldest version that a keyed job still has to read.
- A job that has not read anything begins with the current version, and needs nothing older.
- Files that a commit record names are kept until the table has that commit.
- If the position of a job is not known, nothing of the table is deleted.

Readers outside of Keyfold are not known: choose a retention period that is long enough for them.
"""

from keyfold.maintenance.one_table import RETENTION, Maintained, MaintainedTable, maintain

__all__ = ["RETENTION", "Maintained", "MaintainedTable", "maintain"]
