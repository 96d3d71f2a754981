"""Back up a lakehouse while runs go on, and restore a backup.

A copy of a stream's ingest, or of a generation of a job, is cut at its newest commit record. It has the journal up to that
record with all plans, the tables' logs up to that batch with all data files, and the state of no later batch. A crash right
after that batch would leave the same files, so a run on the restored copy resumes as after a crash. Jobs are copied before the
jobs and streams that they read, so that these have all rows that the jobs have read.

Not copied: `checksums.json`, since the first run on the restored copy records the checksums of the files there, and Delta's
`_last_checkpoint`, since checkpoints are found without it.
"""

import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from errno import ENOENT

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from keyfold.errors import KeyfoldError, Misconfigured, NotFound
from keyfold.keyed.generation.generations import RECORD, Generation
from keyfold.keyed.generation.live_record import live_entries, live_generation_name, live_record
from keyfold.lakehouse import Lakehouse, exclusive, read_json
from keyfold.lakehouse.files import DamagedError, files_below, new_file
from keyfold.lakehouse.paths import is_table
from keyfold.lakehouse.presence import check_lakehouse_is_there, named_files
from keyfold.maintenance.backup_store import BackedUpFile, BackupStore
from keyfold.storage.place import FoundFile, Place, found_at, path_below

_TRIES = 10
_COPIES_AT_ONCE = 8

_OF_JOURNALS = [f"{of}journal/{name}" for of in ("", "*/", "branches/*/") for name in ("clock.json", "history.jsonl")]
_OVERWRITTEN = ("ingest.json", "rebuild.json", *_OF_JOURNALS)


@dataclass(frozen=True)
class Backup:
    """A backup that was made or restored.

    Attributes:
        name: its name for `restore`: the time when it began, in UTC.
        files, bytes: number and size of its files.
        new_bytes: size of what was written.
    """

    name: str
    files: int
    bytes: int
    new_bytes: int


def back_up(lakehouse: Lakehouse, to: Place) -> Backup:
    """Back up a lakehouse. Runs, also continuous ones, may go on meanwhile; maintenance deletes nothing.

    Args:
        to: a folder or bucket for backups, outside of the lakehouse; created if missing. No backup there is ever removed.

    Raises:
        DamagedError: the folder of a job is gone, whose tables are there; all others are in the backup.
        KeyfoldError: there is no lakehouse or a folder of it cannot be read, `to` is inside of it, another backup is running, or
            runs replace files faster than they can be copied.
        OSError: a disk is full or fails; no backup was made.
    """
    check_lakehouse_is_there(lakehouse)
    if path_below(to, lakehouse.home) is not None:
        raise Misconfigured(f"{to} is inside the lakehouse {lakehouse.home}: give a folder outside of it")
    name, store = f"{datetime.now(UTC):%Y-%m-%dT%H-%M-%S-%fZ}", BackupStore(to)
    with exclusive(to, "a backup"), exclusive(lakehouse.backup, "a backup"):
        copier = _Copier(lakehouse, store)
        for _ in range(_TRIES):
            live = _live(lakehouse)
            parts = [copier.copy(part) for part in _parts(lakehouse)]
            # The tables at their addresses are those of the generations that were live then. A second try copies what is new.
            if _live(lakehouse) == live:
                break
        else:
            raise KeyfoldError(
                f"generations of jobs in {lakehouse.home} went live during each of {_TRIES} tries; back up when no job is refreshed"
            )
        files = sorted(file for part in parts for file in part.values())
        store.write(name, files)
        if lost := _lost(lakehouse):
            raise DamagedError(
                f"backup {name} is made, but lacks {', '.join(lost)}: {lakehouse.home} has tables of these jobs, and their folders "
                "are gone; restore them from an earlier backup, or remove the tables if the jobs were removed on purpose"
            )
    return Backup(name, len(files), sum(file.bytes for file in files), copier.new_bytes)


def restore(folder: Place, lakehouse: Lakehouse, name: str | None = None) -> Backup:
    """Restore a backup to an empty lakehouse directory, and verify the digest of each file.

    Args:
        folder: the folder or bucket of backups.
        lakehouse: the lakehouse to create, at the same path as the original or at another.
        name: name of the backup; None for the newest.

    Raises:
        KeyfoldError: there is no such backup, part of it is gone or damaged, or the lakehouse directory is not empty.
        OSError: a disk is full or fails; remove the written files, and restore again.
    """
    store = BackupStore(folder)
    if not (names := store.names()):
        raise NotFound(f"there is no backup in {folder}")
    # A hidden file is the lock of an earlier run.
    if any(not file.path.name.startswith(".") for file in files_below(lakehouse.home)):
        raise Misconfigured(
            f"{lakehouse.home} is not empty: restore to a new lakehouse directory, or move this one aside"
        )
    files = store.read(name or names[-1])

    def write(one: BackedUpFile) -> None:
        with new_file(lakehouse.home / one.path) as file:
            for some in store.get(one):
                file.write(some)

    with ThreadPoolExecutor(_COPIES_AT_ONCE) as copies:
        list(copies.map(write, files))
    size = sum(file.bytes for file in files)
    return Backup(name or names[-1], len(files), size, size)


def _live(lakehouse: Lakehouse) -> bytes:
    with suppress(FileNotFoundError):
        return live_record(lakehouse).read_bytes()
    return b""


def _lost(lakehouse: Lakehouse) -> list[str]:
    """The jobs whose live generation is gone, and whose tables are there: without it these are of no use, and not copied."""
    live = ((job, lakehouse.job(job) / entry.generation) for job, entry in sorted(live_entries(lakehouse).items()))
    return [job for job, folder in live if is_table(lakehouse.home / "tables" / job) and not (folder / RECORD).exists()]


