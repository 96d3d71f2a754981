"""Check that the files of a lakehouse are there, and agree with its journals. Nothing is written.

The check needs no Spark and no lock, and runs may go on meanwhile. As they replace and remove files, damage is reported only if
it is found in several attempts.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from deltalake import DeltaTable

from keyfold.ingestion.ingest_settings import REBUILD, existing_ingest, rebuild_remedy
from keyfold.ingestion.ingest_settings import RECORD as INGEST_RECORD
from keyfold.ingestion.inspection import all_known_files, ingest_journal
from keyfold.ingestion.listing import list_files
from keyfold.journal import Journal
from keyfold.journal.history import read_history
from keyfold.keyed.generation.generation_record import FORMAT, read_record
from keyfold.keyed.generation.generation_record import RECORD as GENERATION_RECORD
from keyfold.keyed.generation.generations import CLOCK, RETAINED_BATCHES, Generation, live_generation, tables_of_no_job
from keyfold.keyed.generation.live_record import live_generation_name, live_record
from keyfold.keyed.generation.manifests import read_manifests
from keyfold.keyed.plans.input_tables import OtherTableError, check_inputs, check_unread
from keyfold.keyed.state_parts.manifest import Manifest
from keyfold.lakehouse import Lakehouse, is_table
from keyfold.lakehouse.positions import check_remembered, newest_version, remembered
from keyfold.lakehouse.presence import LANDING, check_lakehouse_is_there
from keyfold.maintenance.findings import Finding, Findings
from keyfold.storage.place import Place
from keyfold.storage.storage_path import DamagedError

_TRIES = 3
_PAUSE_SECONDS = 0.2

_RESTORE = "restore it from a backup"
_UNNAMED = "does not name a generation that can be read"


def check(lakehouse: Lakehouse) -> list[Finding]:
    """Read the records and logs of a lakehouse, and check that they agree, and that the files that they name are there.

    The content of data files and state is not read. Landing files are not checked, as they may be deleted once they are read, nor are
    tables that a rebuild has moved aside. Of a landing folder, what ingest cannot read is reported, which is no damage.

    Raises:
        KeyfoldError: there is no lakehouse in the directory, or a folder of it cannot be read.
        OSError: a disk or a store fails.
    """
    check_lakehouse_is_there(lakehouse)
    lasting = list[Finding]()
    for remedy, look in _owners(lakehouse):
        repeated: dict[str, Finding] | None = None
        for attempt in range(_TRIES):
            time.sleep(_PAUSE_SECONDS if attempt else 0)
            findings = Findings(remedy)
            try:
                look(findings)
            except FileNotFoundError as error:
                # A generation that has gone live, or a removed branch: the next attempt does not list it.
                findings.add(error.filename, "is gone", _RESTORE)
            new = findings.by_path
            repeated = new if repeated is None else {path: new[path] for path in new if repeated.get(path) == new[path]}
            if not repeated:
                break
        lasting += (repeated or {}).values()
    return lasting


def _owners(lakehouse: Lakehouse) -> Iterator[tuple[str, Callable[[Findings], object]]]:
    """What is checked, each with its remedy: streams, generations of jobs, and tables about runs."""
    home = lakehouse.home
    kinds = ("ingest", "events", "quarantine")
    streams = {path.name for kind in kinds for path in (home / kind).glob("*") if path.is_dir()}
    for stream in sorted(name for name in streams if not name.startswith(".")):
        yield f"{_RESTORE}, or {rebuild_remedy(lakehouse, stream)}", partial(_ingest, lakehouse, stream)
        yield (
            f"{_RESTORE}, or run ingest again, which makes it anew from the event table",
            partial(_index, lakehouse, stream),
        )
    for folder in sorted((home / "jobs").glob("*")):
        job = folder.name
        refresh = f"{_RESTORE}, or start a new generation: `{lakehouse.command('run', job, '--full-refresh')}`"
        find = partial(live_generation, lakehouse, job)
        yield refresh, lambda findings, find=find: findings.read(live_record(lakehouse), find, _UNNAMED)
        for generation in sorted([*folder.glob("generation-*"), *folder.glob("branches/*")]):
            yield refresh, partial(_generation, lakehouse, job, generation)
    yield f"{_RESTORE}, or remove the table if its job was removed on purpose", partial(_lost, lakehouse)
    for table in sorted(path for path in (home / "monitoring").glob("*") if (path / "_delta_log").is_dir()):
        yield _RESTORE, partial(_monitoring, table)
    for folder in sorted((home / LANDING).glob("[!.]*")) if home.local_path else ():
        yield "mend or remove it, or let this user read it: it is not ingested", partial(_landing, folder)


def _monitoring(table: Place, findings: Findings) -> None:
    findings.table(table)
    if remembered(table).exists():
        findings.read(table / "_delta_log", partial(check_remembered, table), "has lost entries")
    elif newest_version(table) > 0:
        fault = "is missing, so that the loss of the newest entries would not be found"
        findings.add(remembered(table), fault, "none: the next entry writes it", is_damage=False)


def _landing(folder: Place, findings: Findings) -> None:
    try:
        faults = list_files(folder).faults
    except NotADirectoryError:
        return
    except OSError as error:
        faults = {"": f"cannot be read ({error.strerror})"}
    for path, fault in faults.items():
        findings.add(folder / path, fault, is_damage=False)


def _ingest(lakehouse: Lakehouse, stream: str, findings: Findings) -> None:
    folder = lakehouse.ingest(stream)
    ingest_settings = findings.read(folder / INGEST_RECORD, lambda: existing_ingest(lakehouse, stream))
    if (folder / REBUILD).exists():
        again = lakehouse.command("ingest", stream, "--rebuild")
        findings.add(folder / REBUILD, "is of an unfinished rebuild", f"finish it: `{again}`", is_damage=False)
    elif ingest_settings is not None:
        journal = ingest_journal(lakehouse, stream)
        _records(journal, findings)
        findings.read(
            folder / "files", partial(all_known_files, lakehouse, stream), "does not name all files that were read"
        )
        findings.agree(
            journal, ingest_settings.tables, ingest_settings.ids, ingest_settings.identity, ingest_settings.label
        )
    # Empty tables without a record are fine: a killed start leaves them.
    elif (folder / "journal").is_dir() or any(
        is_table(table) and DeltaTable(str(table)).count()
        for table in (lakehouse.events(stream), lakehouse.quarantine(stream))
    ):
        findings.add(folder / INGEST_RECORD, "is gone")


def _index(lakehouse: Lakehouse, stream: str, findings: Findings) -> None:
    journal, folder = ingest_journal(lakehouse, stream), lakehouse.ingest(stream)
    if not (folder / REBUILD).exists() and (done := findings.read(journal.folder, journal.last_done)):
        findings.files(folder / "ids", {segment.name: segment.bytes for segment in done.segments}, "the journal")


def _lost(lakehouse: Lakehouse, findings: Findings) -> None:
    with suppress(DamagedError):  # reported where the generation is checked
        for table in tables_of_no_job(lakehouse):
            findings.add(table, "is a table of no job: the folder of its job is gone")
    for entry in lakehouse.home.glob("tables/[!.]*"):
        if not (entry.is_dir() and is_table(entry)) and (not entry.is_dir() or any(entry.files_below())):
            findings.add(entry, "is no table", f"{_RESTORE}, or move it away")


def _generation(lakehouse: Lakehouse, job: str, folder: Place, findings: Findings) -> None:
    if not (folder / GENERATION_RECORD).exists():
        # Without batches, it is what a killed start leaves.
        if any(folder.glob("journal/*.done.json")):
            findings.add(folder / GENERATION_RECORD, "is gone")
        return
    is_live = live_generation_name(lakehouse, job) == folder.name

    def opened() -> tuple[Generation, dict[str, Place]]:
        generation = Generation(folder, read_record(folder / GENERATION_RECORD))
        # The tables of a generation that was replaced are older versions of the live one's.
        names = [name for name in generation.record.table_ids if is_live or generation.is_aside(name)]
        return generation, {name: generation.table(name) for name in names}

    if (named := findings.read(folder / GENERATION_RECORD, opened)) is None:
        return
    generation, tables = named
    if generation.record.format != FORMAT:
        # Only that version can read the rest.
        findings.add(folder / GENERATION_RECORD, "is of another version of Keyfold", is_damage=is_live)
        return
    owner, journal = f"job {job}, {folder.name}", generation.journal
    _records(journal, findings)
    findings.read(journal.folder / CLOCK, generation.clock)
    findings.agree(journal, tables, generation.ids, generation.identity, owner)
    if findings.is_whole:
        _state(generation, findings)
        if is_live:
            findings.read(
                journal.folder, partial(_can_go_on, lakehouse, generation, owner, findings.remedy), "cannot go on"
            )


def _can_go_on(lakehouse: Lakehouse, generation: Generation, owner: str, remedy: str) -> None:
    """Check that a job's positions are in the logs of the tables that it reads, and that no unread file is gone."""
    # Of another table, its producer was refreshed, or its stream was rebuilt: nothing is damaged, and the job says what to do.
    with suppress(OtherTableError):
        check_inputs(lakehouse, generation, owner, remedy)
        check_unread(lakehouse, generation, owner, remedy)


