"""Check a lakehouse for damage: read all its files and compare them with its journals. Nothing is written.

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
from keyfold.journal.checksums import RECORD, differences, read_checksums
from keyfold.journal.history import read_history
from keyfold.keyed.generation.generation_record import RECORD as GENERATION_RECORD
from keyfold.keyed.generation.generation_record import read_record
from keyfold.keyed.generation.generations import CLOCK, RETAINED_BATCHES, Generation, live_generation, tables_of_no_job
from keyfold.keyed.generation.live_record import live_generation_name, live_record
from keyfold.keyed.generation.manifests import read_manifests
from keyfold.keyed.plans.input_tables import OtherTableError, check_inputs, check_unread
from keyfold.keyed.state_parts.manifest import Manifest
from keyfold.lakehouse import Lakehouse, is_table
from keyfold.lakehouse.files import DamagedError, files_below, is_held
from keyfold.lakehouse.positions import check_remembered, newest_version, remembered
from keyfold.lakehouse.presence import LANDING, check_lakehouse_is_there
from keyfold.maintenance.findings import Finding, Seen
from keyfold.storage.place import Place, local_path

_TRIES = 3
_PAUSE_SECONDS = 0.2

_RESTORE = "restore it from a backup"
_UNNAMED = "does not name a generation that can be read"


def check(lakehouse: Lakehouse, *, contents: bool = True) -> list[Finding]:
    """Read all files of a lakehouse, and compare them with its journals.

    Landing files are not checked, as they may be deleted once they are read, nor are tables that a rebuild has moved aside. Of a landing
    folder, what ingest cannot read is reported, which is no damage.

    Args:
        lakehouse: the lakehouse.
        contents: whether to compare all content with its checksums; if not, records and logs are read, and other files are there, with
            their sizes or a readable footer.

    Raises:
        KeyfoldError: there is no lakehouse in the directory, or a folder of it cannot be read.
        OSError: a disk or a store fails.
    """
    check_lakehouse_is_there(lakehouse)
    findings = list[Finding]()
    for remedy, look in _owners(lakehouse):
        lasting: dict[str, Finding] | None = None
        for attempt in range(_TRIES):
            time.sleep(_PAUSE_SECONDS if attempt else 0)
            seen = Seen(remedy, contents=contents)
            try:
                look(seen)
            except FileNotFoundError as error:
                # A generation that has gone live, or a removed branch: the next attempt does not list it.
                seen.say(error.filename, "is gone", _RESTORE)
            lasting = {path: one for path, one in seen.faults.items() if lasting is None or lasting.get(path) == one}
            if not lasting:
                break
        findings += (lasting or {}).values()
    return findings


def _owners(lakehouse: Lakehouse) -> Iterator[tuple[str, Callable[[Seen], object]]]:
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
        yield refresh, lambda seen, find=find: seen.read_or_note(live_record(lakehouse), find, _UNNAMED)
        for one in sorted([*folder.glob("generation-*"), *folder.glob("branches/*")]):
            yield refresh, partial(_generation, lakehouse, job, one)
    yield f"{_RESTORE}, or remove the table if its job was removed on purpose", partial(_lost, lakehouse)
    for table in sorted(path for path in (home / "monitoring").glob("*") if (path / "_delta_log").is_dir()):
        yield _RESTORE, partial(_monitoring, table)
    for folder in sorted((home / LANDING).glob("[!.]*")) if local_path(home) else ():
        yield "mend or remove it, or let this user read it: it is not ingested", partial(_landing, folder)


def _monitoring(table: Place, seen: Seen) -> None:
    seen.table(table)
    if remembered(table).exists():
        seen.read_or_note(table / "_delta_log", partial(check_remembered, table), "has lost entries")
    elif newest_version(table) > 0:
        what = "is missing, so that the loss of the newest entries would not be found"
        seen.say(remembered(table), what, "none: the next entry writes it", is_damage=False)


def _landing(folder: Place, seen: Seen) -> None:
    try:
        faults = list_files(folder).faults
    except NotADirectoryError:
        return
    except OSError as error:
        faults = {"": f"cannot be read ({error.strerror})"}
    for path, what in faults.items():
        seen.say(folder / path, what, is_damage=False)


def _ingest(lakehouse: Lakehouse, stream: str, seen: Seen) -> None:
    folder = lakehouse.ingest(stream)
    birth = seen.read_or_note(folder / INGEST_RECORD, lambda: existing_ingest(lakehouse, stream))
    if (folder / REBUILD).exists():
        again = lakehouse.command("ingest", stream, "--rebuild")
        seen.say(folder / REBUILD, "is of an unfinished rebuild", f"finish it: `{again}`", is_damage=False)
    elif birth is not None:
        journal = ingest_journal(lakehouse, stream)
        _records(folder, journal, birth.checksummed, seen)
        seen.read_or_note(
            folder / "files", partial(all_known_files, lakehouse, stream), "does not name all files that were read"
        )
        seen.agree(journal, birth.tables, birth.ids, birth.identity, birth.where)
    # Empty tables without a record are fine: a killed start leaves them.
    elif (folder / "journal").is_dir() or any(
        is_table(table) and DeltaTable(str(table)).count()
        for table in (lakehouse.events(stream), lakehouse.quarantine(stream))
    ):
        seen.say(folder / INGEST_RECORD, "is gone")


def _index(lakehouse: Lakehouse, stream: str, seen: Seen) -> None:
    journal, folder = ingest_journal(lakehouse, stream), lakehouse.ingest(stream)
    if not (folder / REBUILD).exists() and (done := seen.read_or_note(journal.folder, journal.last_done)):
        segments = {segment.name: segment.checksum for segment in done.segments}
        seen.files(folder / "ids", dict.fromkeys(segments), segments)


def _lost(lakehouse: Lakehouse, seen: Seen) -> None:
    with suppress(DamagedError):  # reported where the generation is checked
        for table in tables_of_no_job(lakehouse):
            seen.say(table, "is a table of no job: the folder of its job is gone")
    for entry in lakehouse.home.glob("tables/[!.]*"):
        if not (entry.is_dir() and is_table(entry)) and (not entry.is_dir() or any(files_below(entry))):
            seen.say(entry, "is no table", f"{_RESTORE}, or move it away")


def _generation(lakehouse: Lakehouse, job: str, folder: Place, seen: Seen) -> None:
    if not (folder / GENERATION_RECORD).exists():
        # Without batches, it is what a killed start leaves.
        if any(folder.glob("journal/*.done.json")):
            seen.say(folder / GENERATION_RECORD, "is gone")
        return
    is_live = live_generation_name(lakehouse, job) == folder.name

    def opened() -> tuple[Generation, dict[str, Place]]:
        generation = Generation(folder, read_record(folder / GENERATION_RECORD))
        # The tables of a generation that was replaced are older versions of the live one's.
        names = [name for name in generation.record.table_ids if is_live or generation.is_aside(name)]
        return generation, {name: generation.table(name) for name in names}

    if (found := seen.read_or_note(folder / GENERATION_RECORD, opened)) is None:
        return
    generation, tables = found
    parts = {name: at for name, at in generation.checksummed.items() if is_live or not name.startswith("tables/")}
    # The job's lock, since a run of a branch holds that one too.
    _records(lakehouse.job(job), generation.journal, parts, seen)
    where, journal = f"job {job}, {folder.name}", generation.journal
    seen.read_or_note(journal.folder / CLOCK, generation.clock)
    seen.agree(journal, tables, generation.ids, generation.identity, where)
    if seen.is_whole:
        _state(generation, seen)
        if is_live:
            seen.read_or_note(
                journal.folder, partial(_can_go_on, lakehouse, generation, where, seen.remedy), "cannot go on"
            )


def _can_go_on(lakehouse: Lakehouse, generation: Generation, where: str, remedy: str) -> None:
    """Check that a job's positions are in the logs of the tables that it reads, and that no unread file is gone."""
    # Of another table, its producer was refreshed, or its stream was rebuilt: nothing is damaged, and the job says what to do.
    with suppress(OtherTableError):
        check_inputs(lakehouse, generation, where, remedy)
        check_unread(lakehouse, generation, where, remedy)


