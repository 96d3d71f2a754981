"""Erase values in ingest's tables and records: event table, quarantine and file names.

Quarantined lines are searched by their decoded fields: a line is erased if it has a value at the place of each named column. The
text of a line that cannot be decoded is searched for the values as words. What cannot be known is counted, and stays.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any

import polars as pl

from keyfold.errors import InvalidData, KeyfoldError
from keyfold.exact_cast import exact_cast
from keyfold.ingestion.erased_names import erased_name, holds_any, is_erased
from keyfold.ingestion.ingest_settings import existing_ingest
from keyfold.ingestion.inspection import all_known_files, ingest_journal
from keyfold.ingestion.kafka.messages import message_columns
from keyfold.ingestion.kafka.settings import PREFIX
from keyfold.ingestion.known import KnownFiles
from keyfold.ingestion.listing import source_place
from keyfold.ingestion.parsing.csv_lines import read_row
from keyfold.ingestion.parsing.mapping import path_value
from keyfold.journal.checksums import record_checksums
from keyfold.lakehouse import Lakehouse, is_table
from keyfold.lakehouse.reading import scan_table
from keyfold.lakehouse.row_erasure import erase_rows, forget, forget_log
from keyfold.state.rows.keys import wanted_keys
from keyfold.storage.place import Place, path_below, to_place
from keyfold.stream import Stream

ABSENT, FOUND, UNKNOWN = 0, 1, 2


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


def typed_values(stream: Stream, texts: Mapping[str, Sequence[str]]) -> Values:
    """Parse values as the types of their columns.

    Raises:
        KeyfoldError: no column is named, the stream has not all of them, or a value does not fit its column.
    """
    columns = ", ".join(stream.schema.names)
    if not texts:
        raise InvalidData(f"say what is to be erased, by columns of {stream.name}: {columns}")
    if unknown := [name for name in texts if name not in stream.schema.names]:
        raise InvalidData(f"stream {stream.name} has no column {', '.join(unknown)}; it has {columns}")
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


def erase_in_ingest(
    lakehouse: Lakehouse, stream: Stream, values: Values, *, dry_run: bool
) -> tuple[dict[str, int], int]:
    """Erase rows of a stream in ingest's tables and records, or only count them. The caller must hold the lock of its ingest.

    Returns:
        The number of rows that were found, by place; and of quarantined lines that stay although they may have the values.
    """
    name, rows, unknown = stream.name, dict[str, int](), 0
    holds = holds_any(text for texts in values.texts.values() for text in texts)
    landings = [source_place(lakehouse, one) for one in all_known_files(lakehouse, name) if not one.startswith(PREFIX)]
    if is_table(table := lakehouse.quarantine(name)):
        search = search_lines(stream, values, landings)
        results = scan_table(table).select(search.alias("result"), "file").collect()
        rows[f"quarantine.{name}"] = int((results["result"] == FOUND).sum())
        unknown = int((results["result"] == UNKNOWN).sum())
        if not dry_run:
            named = {file: _new_name(landings, file) for file in results["file"].drop_nulls().unique()}
            new = {file: str(to) for file, (below, to) in named.items() if holds(below)}
            erase_rows(table, search == FOUND, masked={"file": pl.col("file").replace(new)})
    if (folder := lakehouse.ingest(name)).exists():
        known = KnownFiles(folder, ingest_journal(lakehouse, name), f"ingest of {name}")
        paths = [path for found in known.all().values() for path in found] if dry_run else []
        count = sum(holds(path) and not is_erased(path) for path in paths)
        rows["names of landing files"] = count if dry_run else known.rename(holds)
    if is_table(events := lakehouse.events(name)):
        found = scan_table(events).filter(values.which).select(pl.len())
        rows[f"events.{name}"] = found.collect().item() if dry_run else erase_rows(events, values.which)
    return rows, unknown


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


def search_lines(stream: Stream, values: Values, landings: Sequence[Place]) -> pl.Expr:
    """Return an expression that gives FOUND, ABSENT or UNKNOWN for each row of a quarantine.

    Args:
        stream: the stream of the quarantine.
        values: the values. A row is found if it has one of them at the place of each column, or as a word if it cannot be decoded.
        landings: the landing folders, for columns that are taken from a file's path.
    """
    words = {name: holds_any(texts) for name, texts in values.texts.items()}

    def search(frame: pl.Series) -> pl.Series:
        rows = list(frame.struct.unnest().iter_rows(named=True))
        fields = [_fields(row["raw"] or "", row.get("header") or "") for row in rows]
        has_all, knows_all = [True] * len(rows), [one is not None for one in fields]
        for name, wanted in values.wanted.items():
            given = [[text for path, text in one or () if _is_at(path, stream.source(name).names)] for one in fields]
            for at, row in enumerate(rows):
                path = _from_path(stream, name, row, landings)
                given[at] += [path] if path else []
                knows_all[at] &= path is not None
            alike = _alike({text for texts in given for text in texts}, wanted, values.texts[name])
            for at, (row, texts) in enumerate(zip(rows, given, strict=True)):
                in_text = fields[at] is None and any(map(words[name], _readings(row["raw"])))
                has_all[at] &= in_text or not alike.isdisjoint(texts)
        return pl.Series(
            [FOUND if has else ABSENT if knows else UNKNOWN for has, knows in zip(has_all, knows_all, strict=True)],
            dtype=pl.Int8,
        )

    return pl.struct(pl.all()).map_batches(search, return_dtype=pl.Int8, is_elementwise=True)


def _from_path(stream: Stream, name: str, row: Mapping[str, Any], landings: Sequence[Place]) -> str | None:
    """Return what a column takes from the name of a row's file; None if it is, or may be, from where it is not known any more."""
    source, file = stream.source(name), row["file"] or ""
    if source.path:
        if file.startswith(PREFIX):
            return file.removeprefix(PREFIX).partition("/")[0]
        # An event that was taken out later has no file any more, and an earlier erasure has replaced a name.
        return None if not file or is_erased(to_place(file).name) else path_value(to_place(file), _of(landings, file))
    return None if source.place or (file.startswith(PREFIX) and message_columns(source.names)) else ""


