"""Generations: a job's journal, checkpoint, state and tables belong together and are replaced together.

A generation is born beside the live one (`birth`) and goes live by one atomic write of `current.json`; a crash before
that leaves the old one live. A branch is a generation to look at beside the live tables: a replay of all of history,
which may be promoted, or of a time range.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spark_jobs.errors import KeyfoldError
from spark_jobs.journal import Journal
from spark_jobs.keyed.records import ClockRecord, KeyedDone, KeyedPlan
from spark_jobs.lakehouse import Lakehouse, read_json, write_json
from spark_jobs.lakehouse.fail_points import reached

RECORD = "generation.json"
_CLOCK = "standing.json"
FORMAT = 2
"""Of what a generation consists of; the first had no journal."""


@dataclass(frozen=True)
class Generation:
    """One generation of a job, on disk at `folder`."""

    folder: Path
    record: dict[str, Any]

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
    def seed(self) -> Path:
        """Files of the state that it began with."""
        return self.folder / "seed"

    @property
    def journal(self) -> Journal[KeyedPlan, KeyedDone]:
        return Journal(self.folder / "journal", KeyedPlan, KeyedDone, "start a new generation with --full-refresh")

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    @property
    def answers(self) -> Path:
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

    def table(self, name: str) -> Path:
        return self.folder / "tables" / name


def live_generation(lakehouse: Lakehouse, job: str) -> Generation | None:
    """The live generation of a job, or None before its first run.

    Raises:
        KeyfoldError: the pointer to it is lost, it is gone, or an earlier form of Keyfold made it; names the remedy.
    """
    pointer = lakehouse.job(job) / "current.json"
    if not pointer.exists():
        # A lost pointer is no fresh start: that would read all events into a second history.
        if begun := [
            folder.name for folder in _born_folders(lakehouse, job) if any(folder.glob("journal/*.done.json"))
        ]:
            raise KeyfoldError(
                f"job {job}: {pointer} is lost, while {', '.join(begun)} stand there; restore it, or write "
                f'{{"generation": "{begun[-1]}"}} to it, or start over with --full-refresh'
            )
        return None
    folder = pointer.parent / read_json(pointer)["generation"]
    if not (folder / RECORD).exists():
        raise KeyfoldError(f"{pointer} names {folder.name}, which is gone; restore it or run with --full-refresh")
    generation = Generation(folder, read_json(folder / RECORD))
    if generation.record.get("format") != FORMAT:
        raise KeyfoldError(
            f"job {job}: {folder.name} was made by an earlier form of Keyfold, which kept no journal; its tables can be "
            f"read, and to go on the job reads all events again, once: "
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


def generation_folder(lakehouse: Lakehouse, job: str) -> Path:
    """Where the next generation of a job is to be."""
    numbers = [int(folder.name.rpartition("-")[2]) for folder in lakehouse.job(job).glob("generation-*")]
    live = live_generation_name(lakehouse, job)
    # The live one's too, where its folder is lost: a second of its name would pass for it.
    numbers += [int(live.rpartition("-")[2])] if live else []
    return lakehouse.job(job) / f"generation-{max(numbers, default=0) + 1:04d}"


def go_live(lakehouse: Lakehouse, generation: Generation) -> None:
    """Make a generation the live one, in one atomic step."""
    reached("generation: before it goes live")
    # One small file, replaced whole: a reader finds the old generation or the new one.
    write_json(lakehouse.job(generation.record["job"]) / "current.json", {"generation": generation.name})
    reached("generation: live")


def remove_dead_generations(lakehouse: Lakehouse, job: str) -> None:
    """Delete what a crash left half made, and all but the live generation and its forerunner.

    While the pointer to the live one is lost, nothing that has a batch is deleted: it may be the one.
    """
    live = live_generation_name(lakehouse, job)
    folders = sorted(lakehouse.job(job).glob("generation-*"))
    # The forerunner too: who opened its tables before the switch may still be reading.
    kept = [folder.name for folder in folders if live is not None and folder.name <= live][-2:]
    for folder in folders:
        has_batches = any(folder.glob("journal/*.done.json"))
        if folder.name in kept or (live is None and has_batches) or _waits_to_go_live(folder, live):
            continue
        shutil.rmtree(folder)


def _waits_to_go_live(folder: Path, live: str | None) -> bool:
    """Whether it is a branch whose promotion was killed behind its renaming: `keyfold promote` goes on with it."""
    record = folder / RECORD
    return live is not None and folder.name > live and record.exists() and "branch" in read_json(record)


def live_generation_name(lakehouse: Lakehouse, job: str) -> str | None:
    """The folder name of the live generation, which need not be readable."""
    pointer = lakehouse.job(job) / "current.json"
    return read_json(pointer)["generation"] if pointer.exists() else None


def _born_folders(lakehouse: Lakehouse, job: str) -> list[Path]:
    return sorted(folder for folder in lakehouse.job(job).glob("generation-*") if (folder / RECORD).exists())
