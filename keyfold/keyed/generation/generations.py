"""Generations: a job's journal, checkpoint, state and tables belong together and are replaced together.

A generation is born beside the live one (`birth`) and goes live by one atomic write of `current.json`; a crash before
that leaves the old one live. A branch is a generation to look at beside the live tables: a replay of all of history,
which may be promoted, or of a time range.
"""

import re
import uuid
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from keyfold.errors import Damaged, IncompatibleState, Misconfigured
from keyfold.journal import Journal
from keyfold.journal.checksums import record_checksums
from keyfold.keyed.generation.batch_records import ClockRecord, KeyedDone, KeyedPlan
from keyfold.lakehouse import Lakehouse, read_json
from keyfold.lakehouse.fail_points import reached
from keyfold.lakehouse.files import DamagedError, read_json_with_tag, remove_tree, replace_json
from keyfold.lakehouse.pointers import as_decided
from keyfold.storage.place import Place

RECORD = "generation.json"
_CLOCK = "standing.json"
_PARTS = "parts"
FORMAT = 5
"""Of what a generation consists of; since 5 its state is in parts whose rows replace, or are added. Later versions go on from it."""

RETAINED_BATCHES = 100
"""Batches whose state can be read, and whose merged rows are kept; Spark keeps as many by default."""


@dataclass(frozen=True)
class Generation:
    """One generation of a job.

    Attributes:
        folder: where it lies.
        record: of its birth.
        pointer_tag: of the pointer to the live generation, as it was when this one was born beside that; None where
            nobody asks.
    """

    folder: Place
    record: dict[str, Any]
    pointer_tag: str | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def identity(self) -> str:
        """Unique for ever, so that Delta never takes a new generation's batch 0 for an old one's."""
        return self.record["identity"]

    @property
    def origin(self) -> "Origin | None":
        """Where its first state came from; None of one that began with none."""
        origin = self.record.get("origin")
        return Origin(**origin) if origin else None

    @property
    def seed(self) -> Place:
        """Files of the state that it began with."""
        return self.folder / "seed"

    @property
    def journal(self) -> Journal[KeyedPlan, KeyedDone]:
        return Journal(self.folder / "journal", KeyedPlan, KeyedDone, "start a new generation with --full-refresh")

    @property
    def checkpoint(self) -> Place:
        return self.folder / "checkpoint"

    @property
    def partitions(self) -> int:
        """How many partitions its state has."""
        return self.record["shuffle_partitions"]

    @property
    def splits(self) -> int:
        """Into how many shares the reading of a batch is split."""
        return self.record["splits"]

    @property
    def parts(self) -> Place:
        """The folder of parts of state; within the checkpoint, since neither is of use without the other."""
        return self.checkpoint / _PARTS

    @property
    def answers(self) -> Place:
        return self.folder / "answers"

    def clock(self) -> ClockRecord | None:
        """How far time has gone since the last batch, None where nothing has said so.

        Raises:
            KeyfoldError: the record is damaged, or another version of Keyfold wrote it.
        """
        return self.journal.read_record(_CLOCK, ClockRecord)

    def write_clock(self, clock: ClockRecord) -> None:
        """Write how far time has gone, durably; call it under the job's lock."""
        self.journal.write_record(_CLOCK, clock)

    def table(self, name: str) -> Place:
        return self.folder / "tables" / name

    @property
    def checksummed(self) -> dict[str, Place]:
        """The files and folders whose checksums the journal keeps, by name."""
        parts = {name: self.folder / name for name in (RECORD, "journal", "checkpoint", "seed")}
        # Of a branch there is none.
        parts["current.json"] = self.folder.parent / "current.json"
        return parts | {f"tables/{name}": self.table(name) / "_delta_log" for name in self.record["table_ids"]}

    def record_checksums(self, every: timedelta = timedelta(0)) -> None:
        """Record the checksums of its files, if the last record is so old; call it under the job's lock."""
        done = self.journal.last_done()
        record_checksums(self.journal.folder, self.checksummed, done.batch if done else -1, every)


def live_generation(lakehouse: Lakehouse, job: str) -> Generation | None:
    """The live generation of a job, or None before its first run.

    Raises:
        KeyfoldError: the pointer to it is lost, it is gone, or an earlier version of Keyfold made it; names the remedy.
    """
    pointer = pointer_of(lakehouse, job)
    found, _ = live_pointer(lakehouse, job)
    if found is None:
        # A lost pointer is no fresh start: that would read all events into a second history.
        if begun := [
            folder.name for folder in _born_folders(lakehouse, job) if any(folder.glob("journal/*.done.json"))
        ]:
            state = "damaged" if pointer.exists() else "lost"
            raise Damaged(
                f"job {job}: {pointer} is {state}, while {', '.join(begun)} stand there; restore it, or write "
                f'{{"generation": "{begun[-1]}"}} to it, or start over with --full-refresh'
            )
        return None
    folder = pointer.parent / found["generation"]
    if not (folder / RECORD).exists():
        raise Damaged(f"{pointer} names {folder.name}, which is gone; restore it or run with --full-refresh")
    generation = Generation(folder, read_json(folder / RECORD, f"start job {job} over with --full-refresh"))
    if generation.record.get("format") != FORMAT:
        raise IncompatibleState(
            f"job {job}: {folder.name} was made by an earlier version of Keyfold, whose journal this one does not go on "
            f"with; its tables can be read. To go on, the job reads all events again, once: "
            f"`{lakehouse.command('run', job, '--full-refresh')}`"
        )
    return generation


