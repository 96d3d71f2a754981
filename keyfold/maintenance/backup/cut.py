"""Select the files for a consistent copy of a lakehouse while runs write to it.

A copy of a stream's ingest, or of a generation of a job, is cut at its newest commit record. It has:

- the journal up to that record, and all plans, since the plans of a run are written together;
- the tables' logs up to that batch, and all data files (those that the copied log does not name have no effect);
- the state of no later batch.

A crash right after that batch would leave the same files. So a run on the restored copy resumes as after a crash. Jobs are cut
before the jobs and streams that they read, so that these have all rows that the jobs have read.
"""

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from errno import ENOENT
from pathlib import PurePosixPath
from typing import NamedTuple

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from keyfold.errors import KeyfoldError
from keyfold.journal.checksums import RECORD as CHECKSUMS
from keyfold.keyed.generation.generations import RECORD, Generation, live_generation_name
from keyfold.lakehouse import Lakehouse, read_json
from keyfold.lakehouse.files import DamagedError, FoundFile, files_below, read_with_tag
from keyfold.lakehouse.paths import is_table
from keyfold.lakehouse.presence import absent_files
from keyfold.storage.place import Place, path_below

_NOT_CONTENT = re.compile(r"\.lock|\.lease|\.(aside|clock)-.*")
_RECORD = re.compile(r"(\d{9})\.(plan|done)\.json")


class MovedOnError(KeyfoldError):
    """Files of a part were removed since it was listed. List it again."""


@dataclass(frozen=True)
class Part:
    """Files that are copied together.

    Attributes:
        name: a name for messages.
        held: files that are overwritten in place, by path in the lakehouse: their content at the right moment, with its tag
            in a store.
        files: all other files, by path in the lakehouse. They are never overwritten, or may be of any version.
    """

    name: str
    held: dict[str, tuple[bytes, str]] = field(default_factory=dict)
    files: dict[str, FoundFile] = field(default_factory=dict)


def part_names(lakehouse: Lakehouse) -> list[str]:
    """The parts of a lakehouse, by folder, in the order in which they must be cut and copied."""
    jobs, streams = _consumers_first(lakehouse.home.glob("jobs/*")), lakehouse.home.glob("ingest/*")
    others = [lakehouse.home / name for name in ("monitoring", "aside", "landing", "")]
    return [_below(lakehouse, folder) for folder in (*jobs, *sorted(streams), *others)]


def live_pointers(lakehouse: Lakehouse) -> dict[str, tuple[bytes, str] | None]:
    """The contents of the files that name live generations. Copies of several jobs fit together if none changes meanwhile."""
    return {str(folder): _read_if_there(folder / "current.json") for folder in lakehouse.home.glob("jobs/*")}


def _consumers_first(jobs: Iterable[Place]) -> list[Place]:
    """Sort folders of jobs so that each is before the jobs whose tables it reads: these have all rows that it has read."""
    waiting, ordered = sorted(jobs), list[Place]()
    reads = {job: {name for one in job.glob("*/generation.json") for name in _producers(one)} for job in waiting}
    while waiting:
        read = set[str]().union(*(reads[job] for job in waiting))
        # Generations of different ages may read each other: take all of them.
        ready = [job for job in waiting if job.name not in read] or waiting
        ordered += ready
        waiting = [job for job in waiting if job not in ready]
    return ordered


def _producers(record: Place) -> Iterator[str]:
    with suppress(FileNotFoundError, DamagedError):
        for table, content in read_json(record).get("input_ids", {}).items():
            if not table.startswith("events."):
                yield content.partition("/")[0]


def cut_part(lakehouse: Lakehouse, name: str) -> Part:
    """List the files of a part to copy; see `part_names`.

    Raises:
        MovedOnError: files were removed while they were listed; list the part again.
        KeyfoldError: a record cannot be read.
    """
    folder, top = (lakehouse.home / name if name else lakehouse.home), name.partition("/")[0]
    part = Part(name or "files at the top of the lakehouse directory")
    try:
        if top == "jobs":
            _cut_job(lakehouse, folder, part)
        elif top == "ingest":
            _cut_ingest(lakehouse, folder, part)
        elif top == "monitoring":
            for table in sorted(folder.glob("*")):
                _cut_table(lakehouse, table, part)
        else:
            _take(lakehouse, part, files_below(folder) if top else _files_in(folder))
    except FileNotFoundError as error:
        raise MovedOnError(f"{name}: {error.filename or error} was removed while it was listed") from error
    return part


