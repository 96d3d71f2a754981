"""Find and replace generations: a job's journal, state and tables, which are replaced together.

The live generation's tables are at `tables/<table>` below the lakehouse directory. A generation that is created beside the live
one (`execution.filling`) fills tables of its own, aside, until it goes live (`going_live`). A branch is a generation beside
the live one: a replay of a time range, or of all events. The latter can be promoted.
"""

import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

import polars as pl

from keyfold.errors import Damaged, IncompatibleState, Misconfigured
from keyfold.journal import Journal
from keyfold.keyed.generation.batch_records import ClockRecord, KeyedDone, KeyedPlan
from keyfold.keyed.generation.clocks import archive_clocks, clocks_of
from keyfold.keyed.generation.generation_record import FORMAT, RECORD, GenerationRecord, Origin, read_record
from keyfold.keyed.generation.live_record import Entry, changing_live, live_entry, live_record, written_by_hand
from keyfold.lakehouse import Lakehouse, is_table
from keyfold.lakehouse.positions import newest_version
from keyfold.storage.place import Place

CLOCK = "clock.json"
FIRST_ENTRY = f"{0:020d}.json"
"""A table that is aside has this log entry. It is removed once the table's rows are at its address."""

RETAINED_BATCHES = 100
"""Number of batches whose state stays readable and whose merged rows are kept."""


@dataclass(frozen=True)
class Generation:
    """One generation of a job.

    Attributes:
        folder: its folder.
        record: its record.
        replacing: the job's entry in the live record when this generation was created: it may replace only that one. An empty
            tuple if that need not be checked.
    """

    folder: Place
    record: GenerationRecord
    replacing: tuple[Entry | None, ...] = field(default=(), compare=False)

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def identity(self) -> str:
        """Its name in Delta's transactions. If it were reused, Delta would skip a new generation's batch 0 as committed."""
        return self.record.identity

    @property
    def origin(self) -> Origin | None:
        """The origin of its first state; None if it started without state."""
        return self.record.origin

    @property
    def journal(self) -> Journal[KeyedPlan, KeyedDone]:
        return Journal(self.folder / "journal", KeyedPlan, KeyedDone, "start a new generation with --full-refresh")

    @property
    def partitions(self) -> int:
        """Number of state partitions."""
        return self.record.partitions

    @property
    def splits(self) -> int:
        """Number of splits of a batch."""
        return self.record.splits

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
        return self.journal.read_record(CLOCK, ClockRecord)

    def clocks(self) -> pl.DataFrame:
        """Return the clocks of its committed batches, also of those whose records are gone (`generation.clocks`).

        Raises:
            Damaged: a file of them is damaged.
        """
        return clocks_of(self.folder, self.journal, self.name)

    def archive_clocks(self, batches: Sequence[tuple[KeyedPlan | None, KeyedDone]]) -> None:
        """Keep the clocks of batches whose records are about to be removed."""
        archive_clocks(self.folder, batches)

    def write_clock(self, clock: ClockRecord) -> None:
        """Write the clock record durably. The caller must hold the job's lock."""
        self.journal.write_record(CLOCK, clock)

    @property
    def is_branch(self) -> bool:
        return self.folder.parent.name == "branches"

    @property
    def address(self) -> Place:
        """The folder of the live tables of all jobs."""
        return self.folder.parent.parent.parent / "tables"

    def aside(self, name: str) -> Place:
        """The folder of a table until the generation is live."""
        return self.folder / "tables" / name

    def is_aside(self, name: str) -> bool:
        """Whether a table is not at its address yet. A branch has no other tables."""
        return self.is_branch or (self.aside(name) / "_delta_log" / FIRST_ENTRY).exists()

    def table(self, name: str) -> Place:
        """The folder of a table of a generation that is live, or was not live yet."""
        return self.aside(name) if self.is_aside(name) else self.address / name

    @property
    def ids(self) -> dict[str, str]:
        """Delta's ids of its tables that are aside. A table at its address may have been made by an earlier generation."""
        return {name: id_ for name, id_ in self.record.table_ids.items() if self.is_aside(name)}


def all_generations(lakehouse: Lakehouse, job: str = "*") -> list[Generation]:
    """Return the generations of a job, or of all jobs, oldest first, then the branches; none of those without a record."""
    kinds = (sorted(lakehouse.home.glob(f"jobs/{job}/{kind}/{RECORD}")) for kind in ("generation-*", "branches/*"))
    return [Generation(record.parent, read_record(record)) for records in kinds for record in records]


def tables_of_no_job(lakehouse: Lakehouse) -> list[Place]:
    """Return the tables at addresses that no generation has: the folder of their job is lost, or was removed."""
    names = {name for generation in all_generations(lakehouse) for name in generation.record.table_ids}
    tables = (
        table
        for table in sorted(lakehouse.home.glob("tables/*"))
        if table.name not in names and table.is_dir() and is_table(table)
    )
    # Without a batch, a start has made it, and its record comes next.
    return [table for table in tables if newest_version(table) > 0]