class _Copier:
    """Copies files to the store. Those that have not changed since the last backup, or an earlier try, are not read."""

    def __init__(self, lakehouse: Lakehouse, store: BackupStore) -> None:
        self._lakehouse, self._store, self._there = lakehouse, store, store.contents()
        last = store.read(store.names()[-1]) if store.names() else []
        self._known = {file[:4]: file for file in last if file.digest in self._there}
        self.new_bytes = 0

    def copy(self, folder: Place) -> dict[str, BackedUpFile]:
        """Copy a part, and return its files by path. If files are removed meanwhile, list it again and retry."""
        for attempt in range(1, _TRIES + 1):
            try:
                # Before others are listed: with a newer clock, events that the restored job still has to read would be late.
                files = [self._copy(found_at(path)) for name in _OVERWRITTEN for path in folder.glob(name)]
                with ThreadPoolExecutor(_COPIES_AT_ONCE) as copies:
                    files += copies.map(self._copy, list(_files(self._lakehouse, folder)))
                return {file.path: file for file in files if file}
            except (FileNotFoundError, DeltaError) as error:
                if attempt == _TRIES and folder.exists():
                    raise KeyfoldError(
                        f"{folder} could not be backed up in {_TRIES} tries: {error}. If a file is missing for good, restore it; "
                        "otherwise runs replace files faster than they are copied: back up when fewer runs are active"
                    ) from error
        return {}

    def _copy(self, file: FoundFile) -> BackedUpFile | None:
        below = path_below(file.path, self._lakehouse.home)
        # Hidden: locks, and files that are being written.
        if below is None or below.name.startswith("."):
            return None
        what = (below.as_posix(), file.bytes, file.changed_at, file.tag)
        if what not in self._known:
            size, digest = self._store.put(file.path)
            self.new_bytes += 0 if digest in self._there else size
            self._there.add(digest)
            self._known[what] = BackedUpFile(what[0], size, *what[2:], digest)
        return self._known[what]


def _parts(lakehouse: Lakehouse) -> list[Place]:
    """The folders of a lakehouse that are copied by themselves, in the order in which they must be copied."""
    home = lakehouse.home
    others = [*sorted(home.glob("ingest/*")), *sorted(home.glob("monitoring/[!.]*")), home / "aside", home / "landing"]
    return [*_consumers_first(home.glob("jobs/*")), *others, home]


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


def _files(lakehouse: Lakehouse, folder: Place) -> Iterator[FoundFile]:
    """The files of a part, but those that are overwritten."""
    kind = folder.parent.name if folder.parent.parent == lakehouse.home else ""
    if folder == lakehouse.home:
        yield from (found_at(path) for path in folder.iterdir() if path.is_file())
    elif kind == "jobs":
        for path in sorted([*folder.glob("generation-*"), *folder.glob("branches/*")]):
            # The record is written last. Without it, the generation is being created, or its creation was interrupted.
            if (path / RECORD).exists():
                live = live_generation_name(lakehouse, folder.name)
                yield from _generation(Generation(path, read_json(path / RECORD)), path.name == live)
    elif kind == "ingest":
        yield from _ingest(lakehouse, folder)
    else:
        yield from _table(folder) if kind == "monitoring" else files_below(folder)


def _generation(generation: Generation, is_live: bool) -> Iterator[FoundFile]:
    last, records = _journal(generation.journal.folder)
    yield from records
    for name in generation.record["table_ids"]:
        table = generation.table(name)
        if is_live or table == generation.aside(name):
            yield from _table(table, f"{generation.identity}/{name}", last)
            if generation.table(name) != table:
                raise FileNotFoundError(ENOENT, "went to its address while it was listed", str(table))
    for file in files_below(generation.folder):
        top = file.below.partition("/")[0]
        # Parts and manifests of a later batch would stay for ever: a run removes those of its own batch alone.
        if top not in ("journal", "tables") and (top != "state" or int(file.path.name.partition("-")[0]) <= last):
            yield file


def _ingest(lakehouse: Lakehouse, folder: Place) -> Iterator[FoundFile]:
    # The known files before the journal, so that the journal has the batches after the ones that they cover.
    yield from list(files_below(folder / "files"))
    last, records = _journal(folder / "journal")
    yield from records
    if (folder / "ingest.json").exists():
        identity = read_json(folder / "ingest.json")["identity"]
        for table in ("events", "quarantine"):
            yield from _table(lakehouse.home / table / folder.name, f"{identity}/{table}", last)
    yield from files_below(folder / "ids")


def _journal(journal: Place) -> tuple[int, list[FoundFile]]:
    """The number of a journal's newest commit record, -1 if there is none, and its plans and commit records."""
    records = [file for file in files_below(journal) if re.fullmatch(r"\d{9}\.(plan|done)\.json", file.below)]
    return max((int(file.below[:9]) for file in records if "done" in file.below), default=-1), records


def _table(table: Place, application: str = "", last: int = -1) -> Iterator[FoundFile]:
    """The files of a Delta table up to the newest version without a later batch of an application than the last one."""
    if not is_table(table):
        return
    delta = DeltaTable(str(table))
    while (taken := delta.transaction_version(application) if application else None) is not None and taken > last:
        delta.load_as_version(delta.version() - 1)
    log, data = "_delta_log/", dict[str, FoundFile]()
    for file in files_below(table):
        if not file.below.startswith(log):
            data[file.below] = file
        elif (version := re.match(r"\d{20}\.", file.path.name)) and int(version[0][:-1]) <= delta.version():
            yield file
    if gone := named_files(delta).keys() - data:
        raise FileNotFoundError(ENOENT, "was removed while its table was listed", str(table / min(gone)))
    yield from data.values()
