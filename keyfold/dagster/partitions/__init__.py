"""Report a table's partitions of event time: which are complete, and which have changed since."""
