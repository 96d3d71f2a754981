"""Propose the columns of a stream from the first rows of a file: Polars infers the types, and ingest's parser the times."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import polars as pl
import pyarrow as pa

from keyfold.cli.new.names import column_names, words
from keyfold.cli.new.sample_rows import Sample, read_sample
from keyfold.errors import KeyfoldError
from keyfold.exact_cast import exact_cast
from keyfold.ingestion.parsing import UnreadableFileError
from keyfold.ingestion.parsing.casting import cast_columns
from keyfold.ingestion.parsing.time_formats import read_times
from keyfold.stream import INGESTED_AT, TIMESTAMP, FileFormat
from keyfold.stream.source import ISO, TIME_UNITS, path_of
from keyfold.times import shifted

ARRIVAL = "arrival"
"""Given instead of a column if events have no time of their own."""

_PRIVATE = re.compile(
    "e?mails?|phone|mobile|tel|telephone|fax|card|pan|iban|ssn|passport|licen[cs]e|surname|forename|firstname|"
    "lastname|fullname|username|birth|birthday|birthdate|dob|address|street|zip|postcode|password|secret|token|ip|"
    "(first|last|full|given|family|middle|user|customer|holder|driver|contact)_name"
)
_PERSON = re.compile("account|customer|patient|user")
"""Words for somebody: private, but not as the key, which is often a number, and would be masked on every page."""

_NEAR = timedelta(days=3_650)
"""Counts since 1970 beside times in ISO 8601 are of the unit by which they are as near to these."""

LARGEST = 64 << 20
"""Bytes of a sample that is copied into a new project."""


@dataclass(frozen=True)
class Column:
    """A column of the event table.

    Attributes:
        name: its name there.
        raw: its name in the file, or its path.
        kind: its type; None if ingest cannot read it.
        values: its values in the sample.
        formats: the formats of its times, as in `Source.time`; none for ISO 8601.
        json: whether it is kept as JSON text.
    """

    name: str
    raw: str
    kind: pa.DataType | None
    values: pl.Series
    formats: tuple[str, ...] = ()
    json: bool = False

    @property
    def is_private(self) -> bool:
        """Whether it is proposed as private: by its name, or since nobody knows what JSON text will hold."""
        return self.is_private_as_key or any(map(_PERSON.fullmatch, self._words))

    @property
    def is_private_as_key(self) -> bool:
        """Whether it is proposed as private although it is the key: what it says of a person is more than who it is."""
        return self.json or any(map(_PRIVATE.fullmatch, self._words))

    @property
    def _words(self) -> list[str]:
        spoken = [words(name) for name in (self.raw, *(field.name for field in fields_of(self.kind)))]
        return [word for each in spoken for word in (*each, *map("_".join, pairwise(each)))]

    @property
    def may_be_key(self) -> bool:
        """Whether each row has a value with one text: no float, and no time."""
        fits = self.kind in (pa.string(), pa.int64(), pa.bool_())
        return fits and not self.json and not self.values.null_count()

    def describe(self) -> str:
        """Describe it for people."""
        kind = "JSON text" if self.json else "time" if self.kind == TIMESTAMP else self.kind or "left out: not read"
        return f"{self.name} ({kind})"


@dataclass(frozen=True)
class Proposal:
    """The proposed stream: its columns, of these the event time and the key, and what its files are like."""

    columns: Sequence[Column]
    time: str
    key: Column
    format: FileFormat = field(default_factory=FileFormat)

    @property
    def read(self) -> list[Column]:
        """The columns that ingest reads; the others are left out."""
        return [column for column in self.columns if column.kind is not None]

    @property
    def private(self) -> list[Column]:
        """The columns that are proposed as private."""
        return [
            column for column in self.read if (column.is_private_as_key if column is self.key else column.is_private)
        ]

    @property
    def needed(self) -> list[Column]:
        """The columns that each event has: its time and its key."""
        return [column for column in self.read if column.name in (self.time, self.key.name)]


def propose(path: Path, time: str | None = None, key: str | None = None) -> Proposal:
    """Propose a stream from a sample of its files.

    Args:
        path: a file of CSV, JSON lines or Parquet.
        time: the column with the event's time, by its raw or its new name, with `=FORMAT` if it is not ISO 8601; or
            `arrival`. By default the only column of times.
        key: the key column; by default the only column of text.

    Raises:
        KeyfoldError: the file cannot be read, or a column is not named, not fit or not the only one; lists the candidates.
    """
    sample = _sample(path)
    columns = list(_columns(sample.rows))
    typed = {column.name: column for column in columns if column.kind is not None}
    chosen = INGESTED_AT
    if time != ARRIVAL or ARRIVAL in typed:
        times = [column for column in typed.values() if column.kind == TIMESTAMP]
        values = f"COLUMN, COLUMN=FORMAT or {ARRIVAL}"
        timed = _timed(typed, time) if time else _only(times, list(typed.values()), "time", values)
        typed[timed.name], chosen = timed, timed.name
    keys = [column for column in typed.values() if column.may_be_key and column.name != chosen]
    texts = [column for column in keys if column.kind == pa.string()]
    named = _named(typed, key) if key else _only(texts, keys, "key", "COLUMN")
    if named not in keys:
        raise KeyfoldError(
            f"--key {key}: a key is text, a whole number or a truth value, in every row, and not the event time; "
            f"candidates: {_listed(keys)}"
        )
    return Proposal([typed.get(column.name, column) for column in columns], chosen, named, sample.format)


def _only(fit: Sequence[Column], others: Sequence[Column], role: str, value: str) -> Column:
    if len(fit) == 1:
        return fit[0]
    raise KeyfoldError(
        f"the sample has {len(fit) or 'no'} columns that are plainly the {role}: choose with --{role} {value}; "
        f"candidates: {_listed(fit or others)}"
    )


def _listed(columns: Sequence[Column]) -> str:
    return ", ".join(column.describe() for column in columns) or "none"


def _named(columns: dict[str, Column], name: str) -> Column:
    match = next((column for column in columns.values() if name in (column.name, column.raw)), None)
    if match is None:
        raise KeyfoldError(f"the sample has no column {name!r} that ingest reads; it has {', '.join(columns)}")
    return match


def _timed(columns: dict[str, Column], text: str) -> Column:
    """Return the column of `COLUMN` or `COLUMN=FORMAT` as one of times."""
    is_raw = any(text == column.raw for column in columns.values())
    name, form = (text, "") if is_raw or "=" not in text else text.rsplit("=", 1)
    column = _named(columns, name)
    values = column.values.drop_nulls()
    is_time = column.kind == TIMESTAMP and not form
    if values.dtype == pl.String or (form and values.dtype.is_numeric()):
        is_time = (read_times(values, [form]) if form else _iso_times(values)).is_not_null().any()
    if not is_time:
        expected = f"as {form}" if form else f"as ISO 8601; name their format: --time '{column.raw}=FORMAT'"
        raise KeyfoldError(f"--time {text}: {column.raw} has no times {expected}")
    return replace(column, kind=TIMESTAMP, formats=(form,) if form else column.formats)


def _sample(path: Path) -> Sample:
    try:
        sample = read_sample(path)
    except OSError as error:
        raise KeyfoldError(f"{path} cannot be read: {error.strerror or error}") from None
    except (UnreadableFileError, pl.exceptions.PolarsError, ValueError) as error:
        raise KeyfoldError(f"{path} cannot be read: {str(error).splitlines()[0]}") from None
    if sample.rows.is_empty():
        raise KeyfoldError(f"{path} has no rows: give a sample with one row at least")
    return sample


def _columns(rows: pl.DataFrame) -> Iterator[Column]:
    parts = list(_flat(rows))
    for name, (raw, values, json) in zip(column_names([raw for raw, _, _ in parts]), parts, strict=True):
        kind = pa.string() if json else _kind(values)
        formats = _formats_beside_iso(values.drop_nulls()) if kind == pa.string() and values.dtype == pl.String else ()
        yield Column(name, raw, TIMESTAMP if formats else kind, values, formats, json)


def _flat(rows: pl.DataFrame) -> Iterator[tuple[str, pl.Series, bool]]:
    """Flatten structs; return names, values, and whether they are kept as JSON text."""
    for values in rows:
        kind = values.dtype
        if isinstance(kind, pl.Struct) and _has_fixed_fields(values):
            yield from _flat(values.struct.unnest().rename(lambda field, raw=values.name: f"{raw}.{field}"))
        else:
            yield values.name, values, kind.is_nested() and _kind(values) is None


def _has_fixed_fields(values: pl.Series) -> bool:
    """Whether most fields are in most rows, so that no field name is data, and each can be written in a path."""
    names = values.struct.fields
    there = values.drop_nulls()
    seldom = sum(there.struct.field(name).null_count() * 2 > len(there) for name in names)
    is_reached = all(path_of(f"{values.name}.{name}") == (*path_of(values.name), name) for name in names)
    return bool(names) and seldom * 2 <= len(names) and is_reached


def _kind(values: pl.Series) -> pa.DataType | None:
    kind = values.dtype
    if kind == pl.String:
        return _kind_of_texts(values.drop_nulls())
    if isinstance(kind, pl.List):
        return _kind_of_lists(values.explode().drop_nulls())
    if isinstance(kind, pl.Decimal):
        return pa.decimal128(kind.precision, kind.scale)
    if kind.is_numeric() and kind not in (pl.Int128, pl.UInt128):
        return pa.int64() if kind.is_integer() else pa.float64()
    texts = dict.fromkeys((pl.Categorical, pl.Enum, pl.Null), pa.string())
    types = {pl.Boolean: pa.bool_(), pl.Datetime: TIMESTAMP, pl.Date: pa.date32(), **texts}
    return types.get(kind.base_type())


def _kind_of_texts(texts: pl.Series) -> pa.DataType:
    if len(texts) and not _iso_times(texts).null_count():
        return TIMESTAMP
    return pa.date32() if len(texts) and not exact_cast(texts, pl.Date()).null_count() else pa.string()


def _formats_beside_iso(texts: pl.Series) -> tuple[str, ...]:
    """Return the formats of texts of which some are ISO 8601 and all others count from 1970 in one unit; none for other texts."""
    times = _iso_times(texts)
    counts = texts.filter(times.is_null())
    if not 0 < len(counts) < len(texts):
        return ()
    earliest, latest = times.min(), times.max()
    assert isinstance(earliest, datetime)  # noqa: S101 - some are times; this tells the type checker so
    assert isinstance(latest, datetime)  # noqa: S101
    units = [unit for unit in TIME_UNITS if _are_near(read_times(counts, [unit]), earliest, latest)]
    # A number does not tell its unit, but the times beside it do, unless they are of about 1970.
    return (ISO, *units) if len(units) == 1 else ()


def _are_near(times: pl.Series, earliest: datetime, latest: datetime) -> bool:
    return not times.null_count() and bool(times.is_between(shifted(earliest, -_NEAR), shifted(latest, _NEAR)).all())


def _kind_of_lists(elements: pl.Series) -> pa.DataType | None:
    """Return the type of lists of plain values, or of objects; None for other lists."""
    if elements.dtype == pl.String:
        return pa.list_(pa.string())
    kind = None if elements.dtype.is_nested() or elements.dtype == pl.Null else _kind(elements)
    return _kind_of_objects(elements) if kind is None else pa.list_(kind)


def _kind_of_objects(objects: pl.Series) -> pa.DataType | None:
    """Return the type of lists of these objects; None if they differ, or have other than plain fields."""
    if not isinstance(objects.dtype, pl.Struct) or not _has_fixed_fields(objects):
        return None
    kinds = {field.name: _kind(field) for field in objects.struct.unnest()}
    if any(kind is None or pa.types.is_nested(kind) or not name.isidentifier() for name, kind in kinds.items()):
        return None
    return pa.list_(pa.struct(list(kinds.items())))


def fields_of(kind: pa.DataType | None) -> list[pa.Field]:
    """Return the fields of the objects in lists of a type; none if it is another type."""
    if kind is None or not pa.types.is_list(kind) or not pa.types.is_struct(kind.value_type):
        return []
    return list(kind.value_type)


def _iso_times(values: pl.Series) -> pl.Series:
    """Return times as ingest reads them by default; NULL for other values."""
    # Under another name: Polars panics at one with a NUL character, which a key of JSON may have.
    columns = {"time": [pa.chunked_array([values.alias("time").to_arrow()])]}
    typed = cast_columns(columns, len(values), pa.schema([("time", TIMESTAMP)])).table
    return pl.Series(pl.from_arrow(typed.column("time")))
