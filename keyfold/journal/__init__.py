"""The journal: a plan and a commit record for each batch of a job's generation, or of a stream's ingest.

FOLDER/000000017.plan.json   the plan of batch 17: its input and its clock, written before its work begins
FOLDER/000000017.done.json   its commit record: the files that it wrote, by table, and counts
FOLDER/history.jsonl         a line for each batch whose records are no longer kept

A plan never changes: after a crash the batch is repeated with it. The commit record commits the batch. The tables' Delta
commits are made from it, and rows of a repeated attempt are then ignored.
"""

from keyfold.journal.history import PastBatch
from keyfold.journal.journal import Journal
from keyfold.journal.records import Done, Plan

__all__ = ["Done", "Journal", "PastBatch", "Plan"]
