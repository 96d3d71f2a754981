"""Check a lakehouse for damage: read all its files and compare them with its journals. Nothing is written.

The check needs no Spark and no lock, and runs may go on meanwhile. As they replace and remove files, damage is reported only if
it is found in several attempts.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from keyfold.errors import KeyfoldError, first_line
from keyfold.ingestion import ingest_journal
from keyfold.ingestion.ingest_settings import REBUILD, existing_ingest, rebuild_remedy
from keyfold.ingestion.ingest_settings import RECORD as INGEST_RECORD
from keyfold.journal import Journal
from keyfold.journal.agreement import check_tables
from keyfold.journal.checksums import RECORD, differences, read_checksums
from keyfold.keyed.generation.generations import RECORD as GENERATION_RECORD
from keyfold.keyed.generation.generations import RETAINED_BATCHES, Generation, live_generation, live_generation_name
from keyfold.keyed.generation.manifests import read_manifests
from keyfold.keyed.parts.manifest import Manifest
from keyfold.keyed.plans.inputs import OtherTableError, check_inputs, check_unread
from keyfold.lakehouse import Lakehouse, is_table, read_json
from keyfold.lakehouse.checksums import checksum_in_name, checksum_of
from keyfold.lakehouse.files import DamagedError, files_below, open_for_reading
from keyfold.lakehouse.locks import is_held
from keyfold.lakehouse.presence import check_lakehouse_is_there
from keyfold.maintenance.checking_tables import Finding, Seen, findings_of_table
from keyfold.storage.place import Place

_TRIES = 3
_PAUSE_SECONDS = 0.2

_RESTORE = "restore it from a backup"


@dataclass(frozen=True)
class Checked:
    """The result of a check.

    Attributes:
        home: the lakehouse directory.
        checked: the streams, generations of jobs and tables that were checked.
        files: number of data files read.
        bytes: their size.
        findings: damage, and what could not be verified.
    """

    home: str
    checked: tuple[str, ...]
    files: int
    bytes: int
    findings: tuple[Finding, ...]

    @property
    def is_whole(self) -> bool:
        """Whether nothing is damaged."""
        return not any(finding.is_damage for finding in self.findings)

    def describe(self) -> Iterator[str]:
        """Lines of text about the result."""
        for finding in self.findings:
            yield f"{'damaged' if finding.is_damage else 'not verified'}: {finding.path} {finding.what}; {finding.remedy}"
        damaged = sum(finding.is_damage for finding in self.findings)
        yield (
            f"{self.home}: {len(self.checked)} checked, {self.files:,} data files ({self.bytes / 1e6:,.1f} MB) read; "
            + (f"{damaged:,} damaged" if damaged else "nothing is damaged")
        )


def check(lakehouse: Lakehouse) -> Checked:
    """Read all files of a lakehouse, and compare them with its journals.

    Landing files are not checked, as they may be deleted once they are read, nor are tables that a rebuild has moved aside.

    Raises:
        KeyfoldError: there is no lakehouse in the directory, or a folder of it cannot be read.
        OSError: a disk or a store fails.
    """
    check_lakehouse_is_there(lakehouse)
    seen, names, findings = Seen(), [], list[Finding]()
    for name, look in _owners(lakehouse):
        names.append(name)
        findings += _lasting(look, seen)
    return Checked(str(lakehouse.home), tuple(names), len(seen.files), sum(seen.files.values()), tuple(findings))


_Look = Callable[[Seen], Iterator[Finding]]


def _lasting(look: _Look, seen: Seen) -> list[Finding]:
    """The findings that all attempts have in common, the first of each path."""
    found = _first_of_each(look(seen))
    for _ in range(_TRIES - 1):
        if not found:
            break
        time.sleep(_PAUSE_SECONDS)
        again = {(one.path, one.what) for one in _first_of_each(look(seen))}
        found = [one for one in found if (one.path, one.what) in again]
    return found


def _first_of_each(findings: Iterator[Finding]) -> list[Finding]:
    by_path: dict[str, Finding] = {}
    try:
        for finding in findings:
            by_path.setdefault(finding.path, finding)
    except FileNotFoundError as error:
        # A generation that has gone live, or a removed branch: the next attempt does not list it.
        by_path.setdefault(str(error.filename), Finding(str(error.filename), "is gone", _RESTORE))
    return list(by_path.values())


def _owners(lakehouse: Lakehouse) -> Iterator[tuple[str, _Look]]:
    home = lakehouse.home
    streams = {path.name for kind in ("ingest", "events", "quarantine") for path in (home / kind).glob("*")}
    for stream in sorted(name for name in streams if not name.startswith(".")):
        # `stream=stream` binds the loop's current value: the function is called later.
        yield f"stream {stream}", lambda seen, stream=stream: _of_ingest(lakehouse, stream, seen)
    for folder in sorted((home / "jobs").glob("*")):
        job = folder.name
        yield f"job {job}", lambda _, job=job: _of_pointer(lakehouse, job)
        for one in sorted([*folder.glob("generation-*"), *folder.glob("branches/*")]):
            yield f"{job}/{one.name}", lambda seen, job=job, one=one: _of_generation(lakehouse, job, one, seen)
    yield "jobs and tables", lambda _: _of_absent(lakehouse)
    for table in sorted(path for path in (home / "monitoring").glob("*") if (path / "_delta_log").is_dir()):
        yield f"monitoring.{table.name}", lambda seen, table=table: findings_of_table(table, _RESTORE, seen)


def _of_ingest(lakehouse: Lakehouse, stream: str, seen: Seen) -> Iterator[Finding]:
    folder, remedy = lakehouse.ingest(stream), f"{_RESTORE}, or {rebuild_remedy(lakehouse, stream)}"
    try:
        birth = existing_ingest(lakehouse, stream)
    except (KeyfoldError, KeyError) as error:
        yield Finding(str(folder / INGEST_RECORD), f"cannot be read ({first_line(error)})", remedy)
        return
    if (folder / REBUILD).exists():
        again = lakehouse.command("ingest", stream, "--rebuild")
        yield Finding(str(folder / REBUILD), "is of an unfinished rebuild", f"finish it: `{again}`", is_damage=False)
        return
    if birth is None:
        # Empty tables without a record are fine: a killed start leaves them.
        if (folder / "journal").is_dir() or any(
            is_table(table) and DeltaTable(str(table)).count()
            for table in (lakehouse.events(stream), lakehouse.quarantine(stream))
        ):
            yield Finding(str(folder / INGEST_RECORD), "is gone", remedy)
        return
    journal = ingest_journal(lakehouse, stream)
    faults = False
    for finding in _of_records(folder, journal, birth.checksummed, remedy):
        faults |= finding.is_damage
        yield finding
    for table in birth.tables.values():
        for finding in findings_of_table(table, remedy, seen):
            faults = True
            yield finding
    try:
        done = journal.last_done()
    except KeyfoldError:
        return  # reported already
    rebuilds = "restore it, or run ingest again: it rebuilds the index from the event table if needed"
    for segment in done.segments if done else ():
        if what := _fault_of_segment(birth.segments / segment.name, segment.checksum):
            yield Finding(str(birth.segments / segment.name), what, rebuilds)
    if not faults:
        yield from _of_agreement(journal, birth.tables, birth.ids, birth.identity, birth.where, remedy)


def _fault_of_segment(path: Place, checksum: str) -> str | None:
    try:
        with open_for_reading(path) as file:
            return None if not checksum or checksum_of(file) == checksum else "is damaged (its checksum is wrong)"
    except FileNotFoundError:
        return "is gone"


def _of_absent(lakehouse: Lakehouse) -> Iterator[Finding]:
    """Find jobs whose folders are gone: what is left of them are their tables, and what their consumers' records say."""
    made, read = set[str](), set[str]()
    for record in sorted(lakehouse.home.glob(f"jobs/*/generation-*/{GENERATION_RECORD}")):
        with suppress(DamagedError):  # reported where the generation is checked
            born = read_json(record)
            made.update(born.get("table_ids", ()))
            read.update(
                one.partition("/")[0] for name, one in born.get("input_ids", {}).items() if name[:7] != "events."
            )
    for table in sorted(lakehouse.home.glob("tables/*")):
        if table.name not in made and is_table(table):
            remedy = f"{_RESTORE}, or remove the table if its job was removed on purpose"
            yield Finding(str(table), "is a table of no job: the folder of its job is gone", remedy)
    for job in sorted(read):
        if not lakehouse.job(job).is_dir():
            yield Finding(str(lakehouse.job(job)), "is gone, and other jobs read its tables", _RESTORE)