def live_generation(lakehouse: Lakehouse, job: str) -> Generation | None:
    """Return the live generation of a job; None before its first run.

    Raises:
        KeyfoldError: the live record or the generation is missing, or an earlier version of Keyfold made it; names the remedy.
    """
    entry, record = live_entry(lakehouse, job), live_record(lakehouse)
    if entry is None:
        # If the record is lost, do not start again: the run would read all events into a second generation.
        if begun := _begun(lakehouse.job(job)):
            _check_format(lakehouse, job, begun[-1])
            others = {folder.name: _begun(folder) for folder in lakehouse.home.glob("jobs/*")}
            content = written_by_hand(lakehouse, {job: of_job[-1].name for job, of_job in others.items() if of_job})
            raise Damaged(
                f"job {job}: {record} is {'damaged' if record.exists() else 'lost'}, while "
                f"{', '.join(generation.name for generation in begun)} exists; restore it, or write {content} to it, or start over with "
                "--full-refresh"
            )
        return None
    folder = lakehouse.job(job) / entry.generation
    if not (folder / RECORD).exists():
        raise Damaged(
            f"{record} names {folder.name} of job {job}, which is gone; restore it or run with --full-refresh"
        )
    return _check_format(lakehouse, job, folder)


def _check_format(lakehouse: Lakehouse, job: str, folder: Place) -> Generation:
    generation = Generation(folder, read_record(folder / RECORD, f"start job {job} over with --full-refresh"))
    if generation.record.format != FORMAT:
        raise IncompatibleState(
            f"job {job}: {folder.name} was made by an earlier version of Keyfold, whose journal this version cannot continue; its "
            "tables can be read as before. Let the job read all events again, once: "
            f"`{lakehouse.command('run', job, '--full-refresh')}`"
        )
    return generation


def generation_folder(lakehouse: Lakehouse, job: str) -> Place:
    """Return the folder for the next generation of a job."""
    return _folder_beside(lakehouse, job, live_entry(lakehouse, job))


def branch_folder(lakehouse: Lakehouse, job: str, branch: str) -> Place:
    """Return the folder of a branch, which need not exist.

    Raises:
        KeyfoldError: the name cannot be the name of a folder and a table, such as a path.
    """
    # A number is a batch, and the others a generation, where either is named.
    if not re.fullmatch(r"(?!\d+$|live$|generation-\d+$)[a-z0-9][a-z0-9_-]{0,63}", branch):
        raise Misconfigured(
            f"branch {branch!r}: a name has lower-case letters, digits, _ and -, at most 64, and is no number, `live`, or the name "
            "of a generation"
        )
    return lakehouse.job(job) / "branches" / branch


def next_folder(lakehouse: Lakehouse, job: str) -> tuple[Place, Entry | None]:
    """Return the folder for the next generation of a job, and the entry of the live record that it is to replace.

    Incomplete generations are deleted, and all others but the live one and its predecessor. If the entry of the live
    generation is lost, no generation with a batch is deleted: it may be the live one.
    """
    entry = live_entry(lakehouse, job)
    live = entry.generation if entry else None
    folders = sorted(lakehouse.job(job).glob("generation-*"))
    # Keep the predecessor: its state can be read, and what was decided about its tables may have to be finished.
    retained = [folder.name for folder in folders if live is not None and folder.name <= live][-2:]
    dead = [
        folder
        for folder in folders
        if folder.name not in retained
        and not (live is None and any(folder.glob("journal/*.done.json")))
        and not waits_to_go_live(folder, live)
    ]
    if dead and entry is not None:
        # The entry changes, so that a run that lost its lease cannot make one of these live. The last number is recorded:
        # such a run may still write to its folder in the store, so no new generation may use it.
        last = max(dead[-1].name, entry.cleared_to or "")
        entry = entry.model_copy(update={"cleared_to": last, "cleared": uuid.uuid4().hex})
        with changing_live(lakehouse) as entries:
            entries[job] = entry
    for folder in dead:
        folder.remove_tree()
    return _folder_beside(lakehouse, job, entry), entry


def _folder_beside(lakehouse: Lakehouse, job: str, entry: Entry | None) -> Place:
    # Count the live generation even if its folder is lost: a new one of the same name would be taken for it.
    names = [folder.name for folder in lakehouse.job(job).glob("generation-*")]
    names += [entry.generation, entry.cleared_to or entry.generation] if entry else []
    numbers = [int(name.rpartition("-")[2]) for name in names]
    return lakehouse.job(job) / f"generation-{max(numbers, default=0) + 1:04d}"


def waits_to_go_live(folder: Place, live: str | None) -> bool:
    """Whether a folder is a branch whose promotion was interrupted after its renaming; `keyfold promote` completes it."""
    record = folder / RECORD
    return live is not None and folder.name > live and record.exists() and bool(read_record(record).branch)


def _begun(folder: Place) -> list[Place]:
    """Return the generations in a job's folder that have a batch, oldest first."""
    created = sorted(generation for generation in folder.glob("generation-*") if (generation / RECORD).exists())
    return [generation for generation in created if any(generation.glob("journal/*.done.json"))]