def _cut_job(lakehouse: Lakehouse, folder: Place, part: Part) -> None:
    # Checksums first: files newer than their checksum pass the check, and older ones count as damaged.
    _hold(
        lakehouse,
        part,
        *folder.glob(f"generation-*/journal/{CHECKSUMS}"),
        *folder.glob(f"branches/*/journal/{CHECKSUMS}"),
    )
    # The pointer before the generations are listed, so that the one it names is among them.
    pointer = folder / "current.json"
    _hold(lakehouse, part, pointer, *folder.glob("together-*.json"))
    live = live_generation_name(lakehouse, folder.name)
    for generation in sorted([*folder.glob("generation-*"), *folder.glob("branches/*")]):
        # The record is written last. Without it, the generation is being created, or its creation was interrupted.
        if (generation / RECORD).exists():
            _cut_generation(lakehouse, generation, part, is_live=generation.name == live)
    # Tables at their addresses are those of the generation that was live then.
    if _read_if_there(pointer) != part.held.get(_below(lakehouse, pointer)):
        raise MovedOnError(f"{folder}: another generation went live while its files were listed")


def _cut_generation(lakehouse: Lakehouse, folder: Place, part: Part, *, is_live: bool) -> None:
    # Before the journal: with a newer clock, events that the restored job still has to read would be late.
    _hold(lakehouse, part, folder / "journal" / "standing.json")
    last = _cut_journal(lakehouse, folder / "journal", part)
    record = read_json(folder / RECORD)
    identity = record["identity"]
    generation = Generation(folder, record)
    for name in record["table_ids"]:
        if is_live or generation.is_aside(name):
            _cut_table(lakehouse, generation.table(name), part, f"{identity}/{name}", last)
    of_cut = (file for file in files_below(folder) if _is_of_cut(file.path, folder, last))
    _take(lakehouse, part, of_cut)


def _is_of_cut(path: Place, folder: Place, last: int) -> bool:
    below = _relative(path, folder)
    if below.parts[0] in ("journal", "tables"):
        return False
    # Parts and manifests of a batch that is not committed are of an attempt that the restored job repeats.
    return below.parts[0] != "state" or int(below.name.partition("-")[0]) <= last


def _cut_ingest(lakehouse: Lakehouse, folder: Place, part: Part) -> None:
    _hold(lakehouse, part, folder / "journal" / CHECKSUMS, folder / "ingest.json", folder / "rebuild.json")
    # The known files before the journal, so that the journal has the batches after the ones that they cover.
    _take(lakehouse, part, files_below(folder / "files"))
    last = _cut_journal(lakehouse, folder / "journal", part)
    for name in [name for name in part.files if _covers(name) > last]:
        del part.files[name]
    if (folder / "ingest.json").exists():
        identity = read_json(folder / "ingest.json")["identity"]
        for table in ("events", "quarantine"):
            path = lakehouse.home / table / folder.name
            _cut_table(lakehouse, path, part, f"{identity}/{table}", last)
    _take(lakehouse, part, files_below(folder / "ids"))


def _covers(name: str) -> int:
    found = re.search(r"/files/known-(\d+)\.parquet$", name)
    return int(found[1]) if found else -1


def _cut_journal(lakehouse: Lakehouse, journal: Place, part: Part) -> int:
    """Add the records of a journal, and return the number of its newest commit record; -1 if there is none."""
    if not journal.is_dir():
        return -1
    found = [file for file in files_below(journal) if file.path.parent == journal]
    records = [(file, match) for file in found if (match := _RECORD.fullmatch(file.path.name))]
    last = max((int(match[1]) for _, match in records if match[2] == "done"), default=-1)
    _take(lakehouse, part, (file for file, _ in records))
    _hold(lakehouse, part, journal / "history.jsonl")
    return last


