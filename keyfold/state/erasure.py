"""Erase values in ingest's tables and records: event table, quarantine and file names."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_

import polars as pl

from keyfold.errors import KeyfoldError
from keyfold.ingestion.ingest_records import IngestDone, IngestPlan
from keyfold.ingestion.ingest_settings import existing_ingest
from keyfold.ingestion.inspection import all_known_files, ingest_journal
from keyfold.ingestion.kafka.settings import PREFIX
from keyfold.ingestion.known import KnownFiles
from keyfold.ingestion.listing import source_place
from keyfold.ingestion.parsing.mapping import path_value
from keyfold.ingestion.quarantined import FOUND, UNKNOWN, Holds, erased_name, holds_any, is_erased, search_lines
from keyfold.journal import Journal
from keyfold.journal.checksums import record_checksums
from keyfold.lakehouse import Lakehouse, is_table
from keyfold.lakehouse.reading import scan_table
from keyfold.lakehouse.row_erasure import count_rows_of, erase_rows, forget, forget_log
from keyfold.state.rows.keys import wanted_keys
from keyfold.storage.place import Place, path_below, to_place
from keyfold.stream import Stream

_LISTED = 20


@dataclass(frozen=True)
class Values:
    """The values that are erased.

    Attributes:
        texts: the values as text, by column.
        wanted: the same in the types of the columns.
    """

    texts: Mapping[str, Sequence[str]]
    wanted: Mapping[str, pl.Series]

    @property
    def which(self) -> pl.Expr:
        """The condition on rows with these columns."""
        return reduce(and_, [pl.col(name).is_in(values.implode()) for name, values in self.wanted.items()])


@dataclass(frozen=True)
class Unsearchable:
    """Quarantined lines that cannot be searched, since they cannot be parsed.

    Attributes:
        lines: number of lines.
        where: the first of them, as FILE:LINE.
    """

    lines: int
    where: tuple[str, ...]


def typed_values(stream: Stream, texts: Mapping[str, Sequence[str]]) -> Values:
    """Parse values as the types of their columns.

    Raises:
        KeyfoldError: a value does not fit its column.
    """
    wanted: dict[str, pl.Series] = {}
    for name, given in texts.items():
        keys = wanted_keys(given, (name,), stream.schema)
        assert keys is not None  # noqa: S101 - narrows: a column is named with a value at least
        wanted[name] = keys.frames[0][name]
    return Values(texts, wanted)


def check_nothing_is_aside(lakehouse: Lakehouse, stream: Stream) -> None:
    """Check that no rebuild or correction of a stream has left tables aside, which an erasure does not change.

    Raises:
        KeyfoldError: there are some.
    """
    pattern = re.compile(rf"{re.escape(stream.name)}-(\d{{8}}T\d+|corrected)")
    if old := sorted(str(one) for one in (lakehouse.home / "aside").glob("*") if pattern.fullmatch(one.name)):
        raise KeyfoldError(
            f"{', '.join(old)}: older tables of {stream.name}, which an erasure does not change; delete them first"
        )


def unsearchable(lakehouse: Lakehouse, stream: Stream, values: Values) -> Unsearchable:
    """Count the quarantined lines of a stream that cannot be searched."""
    if not is_table(table := lakehouse.quarantine(stream.name)):
        return Unsearchable(0, ())
    rows = scan_table(table).filter(_search(lakehouse, stream, values) == UNKNOWN).select("file", "line")
    number, first = rows.select(pl.len()).collect().item(), rows.head(_LISTED).collect()
    return Unsearchable(number, tuple(f"{file}:{line}" for file, line in first.iter_rows()))


def erase_in_ingest(
    lakehouse: Lakehouse,
    stream: Stream,
    values: Values,
    *,
    remove_unsearchable: bool,
    dry_run: bool,
) -> dict[str, int]:
    """Erase rows of a stream in ingest's tables and records; returns the number of rows that were found, by place.

    The caller must hold the lock of the stream's ingest.
    """
    search, name, rows = _search(lakehouse, stream, values), stream.name, dict[str, int]()
    lines = search != 0 if remove_unsearchable else search == FOUND
    holds = holds_any(text for texts in values.texts.values() for text in texts)
    if is_table(table := lakehouse.quarantine(name)):
        if dry_run:
            rows[f"quarantine.{name}"] = count_rows_of(table, lines)
        else:
            file = pl.col("file").replace(_new_names(lakehouse, name, table, holds))
            rows[f"quarantine.{name}"] = erase_rows(table, lines, masked={"file": file})
    if (folder := lakehouse.ingest(name)).exists():
        known = KnownFiles(folder, Journal(folder / "journal", IngestPlan, IngestDone), f"ingest of {name}")
        paths = [path for found in known.all().values() for path in found] if dry_run else []
        count = sum(holds(path) and not is_erased(path) for path in paths)
        rows["names of landing files"] = count if dry_run else known.rename(holds)
    if is_table(events := lakehouse.events(name)):
        rows[f"events.{name}"] = (count_rows_of if dry_run else erase_rows)(events, values.which)
    return rows


def forget_in_ingest(lakehouse: Lakehouse, stream: Stream) -> int:
    """Delete the tables' histories, and record checksums; returns the number of deleted files."""
    events, quarantine = lakehouse.events(stream.name), lakehouse.quarantine(stream.name)
    deleted = sum(forget(table) for table in (events, quarantine) if is_table(table))
    if is_table(quarantine):
        # Jobs read the log of the event table. Nobody reads that of the quarantine.
        forget_log(quarantine)
    birth, done = existing_ingest(lakehouse, stream.name), ingest_journal(lakehouse, stream.name).last_done()
    if birth and done:
        record_checksums(birth.journal, birth.checksummed, done.batch)
    return deleted


def _search(lakehouse: Lakehouse, stream: Stream, values: Values) -> pl.Expr:
    places = _landings(lakehouse, stream.name)

    def path_of(file: str) -> str | None:
        # An event that was taken out later has no file any more.
        if not file:
            return None
        # Columns that take a file's path have the topic's name in rows of messages (`split_reader`).
        if file.startswith(PREFIX):
            return file.removeprefix(PREFIX).partition("/")[0]
        # An earlier erasure has replaced the name, so its value is unknown.
        if is_erased(to_place(file).name):
            return None
        return path_value(to_place(file), _landing_of(places, file))

    return search_lines(stream, values.wanted, values.texts, path_of)


def _new_names(lakehouse: Lakehouse, stream: str, table: Place, holds: Holds) -> dict[str, str]:
    """Return new names for files in a quarantine whose names have one of the values."""
    places, found = _landings(lakehouse, stream), {}
    for file in scan_table(table).select(pl.col("file").drop_nulls().unique()).collect()["file"]:
        if file.startswith(PREFIX):
            continue
        landing = _landing_of(places, file) or to_place(file).parent
        inside = path_below(to_place(file), landing)
        if inside is not None and not is_erased(str(inside)) and holds(str(inside)):
            found[file] = str(landing / erased_name(inside.as_posix()))
    return found


def _landings(lakehouse: Lakehouse, stream: str) -> list[Place]:
    sources = all_known_files(lakehouse, stream)
    return [source_place(lakehouse, source) for source in sources if not source.startswith(PREFIX)]


def _landing_of(places: Sequence[Place], file: str) -> Place | None:
    return next((place for place in places if path_below(to_place(file), place) is not None), None)
