"""Search values in a stream's quarantine and the names of its landing files, and erase them there.

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
from deltalake import DeltaTable

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
from keyfold.lakehouse.file_changes import POSITION, FileChange, numbered_rows, prepare_change
from keyfold.lakehouse.presence import named_files
from keyfold.runs.chosen_events import typed_values
from keyfold.storage.place import Place, path_below, to_place
from keyfold.stream import Stream

ABSENT, FOUND, UNKNOWN = 0, 1, 2


class Quarantine:
    """The quarantine and the file names of a stream, in which values are searched and erased.

    Attributes:
        lines: number of quarantined lines that have the values.
        unknown: number of those that stay although they may have them.
        names: number of landing files whose names hold a value.
    """

    def __init__(self, lakehouse: Lakehouse, stream: Stream, texts: Mapping[str, Sequence[str]]) -> None:
        """Search the values, by column.

        Raises:
            InvalidData: as `typed_values`.
        """
        self._lakehouse, self._stream = lakehouse, stream
        self._holds = holds_any(text for values in texts.values() for text in values)
        files = all_known_files(lakehouse, stream.name)
        landings = [source_place(lakehouse, source) for source in files if not source.startswith(PREFIX)]
        self.names = sum(self._holds(path) and not is_erased(path) for paths in files.values() for path in paths)
        self._file = _new_names(landings, self._holds)
        self._rows = self._searched(search_lines(stream, texts, landings))
        counts = self._rows["result"].value_counts()
        by_result = dict(counts.iter_rows())
        self.lines, self.unknown = by_result.get(FOUND, 0), by_result.get(UNKNOWN, 0)

    def prepare(self) -> FileChange | None:
        """Write the quarantine's files without the lines, and with other names of files; None if nothing changes."""
        lines = self._rows.filter(pl.col("result") == FOUND).lazy()
        files = self._rows.filter((pl.col("result") == FOUND) | pl.col("is_renamed"))["#path"].unique().to_list()
        if not files:
            return None
        return prepare_change(
            self._lakehouse.quarantine(self._stream.name),
            files,
            lambda rows: rows.join(lines, on=POSITION, how="anti", maintain_order="left").with_columns(file=self._file),
        )

    def _searched(self, result: pl.Expr) -> pl.DataFrame:
        """Return the positions of all lines with what was found in them, and whether the name of their file holds a value."""
        table, columns = self._lakehouse.quarantine(self._stream.name), {"result": pl.Int8, "is_renamed": pl.Boolean}
        frames = [pl.DataFrame(schema={"#path": pl.String, "#row": pl.UInt32, **columns}).lazy()]
        if is_table(table):
            delta = DeltaTable(str(table))
            is_renamed = self._file.ne_missing(pl.col("file"))
            frames += [
                numbered_rows(delta, table, path).select(*POSITION, result=result, is_renamed=is_renamed)
                for path in named_files(delta)
            ]
        return pl.concat(frames).collect()

    def rename_files(self) -> None:
        """Replace names of landing files that hold a value, in the journal."""
        folder = self._lakehouse.ingest(self._stream.name)
        if folder.exists():
            journal = ingest_journal(self._lakehouse, self._stream.name)
            KnownFiles(folder, journal, f"ingest of {self._stream.name}").rename(self._holds)


def search_lines(stream: Stream, texts: Mapping[str, Sequence[str]], landings: Sequence[Place]) -> pl.Expr:
    """Return an expression that gives FOUND, ABSENT or UNKNOWN for each row of a quarantine.

    Args:
        stream: the stream of the quarantine.
        texts: the values, by column. A row is found if it has one of them at the place of each column, or, with nothing there, as a
            word where no column is.
        landings: the landing folders, for columns that are taken from a file's path.
    """
    values, words = typed_values(stream, texts), {name: holds_any(wanted) for name, wanted in texts.items()}

    places = {name: stream.source(name).names for name in stream.schema.names}

    def search(frame: pl.Series) -> pl.Series:
        rows = frame.struct.unnest().to_dicts()
        fields = [_fields(row["raw"] or "", row.get("header") or "", stream.format.delimiter) for row in rows]
        results = [FOUND if values else ABSENT] * len(rows)
        unplaced = [_unplaced(line or (), places.values()) for line in fields]
        for name, wanted in values.items():
            paths = [_from_path(stream, name, row, landings) for row in rows]
            held = [
                [*([path] if path else ()), *(text for place, text in line or () if _is_at(place, places[name]))]
                for path, line in zip(paths, fields, strict=True)
            ]
            alike = _alike({text for values in held for text in values}, wanted, texts[name])
            for at, (row, line, path) in enumerate(zip(rows, fields, paths, strict=True)):
                if results[at] == ABSENT or alike.intersection(held[at]):
                    continue
                if not held[at] and any(map(words[name], _readings(row["raw"]) if line is None else unplaced[at])):
                    continue
                # An escape may part a word of the text: `z\\u00fcrich` has no word `z`.
                texts_of_line = (
                    _readings(row["raw"] or "") if line is None else (text for pair in line for text in pair)
                )
                is_elsewhere = any(map(words[name], texts_of_line))
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
    return [text for pair in line if not any(_is_at(pair[0], names) for names in places) for text in pair]


def _alike(held: set[str], wanted: pl.Series, texts: Sequence[str]) -> set[str]:
    """Return the texts that are one of the values; those that do not fit the column's type are compared as text."""
    series = pl.Series(sorted(held), dtype=pl.String)
    is_alike = exact_cast(series, wanted.dtype).is_in(wanted.implode()).fill_null(value=False)
    if wanted.dtype != pl.String:
        is_alike |= series.str.strip_chars().is_in([text.strip() for text in texts])
    return set(series.filter(is_alike))


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
        for name, field in value:
            yield from _leaves(field, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for element in value:
            yield from _leaves(element, path)
    elif value is not None:
        text = value if isinstance(value, str) else json.dumps(value)
        # JSON can hold half of an escaped surrogate pair, which UTF-8 cannot.
        yield path, text.encode("utf-8", "backslashreplace").decode()


def _readings(raw: str) -> tuple[str, ...]:
    """Return a text that cannot be decoded as it is, and with the escapes of JSON and of CSV undone."""

    def plain(escape: re.Match[str]) -> str:
        return chr(int(escape[1], 16)) if escape[1] else {"n": "\n", "t": "\t", "r": "\r"}.get(escape[2], escape[2])

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
