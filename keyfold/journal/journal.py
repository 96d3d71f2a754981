"""A journal's folder: numbered plans and commit records, each whole and durable, of which a bounded number is kept."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from pydantic import ValidationError

from keyfold.errors import Damaged
from keyfold.journal.checksums import forget_checksums
from keyfold.journal.records import Done, Plan, Record
from keyfold.lakehouse.checksums import checksum_of_bytes
from keyfold.lakehouse.fail_points import reached
from keyfold.lakehouse.files import replace, sweep, sync_folder, tag_of, write_durably, write_once
from keyfold.storage.place import Place
from keyfold.times import to_iso

KEPT = 100
"""Batches whose two records are kept at least; there are never more than twice as many."""

HISTORY = 2_000
"""Batches of which a line is kept after that."""

_SUFFIX = {"plan": ".plan.json", "done": ".done.json"}

P = TypeVar("P", bound=Plan)
D = TypeVar("D", bound=Done)
R = TypeVar("R", bound=Record)


@dataclass(frozen=True)
class PastBatch:
    """What is told of a batch.

    Attributes:
        batch: its number.
        planned_at: when it was planned, ISO 8601.
        finished_at: when its work was done; None while it is not.
        seconds: that the work took.
        read: what it read, for people.
        made: what came of it, for people.
    """

    batch: int
    planned_at: str
    finished_at: str | None
    seconds: float | None
    read: str
    made: str


class Journal(Generic[P, D]):
    """The plans and commit records of one job's generation, or of one stream's ingest; one process at a time writes it.

    Reading it needs no lock. Nothing is made or changed until something is written.
    """

    def __init__(self, folder: Place, plans: type[P], dones: type[D], remedy: str = "start over") -> None:
        self.folder, self._remedy = folder, remedy
        self._plans, self._dones = plans, dones

    def last_done(self) -> D | None:
        """The newest commit record, None before the first."""
        numbers = self._numbers("done")
        return self._read(numbers[-1], "done", self._dones) if numbers else None

    def done(self, batch: int) -> D | None:
        """A batch's commit record, None where there is none (any more)."""
        return self._read_if_there(self._path(batch, "done"), self._dones)

    def digest(self, batch: int) -> str | None:
        """What tells a batch's commit record from those of other histories, None where there is no record (any more)."""
        try:
            return checksum_of_bytes(self._path(batch, "done").read_bytes())
        except FileNotFoundError:
            return None

    def plan(self, batch: int) -> P | None:
        """A batch's plan, None where there is none (any more)."""
        return self._read_if_there(self._path(batch, "plan"), self._plans)

    def planned(self, batch: int) -> P | None:
        """The plan of a batch that is next, None where there is none that counts; see `pending`.

        Raises:
            KeyfoldError: the run before it had planned it, and its plan is gone.
        """
        found = self._run_from(batch)
        return found[0] if found else None

    def pending(self) -> list[P]:
        """The plans that are not done, in order; a run that broke off left them.

        Those of a run whose planning broke off do not count: its first plan was to be written last. What lies beyond the
        last plan of a run is such a run's too.

        Raises:
            KeyfoldError: a run had planned a batch, and its plan is gone.
        """
        done = self._numbers("done")
        batch, found = (done[-1] + 1 if done else 0), []
        while plans := self._run_from(batch):
            found += plans
            batch += len(plans)
        return found

    def _run_from(self, batch: int) -> list[P]:
        """The plans of one run from a batch on; none where that run's planning broke off, or no run has come so far."""
        first, before = self.plan(batch), self.plan(batch - 1) if batch else None
        is_within = before is not None and batch < before.run + before.batches
        if before is not None and is_within and (first is None or not _are_of_one_run(before, first)):
            raise Damaged(
                f"{self._path(batch, 'plan')} is gone, or of another run than the plans before it, and what is left of their "
                f"run cannot be told; restore it from a backup, or {self._remedy}"
            )
        if first is None or not (is_within or first.run == batch):
            return []
        rest = [self.plan(number) for number in range(batch + 1, first.run + first.batches)]
        whole = [first, *(plan for plan in rest if plan is not None and _are_of_one_run(first, plan))]
        return whole if len(whole) == 1 + len(rest) else []

    def write_plans(self, plans: Sequence[P]) -> None:
        """Write a run's plans, the last one first: once the first is there, all are.

        Raises:
            OSError: the disk is full or fails; the run is not planned then.
        """
        sweep(self.folder)
        # Of a run whose planning broke off: no work was done by them. They are replaced where others come in their place,
        # and never removed: a run that has lost its lease may come to its removals when there are others.
        strays = {number for number in self._numbers("plan") if number >= plans[0].batch}
        tags = {number: tag_of(self._path(number, "plan")) for number in strays}
        reached("plan: before")
        # Last to first: `pending` begins at the first, so that half a run of plans is none.
        for number, plan in enumerate(reversed(plans)):
            if number:
                reached("plan: one of several")
            replace(self._path(plan.batch, "plan"), _as_bytes(plan), tags.get(plan.batch, ""))
        reached("plan: after")

    def write_done(self, done: D) -> None:
        """Write what a batch made. From here on it is what that batch made, for ever.

        Raises:
            OSError: the disk is full or fails; the batch is not done then.
            KeyfoldError: another run has done it; what counts is what that run made.
        """
        reached("done: before")
        write_once(self._path(done.batch, "done"), _as_bytes(done))
        reached("done: after")

    def amend(self, plans: Sequence[P], dones: Sequence[D]) -> None:
        """Replace records of batches that are done, the commit records first; what they say of the work is the same.

        Their checksums are no longer recorded then (`record_checksums` does it anew).
        """
        paths = {self._path(done.batch, "done"): done for done in dones}
        paths |= {self._path(plan.batch, "plan"): plan for plan in plans}
        # First: a crash leaves records that are not verified until the next run, and none that look damaged.
        forget_checksums(self.folder, [f"journal/{path.name}" for path in paths])
        for path, record in paths.items():
            write_durably(path, _as_bytes(record))

    def read_record(self, name: str, record: type[R]) -> R | None:
        """A record that is none of a batch and is written anew each time, None where there is none.

        Raises:
            KeyfoldError: it is damaged, or another version of Keyfold wrote it.
        """
        return self._read_if_there(self.folder / name, record)

    def write_record(self, name: str, record: Record) -> None:
        """Write a record that is none of a batch in the place of the one before it."""
        write_durably(self.folder / name, record.model_dump_json().encode())

    def compact(self) -> None:
        """Keep the records of the last batches, and a line of those before: a journal does not grow with its age."""
        dones = self._numbers("done")
        # A hundred at once: each time the whole history is written anew.
        if len(dones) < 2 * KEPT:
            return
        old = dones[:-KEPT]
        lines = [*self._history_lines(), *(json.dumps(vars(self._describe(batch))) for batch in old)]
        # A crash after this and before the removal would tell batches twice: the number says which are known.
        by_batch = {json.loads(line)["batch"]: line for line in lines}
        kept = [by_batch[batch] for batch in sorted(by_batch)[-HISTORY:]]
        write_durably(self.folder / "history.jsonl", "".join(f"{line}\n" for line in kept).encode())
        reached("journal: history written")
        for batch in old:
            # Perhaps gone already: an earlier attempt may have been killed in between.
            self._path(batch, "plan").unlink(missing_ok=True)
            self._path(batch, "done").unlink(missing_ok=True)
        sync_folder(self.folder)
        reached("journal: old records removed")

    def kept(self) -> list[int]:
        """The batches whose commit records are kept, in order."""
        return self._numbers("done")

    def recent(self, last: int = 2 * KEPT) -> list[D]:
        """The last commit records that are kept, oldest first."""
        return [self._read(batch, "done", self._dones) for batch in self._numbers("done")[-last:]]

    def history(self, last: int) -> list[PastBatch]:
        """What is told of the last batches, oldest first; those that are planned and not done too."""
        numbers = [*self._numbers("done"), *(plan.batch for plan in self.pending())]
        found = [self._describe(batch) for batch in numbers[-last:]]
        if len(found) < last:
            # A crash in `compact` leaves batches both here and there.
            known = {one.batch for one in found}
            past = [PastBatch(**json.loads(line)) for line in self._history_lines()]
            found = [*(one for one in past if one.batch not in known), *found]
        return found[-last:]

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

    def _history_lines(self) -> list[str]:
        try:
            return (self.folder / "history.jsonl").read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []

    def _numbers(self, kind: str) -> list[int]:
        suffix = _SUFFIX[kind]
        try:
            return sorted(int(path.name[:9]) for path in self.folder.iterdir() if path.name.endswith(suffix))
        except FileNotFoundError:
            return []

    def _path(self, batch: int, kind: str) -> Place:
        return self.folder / f"{batch:09d}{_SUFFIX[kind]}"

    def _read(self, batch: int, kind: str, record: type[R]) -> R:
        return self._parse(self._path(batch, kind), record)

    def _read_if_there(self, path: Place, record: type[R]) -> R | None:
        try:
            return self._parse(path, record)
        except FileNotFoundError:
            return None

    def _parse(self, path: Place, record: type[R]) -> R:
        try:
            return record.model_validate_json(path.read_bytes())
        except ValidationError as error:
            raise Damaged(
                f"{path} is damaged, or another version of Keyfold wrote it ({error.error_count()} faults, the first: "
                f"{error.errors()[0]['msg']}); restore it from a backup, or {self._remedy}"
            ) from None


def _are_of_one_run(plan: Plan, other: Plan) -> bool:
    return (plan.run, plan.batches, plan.planned_at) == (other.run, other.batches, other.planned_at)


def _as_bytes(record: Record) -> bytes:
    return record.model_dump_json(exclude_defaults=True).encode()