def _state(generation: Generation, seen: Seen) -> None:
    """Check the checksums of all files of the state, and that those of the batches that are kept exist."""
    labels: dict[str, set[int]] = {}
    for done in generation.journal.recent(RETAINED_BATCHES):
        for name, ones in done.manifests.items():
            labels.setdefault(name, set()).update(ones)
    seen.files(generation.manifests, dict.fromkeys(labels))
    named = set[str]()
    for name, ones in labels.items():
        if str(generation.manifests / name) not in seen.faults:
            read = partial(_parts_in, generation.manifests, dict.fromkeys(ones, name))
            named |= seen.read_or_note(generation.manifests / name, read) or set()
    seen.files(generation.parts, dict.fromkeys(named))


def _parts_in(folder: Place, files: Mapping[int, str]) -> set[str]:
    return set().union(*(Manifest.unpack(manifest).files for manifest in read_manifests(folder, files).values()))


def _records(owner: Place, journal: Journal[Any, Any], parts: dict[str, Place], seen: Seen) -> None:
    """Check the records of a journal, and the files whose checksums it records."""
    record, numbers = journal.folder / RECORD, journal.kept()
    for number in numbers:
        seen.read_or_note(journal.path(number, "done"), partial(journal.done, number))
        seen.read_or_note(journal.path(number, "plan"), partial(journal.plan, number))
    seen.read_or_note(journal.folder, journal.pending)
    seen.read_or_note(journal.history_path, partial(read_history, journal.history_path))
    remedy = f"{_RESTORE}, or remove it and run once"
    recorded = seen.read_or_note(record, lambda: read_checksums(journal.folder), "is damaged", remedy)
    for path, what in differences(recorded, parts) if recorded and seen.contents else ():
        seen.say(path, what)
    if numbers and not record.exists():
        what = "is missing, so that the journal cannot be verified"
        seen.say(record, what, "run once, which writes it", is_damage=False)
    elif recorded is not None and numbers and recorded.batch < numbers[-1] and not is_held(owner):
        what = f"ends at batch {recorded.batch}, but batch {numbers[-1]} is done: a run was interrupted, or it is an older copy"
        seen.say(record, what, "run once, which rewrites it", is_damage=False)
