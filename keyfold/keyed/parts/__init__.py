"""State in parts: what a state partition holds, as sorted files of which a batch reads and writes what changed.

A partition's state is a *base*, files of rows sorted by slot that share none, and *changes*, parts of later batches. A part
replaces all that older ones say of its slots; a row that is marked as gone stands for a slot that has no rows any more.
Small parts lie in the manifest itself, which Spark keeps as the partition's value; larger ones are Parquet files beside
Spark's checkpoint. Changes are joined with each other as they add up (each join doubles a part, as in a log-structured merge
tree: O'Neil et al., 1996), and with the base once they have half its rows.
"""
