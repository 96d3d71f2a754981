"""Run the batches that a journal has planned, in order. Ingest and keyed jobs are two kinds of work for this loop.

The order makes a batch exactly once: its files are written, then the commit record names them, then the tables commit from the record.
A run that is interrupted leaves plans without a record, and perhaps a record without commits. The next run makes the commits of that
record (`check_tables`), and then runs the plans.
"""

import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from keyfold.journal.journal import D, Journal, P
from keyfold.journal.records import Done, Plan, Progress

_Plan_contra = TypeVar("_Plan_contra", bound=Plan, contravariant=True)
_Done = TypeVar("_Done", bound=Done)


class BatchWork(Protocol[_Plan_contra, _Done]):
    """What the batches of a journal do.

    Attributes:
        unit: unit of the plans' `amount`.
    """

    unit: str

    def work(self, plan: _Plan_contra, before: _Done | None) -> _Done:
        """Write a batch's files, and return its commit record. Nothing of the batch counts until the record is written.

        Args:
            plan: the plan of the batch.
            before: the commit record of the previous batch; None for the first.
        """
        ...

    def commit(self, record: _Done) -> None:
        """Commit the tables of a batch from its record, and remove what no later batch needs. Idempotent."""
        ...


def run_batches(
    journal: Journal[P, D],
    plans: Sequence[P],
    batch_work: BatchWork[P, D],
    on_batch: Callable[[Progress, D], None] | None = None,
) -> None:
    """Work on planned batches, and commit each before the next one.

    Args:
        journal: the journal of the plans.
        plans: its pending plans, or the first of them.
        batch_work: what a batch does.
        on_batch: called after each batch with the progress over these plans, and the commit record.

    Raises:
        KeyfoldError, OSError: as the work raises them. The batch is not committed, and the next run begins with it.
    """
    record = journal.last_done() if plans else None
    began, amount, total = time.monotonic(), 0, sum(plan.amount for plan in plans)
    for number, plan in enumerate(plans, 1):
        record = batch_work.work(plan, record)
        # From here on the batch counts.
        journal.write_done(record)
        batch_work.commit(record)
        amount += plan.amount
        if on_batch is not None:
            seconds = time.monotonic() - began
            left = seconds / amount * (total - amount) if amount else None
            on_batch(Progress(number, len(plans), amount, total, batch_work.unit, left), record)