def _of_pointer(lakehouse: Lakehouse, job: str) -> Iterator[Finding]:
    try:
        live_generation(lakehouse, job)
    except (KeyfoldError, KeyError) as error:
        what = f"does not name a generation that can be read ({first_line(error)})"
        yield Finding(str(lakehouse.job(job) / "current.json"), what, _refresh(lakehouse, job))


def _of_generation(lakehouse: Lakehouse, job: str, folder: Place, seen: Seen) -> Iterator[Finding]:
    record, remedy = folder / GENERATION_RECORD, _refresh(lakehouse, job)
    if not record.exists():
        # Without batches, it is what a killed start leaves.
        if any(folder.glob("journal/*.done.json")):
            yield Finding(str(record), "is gone", remedy)
        return
    try:
        generation = Generation(folder, read_json(record))
        is_live = live_generation_name(lakehouse, job) == folder.name
        # The tables of a generation that was replaced are older versions of the live one's.
        tables = {
            name: generation.table(name)
            for name in generation.record["table_ids"]
            if is_live or generation.is_aside(name)
        }
        identity = generation.identity
    except (DamagedError, KeyError) as error:
        yield Finding(str(record), f"cannot be read ({first_line(error)})", remedy)
        return
    faults = False
    # The job's lock, since a run of a branch holds that one too.
    parts = {name: at for name, at in generation.checksummed.items() if is_live or not name.startswith("tables/")}
    for finding in _of_records(lakehouse.job(job), generation.journal, parts, remedy):
        faults |= finding.is_damage
        yield finding
    for table in tables.values():
        for finding in findings_of_table(table, remedy, seen):
            faults = True
            yield finding
    if not faults:
        where = f"job {job}, {folder.name}"
        yield from _of_agreement(generation.journal, tables, generation.ids, identity, where, remedy)
        yield from _of_state(generation, remedy)
        if is_live:
            yield from _of_inputs(lakehouse, generation, where, remedy)


