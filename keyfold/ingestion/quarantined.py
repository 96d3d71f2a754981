"""Find quarantined lines by values of a stream's columns, read by the stream's own parsers and mapping.

A line whose fields are not known cannot be searched: broken JSON or CSV, CSV without a known header, and Kafka messages if a
column comes from the message's key, headers or time. Callers report such lines.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import PurePath
from typing import Any
from urllib.parse import unquote

import polars as pl
import pyarrow as pa

from keyfold.ingestion.kafka.messages import message_columns
from keyfold.ingestion.kafka.settings import PREFIX
from keyfold.ingestion.parsing.casting import cast_columns
from keyfold.ingestion.parsing.csv_lines import read_row
from keyfold.ingestion.parsing.mapping import map_columns
from keyfold.ingestion.parsing.text import file_type
from keyfold.stream import Stream
from keyfold.stream.source import PLACE, TEXT_OF, Path, list_of, path_of

ABSENT, FOUND, UNKNOWN = 0, 1, 2

_Fields = Mapping[str, Any]


def search_lines(
    stream: Stream,
    wanted: Mapping[str, pl.Series],
    texts: Mapping[str, Sequence[str]],
    path_of_file: Callable[[str], str | None],
) -> pl.Expr:
    """Return an expression that gives FOUND, ABSENT or UNKNOWN for each row of a quarantine.

    A value that does not fit its column's type is compared as text.

    Args:
        stream: the stream of the quarantine.
        wanted: values to search for, by column. A row matches if every column has one of its values.
        texts: the same values as text, as given.
        path_of_file: returns the value that a column takes from a file's path; None if the path is no longer known.
    """
    names = {
        name: pa.types.is_list(stream.schema.field(column).type)
        for column in wanted
        for name in stream.source(column).raw_names
    }
    takes_path = any(stream.source(column).path for column in wanted)

    def search(frame: pl.Series) -> pl.Series:
        rows = frame.struct.unnest()
        fields: list[list[_Fields] | None] = [
            _fields(raw, file or "", header, names)
            for raw, file, header in zip(
                rows["raw"],
                rows["file"],
                rows["header"] if "header" in rows.columns else [None] * rows.height,
                strict=True,
            )
        ]
        paths = [path_of_file(file or "") if takes_path else "" for file in rows["file"]]
        is_known = [one is not None and path is not None for one, path in zip(fields, paths, strict=True)]
        results = pl.Series([ABSENT if known else UNKNOWN for known in is_known], dtype=pl.Int8)
        # Rows of one file are mapped together: a column that is taken from the path has one value for all of them.
        at_paths: dict[str | None, list[tuple[int, _Fields]]] = {}
        for at, path in enumerate(paths):
            if is_known[at]:
                at_paths.setdefault(path, []).extend((at, one) for one in fields[at] or [])
        for path, those in at_paths.items():
            matches = _matches(stream, wanted, texts, _as_table([one for _, one in those], names), path)
            results[sorted({at for (at, _), match in zip(those, matches, strict=True) if match})] = FOUND
        return results

    return pl.struct(pl.all()).map_batches(search, return_dtype=pl.Int8, is_elementwise=True)


def _matches(
    stream: Stream, wanted: Mapping[str, pl.Series], texts: Mapping[str, Sequence[str]], raw: pa.Table, path: str | None
) -> pl.Series:
    schema = pa.schema([stream.schema.field(column) for column in wanted])
    mapped = map_columns(stream, raw, path)
    typed, _ = cast_columns(mapped, raw.num_rows, schema)
    alike = []
    for name, values in wanted.items():
        # NULL if the value is missing, or does not fit the column's type.
        same = pl.Series(pl.from_arrow(typed.column(name))).is_in(values.implode()).fill_null(value=False)
        alike.append(
            same if values.dtype == pl.String else same | _is_text(mapped.get(name, []), texts[name], len(same))
        )
    return pl.select(pl.all_horizontal(alike)).to_series()


def _is_text(candidates: Sequence[pa.ChunkedArray], texts: Sequence[str], rows: int) -> pl.Series:
    """Whether the first candidate that is not NULL is one of the texts."""
    given = [one for column in candidates if (one := pl.Series(pl.from_arrow(column))).dtype == pl.String]
    first = pl.select(pl.coalesce(pl.repeat(None, rows, dtype=pl.String), *given)).to_series()
    return first.str.strip_chars().is_in([text.strip() for text in texts]).fill_null(value=False)


def _as_table(fields: Sequence[_Fields], names: Mapping[str, bool]) -> pa.Table:
    """Return the raw columns as strings or lists of strings."""
    columns: dict[str, pa.Array] = {}
    for name, is_list in names.items():
        values = [one.get(name) for one in fields]
        if is_list:
            values = [value if value is None or isinstance(value, list) else [value] for value in values]
        columns[name] = pa.array(values, pa.list_(pa.string()) if is_list else pa.string())
    # The extra column keeps the row count: an Arrow table without columns has no rows.
    return pa.table({**columns, "\0": pa.nulls(len(fields))})


def _fields(raw: str | None, file: str, header: str | None, names: Mapping[str, bool]) -> list[_Fields] | None:
    """Return the searched fields of a line, once per element if it is exploded by a list; None if they are not known."""
    if not raw:
        return [{}]  # a rejected file or a gap has no content
    if any(name == PLACE or name.endswith(TEXT_OF) for name in names):
        return None
    if file.startswith(PREFIX) and message_columns(sorted(names)):
        return None
    if not file.startswith(PREFIX) and file_type(PurePath(file)).format == "csv":
        fields = _csv_fields(raw, header)
        return None if fields is None else [fields]
    return _json_fields(raw, names)


def _json_fields(raw: str, names: Mapping[str, bool]) -> list[_Fields] | None:
    try:
        content = json.loads(raw, object_pairs_hook=_object)
        if not isinstance(content, dict):
            return None
        return [
            {name: _text(_value(content, name, place), is_list=is_list) for name, is_list in names.items()}
            for place in _places(content, list_of(names))
        ]
    except (ValueError, RecursionError):
        return None


def _places(content: dict[str, Any], path: Path | None) -> Sequence[int]:
    elements = None if path is None else _inside(content, path, 0)
    return range(len(elements)) if isinstance(elements, list) and elements else range(1)


def _value(content: dict[str, Any], name: str, place: int) -> Any:
    flat = content.get(name)
    return _inside(content, path_of(name), place) if flat is None else flat


def _inside(value: Any, path: Path, place: int) -> Any:
    """Return the value at a path. Its `[]` stands for the element at index `place`.

    Raises:
        ValueError: a step of the path does not fit the value.
    """
    for step in path:
        if value is None:
            return None
        if isinstance(step, str) and isinstance(value, dict):
            value = value.get(step)
        elif not isinstance(step, str) and isinstance(value, list):
            at = step if isinstance(step, int) else place
            value = value[at] if at < len(value) else None
        else:
            raise ValueError(f"no {step} in it")  # noqa: TRY004 - handled like invalid JSON
    return value


def _csv_fields(raw: str, header: str | None) -> _Fields | None:
    names, values = read_row(header or ""), read_row(raw)
    if names is None or values is None or len(names) != len(values):
        return None
    return {name.strip(): value or None for name, value in zip(names, values, strict=True)}


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise ValueError("a repeated name: it is not known which value counts")
    return content


def _text(value: Any, *, is_list: bool) -> str | list[str | None] | None:
    """Return a JSON value as text, or a list as texts if the column is a list.

    Raises:
        ValueError: the value is nested otherwise.
    """
    if value is None:
        return None
    if isinstance(value, list) and is_list:
        return [None if one is None else _scalar(one) for one in value]
    return _scalar(value)


def _scalar(value: Any) -> str:
    if isinstance(value, dict | list):
        raise ValueError("nested")  # noqa: TRY004 - handled like invalid JSON: such a line cannot be searched
    text = value if isinstance(value, str) else json.dumps(value)
    # JSON can hold half of an escaped surrogate pair, which UTF-8 cannot.
    return text.encode("utf-8", "backslashreplace").decode()


_PREFIX = "erased-"

Holds = Callable[[str], bool]
"""Returns whether a text contains a value."""


def erased_name(path: str) -> str:
    """Return the digest that replaces a file's path relative to its landing folder, with the file's extensions.

    Example:
        >>> erased_name("web/eva.csv.gz")
        'erased-bd57bcd1343316dbd063ce9d04d40056.csv.gz'
    """
    digest = sha256(path.encode("utf-8", "surrogateescape")).hexdigest()[:32]
    kind, name = file_type(PurePath(path)), PurePath(path).name
    return f"{_PREFIX}{digest}{name[len(kind.stem) :] if kind.format else ''}"


def is_erased(path: str) -> bool:
    """Whether a path is a digest from `erased_name`."""
    return path.startswith(_PREFIX)


def holds_any(texts: Iterable[str]) -> Holds:
    """Return a function that tests whether a text contains one of the values as a whole word, also escaped as in a URL.

    A number that is part of a longer number, or of a date, does not count.

    Example:
        >>> holds = holds_any(["11"])
        >>> [holds("card-11.csv"), holds("card%2D11.csv"), holds("2211.csv"), holds("2026-11-01.csv")]
        [True, True, False, False]
    """
    words = "|".join(_word(unicodedata.normalize("NFC", text)) for text in texts)
    pattern = re.compile(rf"(?<![^\W_])(?:{words})(?![^\W_])")

    def holds(text: str) -> bool:
        return any(pattern.search(unicodedata.normalize("NFC", one)) for one in (text, unquote(text)))

    return holds


def _word(text: str) -> str:
    return rf"(?<!\d[-_.:]){text}(?![-_.:]\d)" if text.isdigit() else re.escape(text)
