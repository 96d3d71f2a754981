"""Declare where a stream's column comes from in raw data: from a raw column, or from a path into nested data.

`device.id` is the field `id` of the object `device`. `items[0].price` is the field `price` of the first element of a list.
`readings[].value` is the field of every element, and each element becomes an event.

A raw column that is spelled like the path comes first: a producer may send `device.id` flat (a CSV header, a key with a dot).
A name that is no path (`speed [km/h]`) is only the name of a raw column.

    >>> path_of("readings[].value")
    ('readings', None, 'value')
    >>> print(read_schema([("id", pa.string()), ("device.id", pa.int64())]))
    id: string
    device.id: int64
    device: struct<id: int64>
      child 0, id: int64
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import lru_cache

import pyarrow as pa
from pyarrow import types

from keyfold.schemas import to_names
from keyfold.validation import argument, declaration

TIMESTAMP = pa.timestamp("us", tz="UTC")

INGESTED_AT = "ingested_at"
"""The column of every event table with the time of arrival. Keyfold fills it; no stream declares it."""

TIME_UNITS = ("s", "ms", "us", "ns")
"""Units of numbers that count from 1970."""

ISO = "iso"
"""The format of ISO 8601, named where a column has times of several formats."""


def _to_formats(value: str | Sequence[str]) -> tuple[str, ...]:
    """Convert formats of times that are given as a sequence, or as one text."""
    return () if value == "" else to_names(value)


@declaration("a source")
class Source:
    """The source of a column in raw data. In each row, the first of these with a value is used.

    Attributes:
        names: raw columns, in order; a single one may be given as text. `device.id` leads into an object, `items[0].price`
            into a list, and `readings[].value` into each element of a list, which becomes an event. A Kafka
            message also has `kafka_key`, `kafka_header.NAME`, `kafka_headers`, `kafka_topic`, `kafka_partition`,
            `kafka_offset`, `kafka_timestamp` and `kafka_tombstone` (whether it has no value).
        path: whether the file's path is used: below its landing folder, without its suffixes (`.csv.gz`).
        time: format of times that are not ISO 8601: `s`, `ms`, `us` or `ns` for numbers that count from 1970, or a
            format such as `%d/%m/%Y %H:%M` (as Polars takes it), read in the zone of the stream's `format` unless it has an offset
            (`%z`). It is never guessed: a number does not tell its unit, and a date may be day first or month first. Several
            formats of one column are given as a sequence, with `iso` for ISO 8601: `("iso", "ms")`; a value of which two of them
            make different times goes to quarantine.
        json: whether the value is the JSON text at the names, as it is in the line; without a name, the whole line.
        place: whether the value is the index in its list of the element that became the event, from 0.

    Example:
        >>> Source(names=("ts", "timestamp"), time="ms").raw_type(pa.timestamp("us", tz="UTC"))
        Decimal128Type(decimal128(38, 9))
        >>> Source("device.id").names
        ('device.id',)
    """

    names: tuple[str, ...] = argument(converter=to_names, default=())
    path: bool = False
    time: tuple[str, ...] = argument(converter=_to_formats, default=())
    _: KW_ONLY
    json: bool = False
    place: bool = False

    @property
    def has_time_formats(self) -> bool:
        """Whether each of `time` is a unit or a format."""
        return all(name in (*TIME_UNITS, ISO) or "%" in name for name in self.time)

    @property
    def raw_names(self) -> tuple[str, ...]:
        """The raw columns, by their names in a table of raw rows."""
        if self.place:
            return (PLACE,)
        return tuple(f"{name}{TEXT_OF}" for name in self.names or ("",)) if self.json else self.names

    def raw_type(self, column: pa.DataType) -> pa.DataType:
        """Return the type of a column's raw values in formats that have types."""
        if not self.time:
            return column
        # A count may have a fraction, and more digits than a float can hold.
        return pa.decimal128(38, 9) if all(name in TIME_UNITS for name in self.time) else pa.string()


