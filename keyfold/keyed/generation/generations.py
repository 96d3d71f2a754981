"""Find and replace generations: a job's journal, state and tables, which are replaced together.

The live generation's tables are at `tables/<table>` below the lakehouse directory. A generation that is created beside the live
one (`running.new_generation`) fills tables of its own, aside, until it goes live (`going_live`). A branch is a generation beside
the live one: a replay of a time range, or of all events. The latter can be promoted.
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
from keyfold.lakehouse.files import DamagedError, read_json_with_tag, remove_tree, replace_json
from keyfold.storage.place import Place

RECORD = "generation.json"
_CLOCK = "standing.json"
FORMAT = 7
"""Version of the files of a generation. In version 6, commit records name the manifests of the state."""

FIRST_ENTRY = f"{0:020d}.json"
"""A table that is aside has this log entry. It is removed once the table's rows are at its address."""

RETAINED_BATCHES = 100
"""Number of batches whose state stays readable and whose merged rows are kept."""


@dataclass(frozen=True)
class Generation:
    """One generation of a job.

    Attributes:
        folder: its folder.
        record: its birth record.
        pointer_tag: tag of `current.json` when this generation was created: it may replace only the generation that was live
            then. None if that need not be checked.
    """

    folder: Place
    record: dict[str, Any]
    pointer_tag: str | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def identity(self) -> str:
        """Its name in Delta's transactions. If it were reused, Delta would skip a new generation's batch 0 as committed."""
        return self.record["identity"]

    @property
    def origin(self) -> "Origin | None":
        """The origin of its first state; None if it started without state."""
        origin = self.record.get("origin")
        return Origin(**origin) if origin else None

    @property
    def seed(self) -> Place:
        """The folder with the state that it started with."""
        return self.folder / "seed"

    @property
    def journal(self) -> Journal[KeyedPlan, KeyedDone]:
        return Journal(self.folder / "journal", KeyedPlan, KeyedDone, "start a new generation with --full-refresh")

    @property
    def partitions(self) -> int:
        """Number of state partitions."""
        return self.record["shuffle_partitions"]

    @property
    def splits(self) -> int:
        """Number of splits of a batch."""
        return self.record["splits"]

    @property
    def parts(self) -> Place:
        """The folder of state parts, which manifests name."""
        return self.folder / "state" / "parts"

    @property
    def manifests(self) -> Place:
        """The folder of manifests, which commit records name."""
        return self.folder / "state" / "manifests"

    @property
    def responses(self) -> Place:
        return self.folder / "responses"

    def clock(self) -> ClockRecord | None:
        """Read the clock record; None if there is none.

        Raises:
            KeyfoldError: the record is damaged, or another version of Keyfold wrote it.
        """
        return self.journal.read_record(_CLOCK, ClockRecord)

    def write_clock(self, clock: ClockRecord) -> None:
        """Write the clock record durably. The caller must hold the job's lock."""
        self.journal.write_record(_CLOCK, clock)

    @property
    def address(self) -> Place:
        """The folder of the live tables of all jobs."""
        return self.folder.parent.parent.parent / "tables"

    def aside(self, name: str) -> Place:
        """The folder of a table until the generation is live."""
        return self.folder / "tables" / name

    def is_aside(self, name: str) -> bool:
        """Whether a table is not at its address yet. A branch has no other tables."""
        return self.folder.parent.name == "branches" or (self.aside(name) / "_delta_log" / FIRST_ENTRY).exists()

    def table(self, name: str) -> Place:
        """The folder of a table of a generation that is live, or was not live yet."""
        return self.aside(name) if self.is_aside(name) else self.address / name

    @property
    def ids(self) -> dict[str, str]:
        """Delta's ids of its tables that are aside. A table at its address may have been made by an earlier generation."""
        return {name: born for name, born in self.record["table_ids"].items() if self.is_aside(name)}

    @property
    def checksummed(self) -> dict[str, Place]:
        """The files and folders whose checksums are recorded, by name."""
        parts = {name: self.folder / name for name in (RECORD, "journal", "seed")}
        # A branch has none.
        parts["current.json"] = self.folder.parent / "current.json"
        names = self.record["table_ids"]
        # Under another name than at its address, where the table has another log.
        return parts | {
            f"{'aside' if self.is_aside(name) else 'tables'}/{name}": self.table(name) / "_delta_log" for name in names
        }

    def record_checksums(self, every: timedelta = timedelta(0)) -> None:
        """Record the checksums of its files, if the last record is older than `every`. The caller must hold the job's lock."""
        done = self.journal.last_done()
        record_checksums(self.journal.folder, self.checksummed, done.batch if done else -1, every)