def _is_at(path: str, names: Sequence[str]) -> bool:
    """Whether a value is at the place of a column, in whatever element of a list, above it or within it."""
    places = [re.sub(r"\[\d*\]", "", name) for name in names]
    return any(f"{path}.".startswith(f"{place}.") or f"{place}.".startswith(f"{path}.") for place in places)


def _alike(given: set[str], wanted: pl.Series, texts: Sequence[str]) -> set[str]:
    """Return the texts that are one of the values; those that do not fit the column's type are compared as text."""
    series = pl.Series(sorted(given), dtype=pl.String)
    found = exact_cast(series, wanted.dtype).is_in(wanted.implode()).fill_null(value=False)
    if wanted.dtype != pl.String:
        found |= series.str.strip_chars().is_in([text.strip() for text in texts])
    return set(series.filter(found))


def _fields(raw: str, header: str) -> list[tuple[str, str]] | None:
    """Return the values of a line as text, each with its path; None if it is neither a JSON object nor CSV with a header."""
    if not raw:
        return []  # a rejected file or a gap has no content
    try:
        # Objects become tuples of their pairs, so that a repeated name has all of its values.
        content = json.loads(raw, object_pairs_hook=tuple)
        if isinstance(content, tuple):
            return list(_leaves(content, ""))
    except (ValueError, RecursionError):
        pass
    names, values = read_row(header), read_row(raw)
    if not header or names is None or values is None or len(names) != len(values):
        return None
    return [(name.strip(), value) for name, value in zip(names, values, strict=True)]


def _leaves(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, tuple):
        for name, one in value:
            yield from _leaves(one, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for one in value:
            yield from _leaves(one, path)
    elif value is not None:
        text = value if isinstance(value, str) else json.dumps(value)
        # JSON can hold half of an escaped surrogate pair, which UTF-8 cannot.
        yield path, text.encode("utf-8", "backslashreplace").decode()


def _readings(raw: str) -> tuple[str, ...]:
    """Return a text that cannot be decoded as it is, and with the escapes of JSON and of CSV undone."""

    def plain(found: re.Match[str]) -> str:
        return chr(int(found[1], 16)) if found[1] else {"n": "\n", "t": "\t", "r": "\r"}.get(found[2], found[2])

    unescaped = re.sub(r"\\(?:u([0-9a-fA-F]{4})|(.))", plain, raw).encode("utf-16", "surrogatepass")
    return raw, unescaped.decode("utf-16", "replace"), raw.replace('""', '"')


def _new_name(landings: Sequence[Place], file: str) -> tuple[str, Place]:
    """Return a quarantined file's path below its landing folder, empty if it has no name that can be replaced; and its new name."""
    landing = _of(landings, file) or to_place(file).parent
    below = None if file.startswith(PREFIX) else path_below(to_place(file), landing)
    if below is None or is_erased(str(below)):
        return "", landing
    return str(below), landing / erased_name(below.as_posix())


def _of(landings: Sequence[Place], file: str) -> Place | None:
    return next((landing for landing in landings if path_below(to_place(file), landing) is not None), None)
