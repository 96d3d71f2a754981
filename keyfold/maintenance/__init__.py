"""Care of Delta tables, without a JVM: small files are joined, and files that nobody needs any more are deleted.

Joining is safe at any time for who reads: its commits say that they change no data, so jobs pass over them, and the
files it replaces stay. Deleting is not: a job opens the files that were added since it last read, long after later
versions have replaced those. So

- files are kept for the retention at least, and back to the oldest version that a keyed job has yet to read;
- a job that has not read anything begins with the table as it is then, and needs nothing older;
- files that a commit record names and the table has yet to take are kept;
- where it cannot be told how far a job has come, nothing of the table is deleted.

Readers outside of Keyfold are not known here: give them a retention that is long enough.
"""

from keyfold.maintenance.one_table import RETENTION, Maintained, maintain

__all__ = ["RETENTION", "Maintained", "maintain"]
