"""Read and write a journal's folder: numbered plans and commit records, written durably. A bounded number is kept."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Generic, TypeVar

from pydantic import ValidationError

from keyfold.errors import Damaged
from keyfold.journal.history import PastBatch, add_to_history, read_history
from keyfold.journal.records import Done, Plan
from keyfold.journal.sealed import sealed, unsealed
from keyfold.lakehouse.checksums import checksum_of_bytes
from keyfold.lakehouse.fail_points import fail_point
from keyfold.storage.lease import check_held
from keyfold.storage.place import Place
from keyfold.times import to_iso
from keyfold.validation import Record

KEPT = 100
"""Least number of batches whose records are kept; there are never more than twice as many."""

_SUFFIX = {"plan": ".plan.json", "done": ".done.json"}

P = TypeVar("P", bound=Plan)
D = TypeVar("D", bound=Done)
R = TypeVar("R", bound=Record)


class Journal(Generic[P, D]):
    """The plans and commit records of a job's generation, or of a stream's ingest.

    One process at a time writes it, under a lock. Reading needs no lock, and creates no files.
    """

    def __init__(self, folder: Place, plans: type[P], dones: type[D], remedy: str = "start over") -> None:
        self.folder, self._remedy = folder, remedy
        self._plans, self._dones = plans, dones

    def last_done(self) -> D | None:
        """Return the newest commit record; None before the first."""
        numbers = self._numbers("done")
        return self._read_batch(numbers[-1], "done", self._dones) if numbers else None

    def done(self, batch: int) -> D | None:
        """Return the commit record of a batch; None if there is none, or it is no longer kept."""
        return self._read_if_there(batch, "done", self._dones)

    def digest(self, batch: int) -> str | None:
        """Return a checksum of a batch's commit record, which differs between histories; None if there is no record."""
        try:
            return checksum_of_bytes(self.path(batch, "done").read_bytes())
        except FileNotFoundError:
            return None

    def plan(self, batch: int) -> P | None:
        """Return the plan of a batch; None if there is none, or it is no longer kept."""
        return self._read_if_there(batch, "plan", self._plans)

    def planned(self, batch: int) -> P | None:
        """Return the plan of the next batch; None if there is none that counts (`pending`).

        Raises:
            KeyfoldError: an earlier run had planned the batch, and the plan is gone.
        """
        plans = self._run_from(batch)
        return plans[0] if plans else None

    def pending(self) -> list[P]:
        """Return the plans without commit record, in order; an interrupted run left them.

        Plans of a run that was interrupted while it wrote them do not count: its first plan, which is written last, is
        missing.

        Raises:
            KeyfoldError: a run had planned a batch, and the plan is gone.
        """
        done = self._numbers("done")
        batch, pending = (done[-1] + 1 if done else 0), []
        while plans := self._run_from(batch):
            pending += plans
            batch += len(plans)
        return pending

    def _run_from(self, batch: int) -> list[P]:
        """Return the plans of a run from a batch on; none if not all of them were written, or none begins there."""
        first, before = self.plan(batch), self.plan(batch - 1) if batch else None
        is_within = before is not None and batch < before.run + before.batches
        if before is not None and is_within and (first is None or not _are_of_one_run(before, first)):
            raise Damaged(
                f"{self.path(batch, 'plan')} is gone, or belongs to another run than the plans before it, so that the rest of "
                f"their run is unknown; restore it from a backup, or {self._remedy}"
            )
        if first is None or not (is_within or first.run == batch):
            return []
        rest = [self.plan(number) for number in range(batch + 1, first.run + first.batches)]
        run = [first, *(plan for plan in rest if plan is not None and _are_of_one_run(first, plan))]
        return run if len(run) == 1 + len(rest) else []

    def write_plans(self, plans: Sequence[P]) -> None:
        """Write the plans of a run, the last one first: if the first one exists, all do.

        Raises:
            OSError: the disk is full or fails; the run is not planned then.
        """
        self.folder.sweep()
        # Plans of an interrupted planning were never used. They are replaced, and never removed: a run that has lost its lease
        # might remove the plans of its successor.
        strays = {number for number in self._numbers("plan") if number >= plans[0].batch}
        tags = {number: self.path(number, "plan").tag() for number in strays}
        fail_point("plan: before")
        # Last to first: `pending` starts at the first plan, so incomplete plans of a run do not count.
        for number, plan in enumerate(reversed(plans)):
            if number:
                fail_point("plan: one of several")
            self.path(plan.batch, "plan").replace_content(_as_bytes(plan), tags.get(plan.batch, ""))
        fail_point("plan: after")

    def withdraw(self) -> None:
        """Remove the plans of a run of which no batch is committed; the next run plans anew. The caller holds the lock."""
        if (pending := self.pending()) and pending[0].batch == pending[0].run:
            check_held()
            # Without its first plan, which is written last, a run does not count.
            self.path(pending[0].batch, "plan").unlink()
            self.folder.sync_folder()

    def write_done(self, done: D) -> None:
        """Write the commit record of a batch, which commits it.

        Raises:
            OSError: the disk is full or fails; the batch is not committed then.
            KeyfoldError: another run has committed the batch; the results of that run count.
        """
        fail_point("done: before")
        self.path(done.batch, "done").write_once(_as_bytes(done))
        fail_point("done: after")

    def amend(self, plans: Sequence[P], dones: Sequence[D]) -> None:
        """Replace records of committed batches, the commit records first, without changing the results they describe."""
        for done in dones:
            self.path(done.batch, "done").write_durably(_as_bytes(done))
        for plan in plans:
            self.path(plan.batch, "plan").write_durably(_as_bytes(plan))

    def read_record(self, name: str, record: type[R]) -> R | None:
        """Read a record that belongs to no batch; None if there is none.

        Raises:
            KeyfoldError: the record is damaged, or another version of Keyfold wrote it.
        """
        try:
            return self._read(self.folder / name, record)[0]
        except FileNotFoundError:
            return None

    def write_record(self, name: str, record: Record) -> None:
        """Write a record that belongs to no batch; it replaces the earlier one, and has the next number."""
        number = 0
        with suppress(FileNotFoundError, ValueError):
            number = unsealed((self.folder / name).read_bytes())[1] + 1
        (self.folder / name).write_durably(sealed(record.model_dump_json().encode(), number))

    def compact(self, archive: Callable[[Sequence[tuple[P | None, D]]], None] | None = None) -> None:
        """Replace records of old batches by a line each, so that the journal's size is bounded.

        Args:
            archive: keeps what is needed of plans and commit records for longer, before they are removed. It may get a batch twice.
        """
        dones = self._numbers("done")
        # A hundred at once, since the whole history is rewritten each time.
        if len(dones) < 2 * KEPT:
            return
        old = dones[:-KEPT]
        # After a crash before the removal, the archive and the history have these batches already.
        if archive is not None:
            archive([(self.plan(batch), done) for batch in old if (done := self.done(batch)) is not None])
            fail_point("journal: records archived")
        add_to_history(self.history_path, [self._describe(batch) for batch in old])
        fail_point("journal: history written")
        for batch in old:
            # They may be gone: an earlier attempt may have been killed between the two removals.
            self.path(batch, "plan").unlink(missing_ok=True)
            self.path(batch, "done").unlink(missing_ok=True)
        self.folder.sync_folder()
        fail_point("journal: old records removed")

    def kept(self) -> list[int]:
        """Return the batches whose commit records are kept, in order."""
        return self._numbers("done")

    def recent(self, last: int = 2 * KEPT) -> list[D]:
        """Return the last commit records, oldest first."""
        return [self._read_batch(batch, "done", self._dones) for batch in self._numbers("done")[-last:]]

    def history(self, last: int) -> list[PastBatch]:
        """Describe the last batches, oldest first, with those that are planned and not committed.

        Raises:
            KeyfoldError: the history, or a record, is damaged.
        """
        numbers = [*self._numbers("done"), *(plan.batch for plan in self.pending())]
        batches = [self._describe(batch) for batch in numbers[-last:]]
        if len(batches) < last:
            # After a crash in `compact`, batches may be in the history and have records.
            numbers = [batch.batch for batch in batches]
            past = (batch for batch in read_history(self.history_path) if batch.batch not in numbers)
            batches = [*past, *batches]
        return batches[-last:]

    def _describe(self, batch: int) -> PastBatch:
        plan, done = self.plan(batch), self.done(batch)
        return PastBatch(
            batch,
            to_iso(plan.planned_at) if plan else "",
            to_iso(done.finished_at) if done else None,
            round(done.seconds, 3) if done else None,
            plan.describe() if plan else "",
            done.describe() if done else "planned, not done",
        )

    def _numbers(self, kind: str) -> list[int]:
        suffix = _SUFFIX[kind]
        try:
            return sorted(int(name[:9]) for name in self.folder.names() if name.endswith(suffix))
        except FileNotFoundError:
            return []

    @property
    def history_path(self) -> Place:
        """The path of the history of old batches."""
        return self.folder / "history.jsonl"

    def path(self, batch: int, kind: str) -> Place:
        """Return the path of a batch's record, `plan` or `done`, which need not exist."""
        return self.folder / f"{batch:09d}{_SUFFIX[kind]}"

    def _read_if_there(self, batch: int, kind: str, record: type[R]) -> R | None:
        try:
            return self._read_batch(batch, kind, record)
        except FileNotFoundError:
            return None

    def _read_batch(self, batch: int, kind: str, record: type[R]) -> R:
        path = self.path(batch, kind)
        content, number = self._read(path, record)
        if number != batch:
            raise self._damaged(path, f"it is that of batch {number}")
        return content

    def _read(self, path: Place, record: type[R]) -> tuple[R, int]:
        """Return a record, and its number."""
        try:
            content, number = unsealed(path.read_bytes())
            return record.model_validate_json(content), number
        except ValidationError as error:
            raise self._damaged(path, f"{error.error_count()} faults, the first: {error.errors()[0]['msg']}") from None
        except ValueError as error:
            raise self._damaged(path, str(error)) from None

    def _damaged(self, path: Place, why: str) -> Damaged:
        return Damaged(
            f"{path} is damaged, or another version of Keyfold wrote it ({why}); restore it from a backup, or {self._remedy}"
        )


def _are_of_one_run(plan: Plan, other: Plan) -> bool:
    return (plan.run, plan.batches, plan.planned_at) == (other.run, other.batches, other.planned_at)


def _as_bytes(record: Plan | Done) -> bytes:
    return sealed(record.model_dump_json(exclude_defaults=True).encode(), record.batch)
