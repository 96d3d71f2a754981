"""Erase values in ingest's tables and records: event table, quarantine and file names.

Quarantined lines are searched by their decoded fields: a line is erased if it has a value at the place of each named column. Where it
has nothing at that place, names and values that no column takes are searched for the values as words, since a column by another name
is a usual reason for a quarantine; and so is the text of a line that cannot be decoded. What cannot be known is counted, and stays, as
are lines with the value in another column.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from keyfold.errors import InvalidData
from keyfold.exact_cast import exact_cast
from keyfold.ingestion.erased_names import Holds, erased_name, holds_any, is_erased
from keyfold.ingestion.inspection import all_known_files, ingest_journal
from keyfold.ingestion.kafka.kafka_settings import PREFIX
from keyfold.ingestion.kafka.message_columns import message_columns
from keyfold.ingestion.known import KnownFiles
from keyfold.ingestion.listing import source_place
from keyfold.ingestion.parsing.csv_lines import read_row
from keyfold.ingestion.parsing.mapping import path_value
from keyfold.lakehouse import Lakehouse, is_table
from keyfold.lakehouse.reading import scan_table
from keyfold.lakehouse.row_erasure import change_rows, erase_rows, forget
from keyfold.state.rows.keys import wanted_keys
from keyfold.storage.place import Place, path_below, to_place
from keyfold.stream import Stream

ABSENT, FOUND, UNKNOWN = 0, 1, 2


def typed_values(stream: Stream, texts: Mapping[str, Sequence[str]]) -> dict[str, pl.Series]:
    """Parse values as the types of their columns.

    Raises:
        KeyfoldError: no column is named, the stream has not all of them, or a value does not fit its column.
    """
    if not texts or not set(texts).issubset(stream.schema.names):
        raise InvalidData(
            f"say what is to be erased by columns of {stream.name}, which are {', '.join(stream.schema.names)}, and not by "
            f"{', '.join(texts) or 'nothing'}"
        )
    wanted = {name: wanted_keys(given, (name,), stream.schema) for name, given in texts.items()}
    return {name: keys.frames[0][name] for name, keys in wanted.items() if keys is not None}


def erase_in_ingest(
    lakehouse: Lakehouse, stream: Stream, texts: Mapping[str, Sequence[str]], *, dry_run: bool
) -> tuple[dict[str, int], int]:
    """Erase rows of a stream in ingest's tables and records, or only count them. The caller must hold the lock of its ingest.

    Args:
        texts: the values by column, as text.

    Returns:
        The number of rows that were found, by place; and of quarantined lines that stay although they may have the values.

    Raises:
        KeyfoldError: as `typed_values`.
    """
    name, rows, unknown, values = stream.name, dict[str, int](), 0, typed_values(stream, texts)
    which = pl.all_horizontal(pl.col(column).is_in(wanted.implode()) for column, wanted in values.items())
    holds = holds_any(text for given in texts.values() for text in given)
    known = all_known_files(lakehouse, name)
    landings = [source_place(lakehouse, one) for one in known if not one.startswith(PREFIX)]
    if is_table(table := lakehouse.quarantine(name)):
        result, file = search_lines(stream, texts, landings), _new_names(landings, holds)
        counts = dict(scan_table(table).group_by(result.alias("result")).len().collect().iter_rows())
        rows[f"quarantine.{name}"], unknown = counts.get(FOUND, 0), counts.get(UNKNOWN, 0)
        if not dry_run:
            change_rows(
                table,
                lambda lines: lines.filter((result == FOUND) | file.ne_missing(pl.col("file"))),
                lambda lines: lines.filter(result != FOUND).with_columns(file=file),
            )
    rows["names of landing files"] = sum(
        holds(path) and not is_erased(path) for paths in known.values() for path in paths
    )
    if is_table(events := lakehouse.events(name)):
        rows[f"events.{name}"] = scan_table(events).filter(which).select(pl.len()).collect().item()
    if not dry_run and (folder := lakehouse.ingest(name)).exists():
        KnownFiles(folder, ingest_journal(lakehouse, name), f"ingest of {name}").rename(holds)
    if not dry_run and is_table(events):
        erase_rows(events, which)
    return rows, unknown


def forget_in_ingest(lakehouse: Lakehouse, stream: Stream) -> int:
    """Delete the files of the tables' older versions; returns the number of deleted files."""
    tables = (lakehouse.events(stream.name), lakehouse.quarantine(stream.name))
    return sum(forget(table) for table in tables if is_table(table))


