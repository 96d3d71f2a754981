"""Erase values in ingest's tables and records: event table, quarantine, file names, and tables that a rebuild moved aside."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from operator import and_

import polars as pl

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

NAMES = "names of landing files"
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


def unsearchable(lakehouse: Lakehouse, stream: Stream, values: Values) -> Unsearchable:
    """Count the quarantined lines of a stream that cannot be searched, with those that a rebuild moved aside."""
    search, lines, where = _search(lakehouse, stream, values), 0, []
    for table in _quarantines(lakehouse, stream.name).values():
        rows = scan_table(table).filter(search == UNKNOWN).select("file", "line")
        number = rows.select(pl.len()).collect().item()
        first = rows.head(_LISTED - len(where)).collect() if number else pl.DataFrame()
        lines, where = lines + number, [*where, *(f"{file}:{line}" for file, line in first.iter_rows())]
    return Unsearchable(lines, tuple(where))


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
    search = _search(lakehouse, stream, values)
    lines = search != 0 if remove_unsearchable else search == FOUND
    holds = holds_any(text for texts in values.texts.values() for text in texts)
    rows: dict[str, int] = {}
    for name, table in _quarantines(lakehouse, stream.name).items():
        if dry_run:
            rows[name] = count_rows_of(table, lines)
        else:
            file = pl.col("file").replace(_new_names(lakehouse, stream.name, table, holds))
            rows[name] = erase_rows(table, lines, masked={"file": file})
    rows[NAMES] = sum(
        _count_names(known, holds) if dry_run else known.rename(holds) for known in _known(lakehouse, stream.name)
    )
    for name, table in _event_tables(lakehouse, stream.name).items():
        rows[name] = (count_rows_of if dry_run else erase_rows)(table, values.which)
    return rows


def forget_in_ingest(lakehouse: Lakehouse, stream: Stream) -> int:
    """Delete the tables' histories, and record checksums; returns the number of deleted files."""
    quarantines, events = _quarantines(lakehouse, stream.name), _event_tables(lakehouse, stream.name)
    deleted = sum(forget(table) for table in (*quarantines.values(), *events.values()))
    for table in (*quarantines.values(), *(path for name, path in events.items() if name != f"events.{stream.name}")):
        # Jobs read the log of the live event table. Nobody reads the logs of these tables.
        forget_log(table)
    if (birth := existing_ingest(lakehouse, stream.name)) and (
        done := ingest_journal(lakehouse, stream.name).last_done()
    ):
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


def _count_names(known: KnownFiles, holds: Holds) -> int:
    return sum(holds(path) and not is_erased(path) for paths in known.all().values() for path in paths)


def _known(lakehouse: Lakehouse, stream: str) -> Iterator[KnownFiles]:
    for folder in (lakehouse.ingest(stream), *(aside / "ingest" for aside in _asides(lakehouse, stream))):
        if folder.exists():
            yield KnownFiles(folder, Journal(folder / "journal", IngestPlan, IngestDone), f"ingest of {stream}")


def _quarantines(lakehouse: Lakehouse, stream: str) -> dict[str, Place]:
    return _tables(lakehouse, stream, "quarantine", lakehouse.quarantine(stream))


def _event_tables(lakehouse: Lakehouse, stream: str) -> dict[str, Place]:
    return _tables(lakehouse, stream, "events", lakehouse.events(stream))


def _tables(lakehouse: Lakehouse, stream: str, kind: str, live: Place) -> dict[str, Place]:
    asides = {f"aside/{folder.name}/{kind}": folder / kind for folder in _asides(lakehouse, stream)}
    tables = {**asides, f"{kind}.{stream}": live}
    return {name: table for name, table in tables.items() if table.exists() and is_table(table)}


def _asides(lakehouse: Lakehouse, stream: str) -> list[Place]:
    """Return the folders that rebuilds of a stream have moved aside."""
    pattern = re.compile(rf"{re.escape(stream)}-\d{{8}}T\d+")
    with suppress(FileNotFoundError):
        return sorted(folder for folder in (lakehouse.home / "aside").iterdir() if pattern.fullmatch(folder.name))
    return []