@dataclass(frozen=True)
class Origin:
    """Where a generation's first state came from.

    Attributes:
        how: the tool that made it.
        what: it was made of.
        events_skipped: rows of the event table that it begins behind: what became of them is told by nothing it has.
        events_seeded: that its first state stood for and that are none of the event table's rows it counts.
    """

    how: str
    what: str
    events_skipped: int = 0
    events_seeded: int = 0


def generation_folder(lakehouse: Lakehouse, job: str) -> Place:
    """Where the next generation of a job is to be."""
    numbers = [int(folder.name.rpartition("-")[2]) for folder in lakehouse.job(job).glob("generation-*")]
    pointer, _ = live_pointer(lakehouse, job)
    # The live one's too, where its folder is lost: a second of its name would pass for it.
    named = [pointer["generation"], pointer.get("cleared_to", pointer["generation"])] if pointer else []
    numbers += [int(name.rpartition("-")[2]) for name in named]
    return lakehouse.job(job) / f"generation-{max(numbers, default=0) + 1:04d}"


def branch_folder(lakehouse: Lakehouse, job: str, branch: str) -> Place:
    """Where a branch of a job lies, or would.

    Raises:
        KeyfoldError: the name is none that a folder and a table can have; another folder's path is none either.
    """
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,63}", branch):
        raise Misconfigured(f"branch {branch!r}: a name has lower-case letters, digits, _ and -, at most 64")
    return lakehouse.job(job) / "branches" / branch


def go_live(lakehouse: Lakehouse, generation: Generation) -> None:
    """Make a generation the live one, in one atomic step.

    Raises:
        KeyfoldError: in an object store, another run has made one live, or cleared dead ones away, since this one's birth.
    """
    job = generation.record["job"]
    tag = live_pointer(lakehouse, job)[1] if generation.pointer_tag is None else generation.pointer_tag
    reached("generation: before it goes live")
    # One small file, replaced whole: a reader finds the old generation or the new one.
    replace_json(pointer_of(lakehouse, job), {"generation": generation.name}, tag)
    reached("generation: live")
    generation.record_checksums()


def remove_dead_generations(lakehouse: Lakehouse, job: str) -> None:
    """Delete what a crash left half made, and all but the live generation and its forerunner.

    While the pointer to the live one is lost, nothing that has a batch is deleted: it may be the one.
    """
    live = live_generation_name(lakehouse, job)
    folders = sorted(lakehouse.job(job).glob("generation-*"))
    # The forerunner too: who opened its tables before the switch may still be reading.
    kept = [folder.name for folder in folders if live is not None and folder.name <= live][-2:]
    dead = [
        folder
        for folder in folders
        if folder.name not in kept
        and not (live is None and any(folder.glob("journal/*.done.json")))
        and not _waits_to_go_live(folder, live)
    ]
    if dead:
        _mark_cleared(lakehouse, job, dead[-1].name)
    for folder in dead:
        remove_tree(folder)


def _mark_cleared(lakehouse: Lakehouse, job: str, last: str) -> None:
    """Change the pointer, and nothing that it says: a run that lost its lease may be about to make one of those live."""
    pointer, tag = live_pointer(lakehouse, job)
    if pointer is None:
        return
    # With the last number: in a folder of an object store that such a run still writes to no other may begin.
    last = max(last, pointer.get("cleared_to", last))
    replace_json(pointer_of(lakehouse, job), pointer | {"cleared_to": last, "cleared": uuid.uuid4().hex}, tag)


def _waits_to_go_live(folder: Place, live: str | None) -> bool:
    """Whether it is a branch whose promotion was killed behind its renaming: `keyfold promote` goes on with it."""
    record = folder / RECORD
    return live is not None and folder.name > live and record.exists() and "branch" in read_json(record)


def live_generation_name(lakehouse: Lakehouse, job: str) -> str | None:
    """The folder name of the live generation, which need not be readable."""
    pointer, _ = live_pointer(lakehouse, job)
    return pointer["generation"] if pointer else None


def live_pointer(lakehouse: Lakehouse, job: str) -> tuple[dict[str, Any] | None, str]:
    """What says which generation is live, None where nothing does that can be read; and its tag, to be replaced by."""
    if job in lakehouse.ahead:
        return {"generation": lakehouse.ahead[job]}, ""
    pointer = pointer_of(lakehouse, job)
    try:
        told, tag = read_json_with_tag(pointer)
    except DamagedError as error:
        return None, error.tag
    return told and as_decided(pointer, told), tag


def pointer_of(lakehouse: Lakehouse, job: str) -> Place:
    """The file that says which generation of a job is live."""
    return lakehouse.job(job) / "current.json"


def _born_folders(lakehouse: Lakehouse, job: str) -> list[Place]:
    return sorted(folder for folder in lakehouse.job(job).glob("generation-*") if (folder / RECORD).exists())
