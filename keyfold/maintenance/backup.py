"""Back up a lakehouse while runs go on, and restore a backup.

A copy of a stream's ingest, or of a generation of a job, is cut at its newest commit record. It has the journal up to that
record with all plans, the tables' logs up to that batch with all data files, and the state of no later batch. A crash right
after that batch would leave the same files, so a run on the restored copy resumes as after a crash. Jobs are copied before the
jobs and streams that they read, so that these have all rows that the jobs have read.

Not copied: `checksums.json`, since the first run on the restored copy records the checksums of the files there, and Delta's
`_last_checkpoint`, since checkpoints are found without it.
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from errno import ENOENT
from functools import partial

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from keyfold.errors import KeyfoldError, Misconfigured, NotFound
from keyfold.keyed.generation.generations import RECORD, Generation
from keyfold.keyed.generation.live_record import live_generation_name, live_record
from keyfold.lakehouse import Lakehouse, exclusive, read_json
from keyfold.lakehouse.files import DamagedError, files_below, new_file, open_for_reading
from keyfold.lakehouse.paths import is_table
from keyfold.lakehouse.presence import check_lakehouse_is_there, named_files
from keyfold.maintenance.backup_store import BackedUpFile, BackupStore
from keyfold.storage.place import FoundFile, Place, found_at, path_below

_TRIES = 10
_COPIES_AT_ONCE = 8


@dataclass(frozen=True)
class Backup:
    """A backup that was made or restored.

    Attributes:
        name: its name for `restore`: the time when it began, in UTC.
        home: the lakehouse directory that was read, or written.
        files, bytes: number and size of its files.
        new_contents, new_bytes: number and size of the contents that were written.
        seconds: duration.
    """

    name: str
    home: str
    files: int
    bytes: int
    new_contents: int
    new_bytes: int
    seconds: float


def back_up(lakehouse: Lakehouse, to: Place, *, keep: int | None = None) -> Backup:
    """Back up a lakehouse. Runs, also continuous ones, may go on meanwhile; maintenance deletes nothing.

    Args:
        to: a folder or bucket for backups, outside of the lakehouse; created if missing.
        keep: number of backups to keep there; None keeps all.

    Raises:
        KeyfoldError: there is no lakehouse or a folder of it cannot be read, `to` is inside of it, another backup is running, or
            runs replace files faster than they can be copied. With `keep`: the lakehouse lacks a job or a table that the last
            backup has; no backup is made or removed.
        OSError: a disk is full or fails; no backup was made.
    """
    check_lakehouse_is_there(lakehouse)
    if path_below(to, lakehouse.home) is not None:
        raise Misconfigured(f"{to} is inside the lakehouse {lakehouse.home}: give a folder outside of it")
    if keep is not None and keep < 1:
        raise Misconfigured(f"keep is {keep}: give 1 or more, since the new backup is kept")
    began, name = time.monotonic(), f"{datetime.now(UTC):%Y-%m-%dT%H-%M-%S-%fZ}"
    with exclusive(to, "a backup"), exclusive(lakehouse.backup, "a backup"):
        store = BackupStore(to)
        last = store.read(store.names()[-1]) if store.names() else []
        there = store.contents()
        files = _copied(lakehouse, _Copier(lakehouse, store, last, there))
        if keep is not None and (lost := _jobs_and_tables(last) - _jobs_and_tables(files)):
            raise NotFound(
                f"{lakehouse.home} lacks {', '.join(sorted(lost))}, which the last backup in {to} has; no backup was made, and "
                "none was removed. Mount the disk, or restore that backup; if this was removed on purpose, back up once "
                "without --keep"
            )
        store.write(name, files)
        if keep is not None:
            store.keep(keep)
    return _backup(name, lakehouse, files, there, began)


def list_backups(folder: Place) -> list[str]:
    """The names of the backups in a folder or bucket, oldest first."""
    return BackupStore(folder).names()


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
    began, store = time.monotonic(), BackupStore(folder)
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
    return _backup(name or names[-1], lakehouse, files, {}, began)


def _backup(name: str, lakehouse: Lakehouse, files: list[BackedUpFile], there: Iterable[str], began: float) -> Backup:
    new = {file.digest: file.bytes for file in files}
    for digest in there:
        new.pop(digest, None)
    size, seconds = sum(file.bytes for file in files), time.monotonic() - began
    return Backup(name, str(lakehouse.home), len(files), size, len(new), sum(new.values()), seconds)


def _copied(lakehouse: Lakehouse, copier: "_Copier") -> list[BackedUpFile]:
    for _ in range(_TRIES):
        before = _live(lakehouse)
        parts = [copier.copy(name, cut) for name, cut in _parts(lakehouse)]
        # The tables at their addresses are those of the generations that were live then. A second try copies what is new.
        if _live(lakehouse) == before:
            return sorted(file for part in parts for file in part.values())
    raise KeyfoldError(
        f"generations of jobs in {lakehouse.home} went live during each of {_TRIES} tries; back up when no job is refreshed"
    )


def _live(lakehouse: Lakehouse) -> bytes:
    with suppress(FileNotFoundError):
        return live_record(lakehouse).read_bytes()
    return b""


class _Copier:
    """Copies files to the store. Those that have not changed since the last backup, or an earlier try, are not read."""

    def __init__(
        self, lakehouse: Lakehouse, store: BackupStore, last: Iterable[BackedUpFile], there: Iterable[str]
    ) -> None:
        self._home, self._store = lakehouse.home, store
        self._known = {file[:4]: file for file in last if file.digest in there}
        self._part: dict[str, BackedUpFile] = {}

    def copy(self, name: str, cut: "_Cut") -> dict[str, BackedUpFile]:
        """Copy a part, and return its files by path. If files are removed meanwhile, list it again and retry."""
        self._part = {}
        for attempt in range(1, _TRIES + 1):
            try:
                with ThreadPoolExecutor(_COPIES_AT_ONCE) as copies:
                    list(copies.map(self._copy, list(cut(self.now))))
                break
            except (FileNotFoundError, DeltaError) as error:
                if attempt == _TRIES and (self._home / name).exists():
                    raise KeyfoldError(
                        f"{name} could not be backed up in {_TRIES} tries: {error}. If a file is missing for good, restore it; "
                        "otherwise runs replace files faster than they are copied: back up when fewer runs are active"
                    ) from error
                self._part = {}
        return self._part

    def now(self, *paths: Place) -> None:
        """Copy files that are overwritten in place, before others are listed."""
        for path in paths:
            with suppress(FileNotFoundError):
                self._copy(found_at(path))

    def _copy(self, file: FoundFile) -> None:
        below = path_below(file.path, self._home)
        # Hidden: locks, and files that are being written.
        if below is None or below.name.startswith("."):
            return
        what = (below.as_posix(), file.bytes, file.changed_at, file.tag)
        if what not in self._known:
            with open_for_reading(file.path) as source:
                size, digest = self._store.put(source)
            self._known[what] = BackedUpFile(what[0], size, *what[2:], digest)
        self._part[what[0]] = self._known[what]


_Now = Callable[..., None]
_Cut = Callable[[_Now], Iterator[FoundFile]]
"""Copies what is overwritten in place with the function that it is given, and yields the other files of a part."""


def _parts(lakehouse: Lakehouse) -> Iterator[tuple[str, _Cut]]:
    """The parts of a lakehouse in the order in which they must be copied."""
    for folder in _consumers_first(lakehouse.home.glob("jobs/*")):
        yield f"jobs/{folder.name}", partial(_job, lakehouse, folder)
    for folder in sorted(lakehouse.home.glob("ingest/*")):
        yield f"ingest/{folder.name}", partial(_ingest, lakehouse, folder)
    # Hidden: the lock of those who write there.
    for table in sorted(lakehouse.home.glob("monitoring/[!.]*")):
        yield f"monitoring/{table.name}", partial(_table, table, "", -1)
    for name in ("aside", "landing"):
        yield name, lambda _, name=name: files_below(lakehouse.home / name)
    yield "", lambda _: (found_at(path) for path in lakehouse.home.iterdir() if path.is_file())


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


def _job(lakehouse: Lakehouse, folder: Place, now: _Now) -> Iterator[FoundFile]:
    live = live_generation_name(lakehouse, folder.name)
    for path in sorted([*folder.glob("generation-*"), *folder.glob("branches/*")]):
        # The record is written last. Without it, the generation is being created, or its creation was interrupted.
        if (path / RECORD).exists():
            yield from _generation(Generation(path, read_json(path / RECORD)), path.name == live, now)


def _generation(generation: Generation, is_live: bool, now: _Now) -> Iterator[FoundFile]:
    # Before the journal: with a newer clock, events that the restored job still has to read would be late.
    now(generation.journal.folder / "clock.json")
    last, records = _journal(generation.journal.folder, now)
    yield from records
    for name in generation.record["table_ids"]:
        table = generation.table(name)
        if is_live or table == generation.aside(name):
            yield from _table(table, f"{generation.identity}/{name}", last, now)
            if generation.table(name) != table:
                raise FileNotFoundError(ENOENT, "went to its address while it was listed", str(table))
    for file in files_below(generation.folder):
        top = file.below.partition("/")[0]
        # Parts and manifests of a batch that is not committed are of an attempt that the restored job repeats.
        if top not in ("journal", "tables") and (top != "state" or int(file.path.name.partition("-")[0]) <= last):
            yield file


def _ingest(lakehouse: Lakehouse, folder: Place, now: _Now) -> Iterator[FoundFile]:
    now(folder / "ingest.json", folder / "rebuild.json")
    # The known files before the journal, so that the journal has the batches after the ones that they cover.
    known = list(files_below(folder / "files"))
    last, records = _journal(folder / "journal", now)
    yield from records
    yield from (one for one in known if int(re.sub(r"\D", "", one.below) or 0) <= last)
    if (folder / "ingest.json").exists():
        identity = read_json(folder / "ingest.json")["identity"]
        for table in ("events", "quarantine"):
            yield from _table(lakehouse.home / table / folder.name, f"{identity}/{table}", last, now)
    yield from files_below(folder / "ids")


def _journal(journal: Place, now: _Now) -> tuple[int, list[FoundFile]]:
    """The number of a journal's newest commit record, -1 if there is none, and its plans and commit records."""
    records = [file for file in files_below(journal) if re.fullmatch(r"\d{9}\.(plan|done)\.json", file.below)]
    now(journal / "history.jsonl")
    return max((int(file.below[:9]) for file in records if "done" in file.below), default=-1), records


def _table(table: Place, application: str, last: int, _: _Now) -> Iterator[FoundFile]:
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


def _jobs_and_tables(files: Iterable[BackedUpFile]) -> set[str]:
    """The jobs, and the tables of streams, of jobs and about runs, that files of a lakehouse are of."""
    found = set[str]()
    for file in files:
        # Tables of a branch, or of a generation that is not live, may go at any time.
        if match := re.match(r"(jobs/[^/]+)/|((?:tables|events|quarantine|monitoring)/[^/]+)/_delta_log/", file.path):
            found.add(match[1] or match[2])
    return found
