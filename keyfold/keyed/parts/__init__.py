"""State in parts: what a state partition holds, as sorted files of which a batch reads and writes what changed.

A partition's state is a *base*, files of rows sorted by slot that share none, and *changes*, parts of later batches. Each row
of a part is marked: it replaces all that older parts say of its slot, or is added to it, or stands for a slot that has no rows
any more. The rows of a slot are those from its last replacement on, in the order of the parts.
Small parts lie in the manifest itself, which Spark keeps as the partition's value; larger ones are Parquet files beside
Spark's checkpoint. Changes are joined with each other as they add up (each join doubles a part, as in a log-structured merge
tree: O'Neil et al., 1996), and with the base once they have half its rows.
"""
