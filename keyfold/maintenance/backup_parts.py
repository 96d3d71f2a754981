"""Say which files of a lakehouse belong to a backup, and in which order they are copied so that they belong together.

A stream's ingest, or a generation of a job, is cut at its newest commit record, as a crash right after that batch leaves it. A call that
changes events and is not finished is copied with the files that it has written: the next ingest of the restored copy finishes it.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from errno import ENOENT

from deltalake import DeltaTable

from keyfold.errors import Damaged
from keyfold.ingestion.ingest_settings import RECORD as INGEST_RECORD
from keyfold.ingestion.ingest_settings import existing_ingest, rebuild_remedy
from keyfold.keyed.generation.generation_record import FORMAT
from keyfold.keyed.generation.generations import all_generations, live_generation
from keyfold.lakehouse import Lakehouse, is_table
from keyfold.lakehouse.positions import remembered
from keyfold.lakehouse.presence import LANDING, absent_files, check_no_entry_is_empty
from keyfold.storage.entries import ListedFile, OtherEntry
from keyfold.storage.place import Place

Others = Callable[[OtherEntry], None]


@dataclass(frozen=True)
class Part:
    """A part of a lakehouse whose files belong together.

    Attributes:
        folder: its folder.
        tables: its tables, each with its name in Delta's transactions if it has batches.
        first: files that are copied before the others are listed.
        has_journal: whether it is cut at a commit record; otherwise it is copied as it is.
    """

    folder: Place
    tables: dict[Place, str] = field(default_factory=dict)
    first: tuple[Place, ...] = ()
    has_journal: bool = True


def parts_of(lakehouse: Lakehouse) -> list[Part]:
    """Return the parts of a lakehouse in the order in which they are copied.

    The younger generations come first: one that reads tables of another is the younger one, and all that it has read must be there.

    Raises:
        KeyfoldError: a record that says what belongs to a part is lost, damaged or of another version.
    """
    home, parts = lakehouse.home, list[Part]()
    jobs = sorted({folder.name for folder in home.glob("jobs/*") if folder.is_dir()})
    live = {generation.folder for job in jobs if (generation := live_generation(lakehouse, job)) is not None}
    generations = all_generations(lakehouse)
    for one in sorted(generations, key=lambda one: one.record.created_at, reverse=True):
        if one.record.format != FORMAT:
            # Replaced by one that this version can go on from, or it would have been refused: nothing reads its tables.
            parts.append(Part(one.folder, has_journal=False))
            continue
        # The tables of a generation that was replaced are older versions of the live one's.
        names = [name for name in one.record.table_ids if one.folder in live or one.is_aside(name)]
        tables = {one.table(name): f"{one.identity}/{name}" for name in names}
        parts.append(Part(one.folder, tables, (one.folder / "journal" / "clock.json",)))
    for folder in sorted(home.glob("ingest/[!.]*")):
        settings = existing_ingest(lakehouse, folder.name)
        if settings is None and (folder / "journal").is_dir():
            raise Damaged(
                f"{folder / INGEST_RECORD} is gone, which says what tables {folder.name} has; restore it, or "
                f"{rebuild_remedy(lakehouse, folder.name)}"
            )
        tables = {at: f"{settings.identity}/{name}" for name, at in settings.tables.items()} if settings else {}
        parts.append(Part(folder, tables))
    for folder in sorted(home.glob("monitoring/[!.]*")):
        if folder.is_dir():
            # Its position first: the table may have more entries than were there then, and none less.
            parts.append(Part(folder, {folder: ""}, (remembered(folder),)))
    return [*parts, *(Part(home / name, has_journal=False) for name in (lakehouse.rewrites.name, "aside", LANDING))]


def files_of(part: Part, others: Others) -> Iterator[ListedFile]:
    """Yield the files of a part, but those that are copied first.

    Args:
        part: the part.
        others: as `files_below` takes it.

    Raises:
        FileNotFoundError: a table, or a file of one, is not there: it was removed meanwhile, or is lost.
        KeyfoldError: a table's log is damaged, or a journal is older than its tables.
    """
    folder = part.folder
    if not part.has_journal:
        yield from folder.files_below(others)
        return
    # The files that ingest knows before the journal, so that it has the batches after the ones that they cover.
    yield from list((folder / "files").files_below(others))
    journal = folder / "journal"
    records = [
        file for file in journal.files_below(others) if re.fullmatch(r"\d{9}\.(plan|done)\.json|history.*", file.below)
    ]
    yield from records
    last = max((int(file.below[:9]) for file in records if "done" in file.below), default=-1)
    for table, application in part.tables.items():
        yield from _table(table, application, last, journal, others)
    for file in folder.files_below(others) if folder not in part.tables else ():
        top, number = file.below.partition("/")[0], file.path.name.partition("-")[0]
        # Parts and manifests of a later batch would stay for ever: a run removes those of its own batch alone.
        is_later = top == "state" and number.isdecimal() and int(number) > last
        if top not in ("files", "journal", "tables") and not is_later:
            yield file


def _table(table: Place, application: str, last: int, journal: Place, others: Others) -> Iterator[ListedFile]:
    """The files of a Delta table up to the newest version without a later batch of an application than the last one."""
    if not is_table(table):
        raise FileNotFoundError(ENOENT, "is no table any more", str(table))
    delta = DeltaTable(str(table))
    while (taken := delta.transaction_version(application) if application else None) is not None and taken > last:
        # A run commits to a table after it has written its record.
        if not (journal / f"{taken:09d}.done.json").exists():
            raise Damaged(
                f"{table} has taken batch {taken}, which its journal {journal} does not know: the journal is older than the table; "
                "restore the one that belongs to the table"
            )
        delta.load_as_version(delta.version() - 1)
    check_no_entry_is_empty(table, delta.version())
    log, data = "_delta_log/", list[ListedFile]()
    for file in table.files_below(others):
        if not file.below.startswith(log):
            data.append(file)
        elif (version := re.match(r"\d{20}\.", file.path.name)) and int(version[0][:-1]) <= delta.version():
            yield file
    if absent := absent_files(table, delta, {file.below: file.size for file in data}):
        path, what = min(absent.items())
        raise FileNotFoundError(ENOENT, f"{what}, while its table was listed", str(table / path))
    yield from data