def live_generation(lakehouse: Lakehouse, job: str) -> Generation | None:
    """Return the live generation of a job; None before its first run.

    Raises:
        KeyfoldError: `current.json` or the generation is missing, or an earlier version of Keyfold made it; names the remedy.
    """
    pointer = pointer_of(lakehouse, job)
    found, _ = live_pointer(lakehouse, job)
    if found is None:
        # If the pointer is lost, do not start again: the run would read all events into a second generation.
        if begun := [
            folder.name for folder in _born_folders(lakehouse, job) if any(folder.glob("journal/*.done.json"))
        ]:
            state = "damaged" if pointer.exists() else "lost"
            raise Damaged(
                f"job {job}: {pointer} is {state}, while {', '.join(begun)} exists; restore it, or write "
                f'{{"generation": "{begun[-1]}"}} to it, or start over with --full-refresh'
            )
        return None
    folder = pointer.parent / found["generation"]
    if not (folder / RECORD).exists():
        raise Damaged(f"{pointer} names {folder.name}, which is gone; restore it or run with --full-refresh")
    generation = Generation(folder, read_json(folder / RECORD, f"start job {job} over with --full-refresh"))
    if generation.record.get("format") != FORMAT:
        raise IncompatibleState(
            f"job {job}: {folder.name} was made by an earlier version of Keyfold, whose journal this version cannot continue; "
            f"its tables can be read in {folder / 'tables'}. Let the job read all events again, once: "
            f"`{lakehouse.command('run', job, '--full-refresh')}`"
        )
    return generation


@dataclass(frozen=True)
class Origin:
    """The origin of a generation's first state.

    Attributes:
        how: the tool that made the state.
        what: the source that it was made of.
        events_skipped: rows of the event table before the generation's first position. Its tables and state need not have them.
        events_seeded: events in its first state that are not among the rows of the event table that it counts.
        counts_inputs: whether its journal goes on with the counts of each input of the generation that it was made of.
    """

    how: str
    what: str
    events_skipped: int = 0
    events_seeded: int = 0
    counts_inputs: bool = False


def generation_folder(lakehouse: Lakehouse, job: str) -> Place:
    """Return the folder for the next generation of a job."""
    return _folder_beside(lakehouse, job, live_pointer(lakehouse, job)[0])


def branch_folder(lakehouse: Lakehouse, job: str, branch: str) -> Place:
    """Return the folder of a branch, which need not exist.

    Raises:
        KeyfoldError: the name cannot be the name of a folder and a table, such as a path.
    """
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,63}", branch):
        raise Misconfigured(f"branch {branch!r}: a name has lower-case letters, digits, _ and -, at most 64")
    return lakehouse.job(job) / "branches" / branch


def next_folder(lakehouse: Lakehouse, job: str) -> tuple[Place, str]:
    """Return the folder for the next generation of a job, and the tag of the pointer that it is to replace.

    Incomplete generations are deleted, and all others but the live one and its predecessor. If the pointer to the live
    generation is lost, no generation with a batch is deleted: it may be the live one.
    """
    pointer, tag = live_pointer(lakehouse, job)
    live = pointer["generation"] if pointer else None
    folders = sorted(lakehouse.job(job).glob("generation-*"))
    # Keep the predecessor: its state can be read, and what was decided about its tables may have to be finished.
    kept = [folder.name for folder in folders if live is not None and folder.name <= live][-2:]
    dead = [
        folder
        for folder in folders
        if folder.name not in kept
        and not (live is None and any(folder.glob("journal/*.done.json")))
        and not waits_to_go_live(folder, live)
    ]
    if dead and pointer is not None:
        # The pointer's tag changes, so that a run that lost its lease cannot make one of these live. The last number is
        # recorded: such a run may still write to its folder in the store, so no new generation may use it.
        last = max(dead[-1].name, pointer.get("cleared_to", ""))
        replace_json(pointer_of(lakehouse, job), pointer | {"cleared_to": last, "cleared": uuid.uuid4().hex}, tag)
        pointer, tag = live_pointer(lakehouse, job)
    for folder in dead:
        remove_tree(folder)
    return _folder_beside(lakehouse, job, pointer), tag