def search_lines(stream: Stream, texts: Mapping[str, Sequence[str]], landings: Sequence[Place]) -> pl.Expr:
    """Return an expression that gives FOUND, ABSENT or UNKNOWN for each row of a quarantine.

    Args:
        stream: the stream of the quarantine.
        texts: the values, by column. A row is found if it has one of them at the place of each column, or, with nothing there, as a
            word where no column is.
        landings: the landing folders, for columns that are taken from a file's path.
    """
    values, words = typed_values(stream, texts), {name: holds_any(given) for name, given in texts.items()}

    places = {name: stream.source(name).names for name in stream.schema.names}

    def search(frame: pl.Series) -> pl.Series:
        rows = frame.struct.unnest().to_dicts()
        fields = [_fields(row["raw"] or "", row.get("header") or "", stream.format.delimiter) for row in rows]
        results = [FOUND if values else ABSENT] * len(rows)
        unplaced = [_unplaced(line or (), places.values()) for line in fields]
        for name, wanted in values.items():
            paths = [_from_path(stream, name, row, landings) for row in rows]
            given = [
                [*([path] if path else ()), *(text for place, text in line or () if _is_at(place, places[name]))]
                for path, line in zip(paths, fields, strict=True)
            ]
            alike = _alike({text for ones in given for text in ones}, wanted, texts[name])
            for at, (row, line, path) in enumerate(zip(rows, fields, paths, strict=True)):
                if results[at] == ABSENT or alike.intersection(given[at]):
                    continue
                if not given[at] and any(map(words[name], _readings(row["raw"]) if line is None else unplaced[at])):
                    continue
                is_elsewhere = any(map(words[name], _readings(row["raw"] or "")))
                results[at] = UNKNOWN if is_elsewhere or line is None or path is None else ABSENT
        return pl.Series(results, dtype=pl.Int8)

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


def _unplaced(line: Sequence[tuple[str, str]], places: Collection[Sequence[str]]) -> list[str]:
    """Return the names and values of a line that no column takes."""
    return [text for one in line if not any(_is_at(one[0], names) for names in places) for text in one]


def _alike(given: set[str], wanted: pl.Series, texts: Sequence[str]) -> set[str]:
    """Return the texts that are one of the values; those that do not fit the column's type are compared as text."""
    series = pl.Series(sorted(given), dtype=pl.String)
    found = exact_cast(series, wanted.dtype).is_in(wanted.implode()).fill_null(value=False)
    if wanted.dtype != pl.String:
        found |= series.str.strip_chars().is_in([text.strip() for text in texts])
    return set(series.filter(found))


def _fields(raw: str, header: str, delimiter: str) -> list[tuple[str, str]] | None:
    """Return the values of a line as text, each with its path; None if it is neither a JSON object nor CSV with a header."""
    if not raw:
        return []  # a rejected file or a gap has no content
    try:
        # Objects become tuples of their pairs, so that a repeated name has all of its values.
        content = json.loads(raw, object_pairs_hook=tuple, parse_int=str, parse_float=str)
        if isinstance(content, tuple):
            return list(_leaves(content, ""))
    except (ValueError, RecursionError):
        pass
    names, values = read_row(header, delimiter), read_row(raw, delimiter)
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


def _new_names(landings: Sequence[Place], holds: Holds) -> pl.Expr:
    """Return an expression for the names of quarantined files, of which those that hold a value are replaced."""

    def new_name(file: str) -> str:
        landing = _of(landings, file) or to_place(file).parent
        below = None if file.startswith(PREFIX) else path_below(to_place(file), landing)
        is_held = below is not None and not is_erased(str(below)) and holds(str(below))
        return str(landing / erased_name(below.as_posix())) if below and is_held else file

    return pl.col("file").map_batches(
        lambda files: files.replace({file: new_name(file) for file in files.drop_nulls().unique()}),
        pl.String,
        is_elementwise=True,
    )


def _of(landings: Sequence[Place], file: str) -> Place | None:
    return next((landing for landing in landings if path_below(to_place(file), landing) is not None), None)