EACH = None
"""The step of a path for each element of a list."""

Path = tuple[str | int | None, ...]
"""Keys of objects, indexes in lists, and at most one `EACH`; the first step is a key."""

TEXT_OF = "{}"
"""Suffix of a raw column with the JSON text of the value at its path; alone it is the JSON text of the whole row."""

PLACE = "[#]"
"""The raw column with the index of an element in its list, from 0."""

EACH_MARK = {b"keyfold.each": b""}
"""Metadata of the list field whose elements are events."""

_PART = re.compile(r"([^.\[\]{}]+)((?:\[\d*\])*)")
_BESIDE = "kafka_header."
"""Prefix of the headers of a Kafka message, whose names are no paths into its value."""


@lru_cache(maxsize=4096)
def path_of(name: str) -> Path:
    """Return the steps of a path; a name that is no path is one step."""
    if name.startswith(_BESIDE):
        return (name,)
    steps: list[str | int | None] = []
    for part in name.split("."):
        matched = _PART.fullmatch(part)
        if matched is None:
            return (name,)
        steps.append(matched[1])
        steps += [int(place) if place else EACH for place in re.findall(r"\[(\d*)\]", matched[2])]
    return tuple(steps)


def name_of(path: Path) -> str:
    """Return the name of a path.

    Example:
        >>> name_of(("readings", None, "value"))
        'readings[].value'
    """
    parts = [f".{step}" if isinstance(step, str) else f"[{'' if step is EACH else step}]" for step in path]
    return "".join(parts).removeprefix(".")


def list_of(names: Iterable[str]) -> Path | None:
    """Return the path of the list whose elements are events; None if no name has `[]`.

    Raises:
        ValueError: the names lead into several lists, or into a list of lists.
    """
    paths = {path[: path.index(EACH)] for name in names if EACH in (path := path_of(name))}
    if len(paths) > 1:
        raise ValueError(f"[] stands for the elements of {' and of '.join(sorted(map(name_of, paths)))}")
    if deep := next((name for name in names if path_of(name).count(EACH) > 1), None):
        raise ValueError(f"{deep} has [] twice")
    return next(iter(paths), None)


def read_schema(columns: Iterable[tuple[str, pa.DataType]]) -> pa.Schema:
    """Return the raw columns that rows may have: those with the names themselves, and the objects and lists of paths.

    A column that is read as a value is not read as an object: beside a text `device`, `device.id` is only a flat column.
    """
    flat = list(dict.fromkeys(columns))
    fields = [pa.field(name, kind) for name, kind in flat if EACH not in path_of(name)]
    names = {name for name, _ in flat}
    root = _Node()
    for name, kind in flat:
        path = path_of(name)
        if len(path) > 1 and path[0] not in names:
            root.put(path, kind)
    return pa.schema([*fields, *root.fields()])


@dataclass
class _Node:
    """The parts of an object or a list that are read."""

    leaf: pa.DataType | None = None
    keys: dict[str, "_Node"] = field(default_factory=dict)
    items: "_Node | None" = None
    is_each: bool = False

    def put(self, path: Path, kind: pa.DataType) -> None:
        node = self
        for step in path:
            if isinstance(step, str):
                node = node.keys.setdefault(step, _Node())
            else:
                node.is_each |= step is EACH
                node.items = node.items or _Node()
                node = node.items
        # Two columns may read the same value: it is read once, with the type of the first.
        node.leaf = node.leaf or kind

    def fields(self) -> list[pa.Field]:
        return [
            pa.field(name, node.type(), metadata=EACH_MARK if node.is_each else None)
            for name, node in self.keys.items()
        ]

    def type(self) -> pa.DataType:
        if self.leaf is not None:
            return self.leaf
        return pa.struct(self.fields()) if self.items is None else pa.list_(self.items.type())


def is_each(field: pa.Field) -> bool:
    """Whether a field is the list whose elements are events."""
    return types.is_list(field.type) and (field.metadata or {}).keys() >= EACH_MARK.keys()