def _folder_beside(lakehouse: Lakehouse, job: str, pointer: dict[str, Any] | None) -> Place:
    numbers = [int(folder.name.rpartition("-")[2]) for folder in lakehouse.job(job).glob("generation-*")]
    # Count the live generation even if its folder is lost: a new one of the same name would be taken for it.
    named = [pointer["generation"], pointer.get("cleared_to", pointer["generation"])] if pointer else []
    numbers += [int(name.rpartition("-")[2]) for name in named]
    return lakehouse.job(job) / f"generation-{max(numbers, default=0) + 1:04d}"


def waits_to_go_live(folder: Place, live: str | None) -> bool:
    """Whether a folder is a branch whose promotion was interrupted after its renaming; `keyfold promote` completes it."""
    record = folder / RECORD
    return live is not None and folder.name > live and record.exists() and "branch" in read_json(record)


def live_generation_name(lakehouse: Lakehouse, job: str) -> str | None:
    """Return the folder name of the live generation, which need not be readable."""
    pointer, _ = live_pointer(lakehouse, job)
    return pointer["generation"] if pointer else None


def live_pointer(lakehouse: Lakehouse, job: str) -> tuple[dict[str, Any] | None, str]:
    """Read `current.json`; returns its content, None if it is missing or damaged, and its tag, which a replacement needs."""
    if job in lakehouse.ahead:
        return {"generation": lakehouse.ahead[job]}, ""
    pointer = pointer_of(lakehouse, job)
    try:
        content, tag = read_pointer(pointer)
    except DamagedError as error:
        return None, error.tag
    return content and as_decided(pointer, content), tag


NEXT = "next"
_NAME, _DECISION = re.compile(r"generation-\d{4,}"), re.compile(r"[^/\\]+/together-[0-9a-f]+\.json")


def read_pointer(pointer: Place) -> tuple[dict[str, Any] | None, str]:
    """Read a pointer, None if it is missing, and its tag for `replace_json`.

    Raises:
        DamagedError: it names no generation of its job, or no decision.
    """
    content, tag = read_json_with_tag(pointer)
    if content is not None:
        announced = content.get(NEXT, {})
        names = [content[role] for role in ("generation", "replaces", "cleared_to") if role in content]
        try:
            names += [announced["generation"]] if announced else []
            is_well = bool(names) and all(_NAME.fullmatch(name) for name in names)
            is_well &= not announced or bool(_DECISION.fullmatch(announced["decided_by"]))
        except (TypeError, KeyError):
            is_well = False
        if not is_well or not ("generation" in content or announced):
            error = DamagedError(f"{pointer} is damaged: it names no generation")
            error.tag = tag
            raise error
    return content, tag


def announced(content: dict[str, Any] | None, generation: str, decision: Place) -> dict[str, Any]:
    """Return a pointer's content, with a generation that becomes live when the decision file exists."""
    return {
        **(content or {}),
        NEXT: {"generation": generation, "decided_by": f"{decision.parent.name}/{decision.name}"},
    }


def decision_of(pointer: Place, content: dict[str, Any]) -> Place | None:
    """Return the decision file that a pointer depends on; None if it depends on none."""
    return pointer.parent.parent / content[NEXT]["decided_by"] if NEXT in content else None


def as_decided(pointer: Place, content: dict[str, Any]) -> dict[str, Any] | None:
    """Return a pointer's effective content: the next generation if it is decided, else the live one; None if none is live."""
    decision = decision_of(pointer, content)
    if decision is None:
        return content
    if decision.exists():
        return successor(content, content[NEXT]["generation"])
    return {name: value for name, value in content.items() if name != NEXT} or None


def successor(content: dict[str, Any] | None, generation: str) -> dict[str, Any]:
    """Return a pointer's content after a generation has gone live, with the generation that it replaces."""
    before = (content or {}).get("generation")
    return (
        {"generation": generation} if before in (None, generation) else {"generation": generation, "replaces": before}
    )


def pointer_of(lakehouse: Lakehouse, job: str) -> Place:
    """Return the path of the file that names the live generation of a job."""
    return lakehouse.job(job) / "current.json"


def _born_folders(lakehouse: Lakehouse, job: str) -> list[Place]:
    return sorted(folder for folder in lakehouse.job(job).glob("generation-*") if (folder / RECORD).exists())