def _of_inputs(lakehouse: Lakehouse, generation: Generation, where: str, remedy: str) -> Iterator[Finding]:
    """Check that the job can go on: its positions are in the logs of the tables that it reads, and no unread file is gone."""
    try:
        check_inputs(lakehouse, generation, where, remedy)
        check_unread(lakehouse, generation, where, remedy)
    except OtherTableError:
        return  # its producer was refreshed, or its stream was rebuilt: nothing is damaged, and the job says what to do
    except (KeyfoldError, DeltaError, FileNotFoundError) as error:
        yield Finding(str(generation.journal.folder), f"cannot go on ({first_line(error)})", remedy)


def _of_state(generation: Generation, remedy: str) -> Iterator[Finding]:
    """Check the checksums of all files of the state, and that those of the batches that are kept exist."""
    present: set[str] = set()
    damaged: set[str] = set()
    for folder in (generation.manifests, generation.parts):
        for file in files_below(folder):
            present.add(file.path.name)
            if (what := _fault_of_state_file(file.path)) is not None:
                damaged.add(file.path.name)
                yield Finding(str(file.path), what, remedy)
    labels: dict[str, set[int]] = {}
    for done in generation.journal.recent(RETAINED_BATCHES):
        for name, ones in done.manifests.items():
            labels.setdefault(name, set()).update(ones)
    named: set[str] = set()
    for name, ones in sorted(labels.items()):
        if name not in present:
            yield Finding(str(generation.manifests / name), "is gone", remedy)
        elif name not in damaged:
            manifests = read_manifests(generation.manifests, dict.fromkeys(ones, name)).values()
            named = named.union(*(Manifest.unpack(manifest).files for manifest in manifests))
    for name in sorted(named - present):
        yield Finding(str(generation.parts / name), "is gone", remedy)


def _fault_of_state_file(path: Place) -> str | None:
    try:
        with open_for_reading(path) as file:
            return (
                None if checksum_of(file) == checksum_in_name(path.name) else "is damaged (its checksum is another one)"
            )
    except FileNotFoundError:
        return None  # a run removed it after it was listed
    except OSError as error:
        return f"cannot be read ({first_line(error)})"


def _of_records(owner: Place, journal: Journal[Any, Any], parts: dict[str, Place], remedy: str) -> Iterator[Finding]:
    """Check the records of a journal, and the files whose checksums it records."""
    record = journal.folder / RECORD
    try:
        recorded = read_checksums(journal.folder)
    except DamagedError:
        recorded = None
        yield Finding(str(record), "is damaged (its checksum is wrong)", f"{_RESTORE}, or remove it and run once")
    if recorded is not None:
        for path, what in differences(recorded, parts):
            yield Finding(str(path), what, remedy)
    numbers = journal.kept()
    for batch in range(numbers[0], numbers[-1] + 1) if numbers else ():
        for suffix, read in (("plan", journal.plan), ("done", journal.done)):
            path = journal.folder / f"{batch:09d}.{suffix}.json"
            try:
                if read(batch) is None and not (suffix == "plan" and batch == numbers[0]):
                    yield Finding(str(path), "is gone", remedy)
            except KeyfoldError as error:
                yield Finding(str(path), f"cannot be read ({first_line(error)})", remedy)
    if numbers and not record.exists():
        what = "is missing, so that the journal cannot be verified"
        yield Finding(str(record), what, "run once, which writes it", is_damage=False)
    elif recorded is not None and numbers and recorded.batch < numbers[-1] and not is_held(owner):
        what = f"ends at batch {recorded.batch}, but batch {numbers[-1]} is done: a run was interrupted, or it is an older copy"
        yield Finding(str(record), what, "run once, which rewrites it", is_damage=False)


def _of_agreement(
    journal: Journal[Any, Any], tables: dict[str, Place], ids: dict[str, str], identity: str, where: str, remedy: str
) -> Iterator[Finding]:
    """Check that tables and journal agree, once neither is damaged."""
    try:
        check_tables(journal, tables, ids, identity, where, remedy)
    except (KeyfoldError, DeltaError) as error:
        yield Finding(str(journal.folder), f"does not agree with the tables ({first_line(error)})", remedy)


def _refresh(lakehouse: Lakehouse, job: str) -> str:
    return f"{_RESTORE}, or start a new generation: `{lakehouse.command('run', job, '--full-refresh')}`"
