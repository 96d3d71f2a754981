"""Store files on a disk or in an object store: paths, atomic writes, locks and leases."""