def _state(generation: Generation, findings: Findings) -> None:
    """Check the manifests of the batches that are kept, and that the parts that they name are there."""
    by_file: dict[str, set[int]] = {}
    for done in generation.journal.recent(RETAINED_BATCHES):
        for name, labels in done.manifests.items():
            by_file.setdefault(name, set()).update(labels)
    sizes = dict[str, int]()
    for name, labels in by_file.items():
        read = partial(_parts_in, generation.manifests, dict.fromkeys(labels, name))
        sizes |= findings.read(generation.manifests / name, read) or {}
    findings.files(generation.parts, sizes, "its manifest")


def _parts_in(folder: Place, files: Mapping[int, str]) -> dict[str, int]:
    manifests = map(Manifest.unpack, read_manifests(folder, files).values())
    return {part.file: part.size for manifest in manifests for part in manifest.parts if part.file}


def _records(journal: Journal[Any, Any], findings: Findings) -> None:
    """Check the records of a journal: each batch has its two, unless the history has it."""
    history = findings.read(journal.history_path, partial(read_history, journal.history_path))
    batches = journal.kept()
    first = history[-1].batch + 1 if history else 0
    for batch in range(min(first, *batches), batches[-1] + 1) if batches and history is not None else batches:
        for kind, read in (("done", journal.done), ("plan", journal.plan)):
            path = journal.path(batch, kind)
            if findings.read(path, partial(read, batch)) is None and batch >= first:
                findings.add(path, "is gone")
    findings.read(journal.folder, journal.pending)
