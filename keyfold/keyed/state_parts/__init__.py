"""Store state in parts: sorted files, of which a batch reads and writes only what changes.

The state of a partition has a *base*, files of rows sorted by slot that share no slot, and *changes*, parts of later batches.
Each row of a part has a mark: it replaces all older rows of its slot, or is added to them, or says that the slot has no rows
any more. The rows of a slot are those from its last replacement on, in the order of the parts.

Small parts are in the partition's manifest (`generation.manifests`), and larger parts are Parquet files. Changes are compacted with
each other as they accumulate (each compaction doubles a part, as in a log-structured merge tree: O'Neil et al., 1996), and with the
base when they have half as many rows.
"""