def _cut_table(lakehouse: Lakehouse, table: Place, part: Part, application: str = "", last: int = -1) -> None:
    """Add a Delta table in its current version, or in that after an application's batch."""
    if not is_table(table):
        return
    log: LogCut = cut_log(table / "_delta_log", application, last)
    if log.is_behind:
        raise MovedOnError(f"{table}: a checkpoint of its log was written while it was listed")
    if log.pointer is not None:
        part.held[_below(lakehouse, table / "_delta_log" / "_last_checkpoint")] = log.pointer
    _take(lakehouse, part, log.files)
    _take(lakehouse, part, (file for file in files_below(table) if "_delta_log" not in file.path.parts))
    try:
        absent = absent_files(table, DeltaTable(str(table), version=log.version))
    except DeltaError as error:
        raise MovedOnError(f"{table}: its log changed while it was listed ({error})") from error
    if absent:
        raise MovedOnError(f"{table}: {', '.join(list(absent)[:3])} was removed while the table was listed")


def _hold(lakehouse: Lakehouse, part: Part, *paths: Place) -> None:
    for path in paths:
        try:
            part.held[_below(lakehouse, path)] = read_with_tag(path)
        except FileNotFoundError:
            continue


def _take(lakehouse: Lakehouse, part: Part, files: Iterable[FoundFile]) -> None:
    for file in files:
        name = _below(lakehouse, file.path)
        if name not in part.held and not _NOT_CONTENT.fullmatch(file.path.name):
            part.files[name] = file


def _files_in(folder: Place) -> Iterator[FoundFile]:
    for path in folder.iterdir():
        if path.is_file():
            found = path.stat()
            yield FoundFile(path, "", found.st_size, found.st_mtime_ns)


def _relative(path: Place, folder: Place) -> PurePosixPath:
    found = path_below(path, folder)
    assert found is not None  # noqa: S101 - callers have found the path below the folder
    return PurePosixPath(found.as_posix())


def _below(lakehouse: Lakehouse, path: Place) -> str:
    below = _relative(path, lakehouse.home).as_posix()
    return "" if below == "." else below


_ENTRY = re.compile(r"(\d{20})\.json")
_VERSIONED = re.compile(r"(\d{20})\..*")


class LogCut(NamedTuple):
    """A log up to a version.

    Attributes:
        version: the version of the table.
        files: entries, checkpoints and checksums up to that version.
        pointer: the content of `_last_checkpoint` and its tag in a store; None if there is none.
        is_behind: whether the pointer names a later version.
    """

    version: int
    files: list[FoundFile]
    pointer: tuple[bytes, str] | None
    is_behind: bool


def cut_log(log: Place, application: str = "", last: int = -1) -> LogCut:
    """Cut a log before the first commit of an application's batch after `last`. Without an application, take all of it.

    Raises:
        FileNotFoundError: entries were removed while they were read.
    """
    pointer = _read_if_there(log / "_last_checkpoint")
    found = {file.path.name: file for file in files_below(log) if file.path.parent == log}
    versions = sorted((int(match[1]) for name in found if (match := _ENTRY.fullmatch(name))), reverse=True)
    if not versions:
        # The table was aside, and is at its address now.
        raise FileNotFoundError(ENOENT, "its entries were removed", str(log))
    cut = versions[0]
    # From the newest entry backwards: stop at the newest one of a batch up to `last`.
    for version in versions if application else ():
        batch = _batch_of(log / f"{version:020d}.json", application)
        if batch is not None and batch <= last:
            break
        if batch is not None:
            cut = version - 1
    files = [file for name, file in found.items() if (match := _VERSIONED.fullmatch(name)) and int(match[1]) <= cut]
    is_behind = pointer is not None and json.loads(pointer[0])["version"] > cut
    return LogCut(cut, files, pointer, is_behind)


def _batch_of(entry: Place, application: str) -> int | None:
    for line in entry.read_bytes().splitlines():
        if b'"txn"' in line and (txn := json.loads(line).get("txn")) and txn["appId"] == application:
            return int(txn["version"])
    return None


def _read_if_there(path: Place) -> tuple[bytes, str] | None:
    try:
        return read_with_tag(path)
    except FileNotFoundError:
        return None
