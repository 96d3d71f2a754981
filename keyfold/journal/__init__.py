"""The journal: what each batch reads and at what time, written before it is worked on; what it made, written once.

FOLDER/000000017.plan.json   what batch 17 reads, and at what time
FOLDER/000000017.done.json   what it made: files by table, counts
FOLDER/history.jsonl         batches of which the two are not kept any more, a line each

A plan never changes: a crash replays it. A commit record is the commit: the tables' own commits are made from it, and a
second attempt's rows are never used once there is one.
"""

from keyfold.journal.journal import Journal, PastBatch
from keyfold.journal.records import Done, Plan

__all__ = ["Done", "Journal", "PastBatch", "Plan"]
