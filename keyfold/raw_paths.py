"""Paths into nested raw data: `device.id` is the field `id` of the object `device`, `items[0].price` that of the first element
of a list, and `readings[].value` that of each element, of which each becomes an event.

A name is also a raw column as it is spelled: where a producer sends `device.id` flat (a header of CSV, a key with a dot),
that column is looked at first. A name that is no path (`speed [km/h]`) is such a column and no more.

    >>> path_of("readings[].value")
    ('readings', None, 'value')
    >>> print(read_schema([("id", pa.string()), ("device.id", pa.int64())]))
    id: string
    device.id: int64
    device: struct<id: int64>
      child 0, id: int64
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

import pyarrow as pa
from pyarrow import types

EACH = None
"""The step of a path that stands for each element of a list."""

Path = tuple[str | int | None, ...]
"""Keys of objects, places in lists, and at most one `EACH`; the first step is a key."""

TEXT_OF = "{}"
"""Ends the name of a raw column that is the JSON text of what its path leads to; alone it is the text of the whole row."""

PLACE = "[#]"
"""The raw column that says where in its list an element stood, from 0."""

EACH_MARK = {b"keyfold.each": b""}
"""Metadata of the list field whose elements are events."""

_PART = re.compile(r"([^.\[\]{}]+)((?:\[\d*\])*)")
_BESIDE = "kafka_header."
"""Begins names of what stands beside a message's value: they lead into no object of it."""


@lru_cache(maxsize=4096)
def path_of(name: str) -> Path:
    """The steps of a path; a name that is none is one step."""
    if name.startswith(_BESIDE):
        return (name,)
    steps: list[str | int | None] = []
    for part in name.split("."):
        found = _PART.fullmatch(part)
        if found is None:
            return (name,)
        steps.append(found[1])
        steps += [int(place) if place else EACH for place in re.findall(r"\[(\d*)\]", found[2])]
    return tuple(steps)


def name_of(path: Path) -> str:
    """The name of a path.

    Example:
        >>> name_of(("readings", None, "value"))
        'readings[].value'
    """
    parts = [f".{step}" if isinstance(step, str) else f"[{'' if step is EACH else step}]" for step in path]
    return "".join(parts).removeprefix(".")


def list_of(names: Iterable[str]) -> Path | None:
    """The list whose elements are events, by the names that lead into them; None where none does.

    Raises:
        ValueError: they lead into several, or into a list of lists.
    """
    paths = {path[: path.index(EACH)] for name in names if EACH in (path := path_of(name))}
    if len(paths) > 1:
        raise ValueError(f"[] stands for the elements of {' and of '.join(sorted(map(name_of, paths)))}")
    if deep := next((name for name in names if path_of(name).count(EACH) > 1), None):
        raise ValueError(f"{deep} has [] twice")
    return next(iter(paths), None)


def read_schema(columns: Iterable[tuple[str, pa.DataType]]) -> pa.Schema:
    """The raw columns that rows may have: those of the names themselves, and the objects and lists that paths lead into.

    What is itself taken as a value is not opened: beside `device`, a text, `device.id` is no more than a column of that name.
    """
    flat = list(dict.fromkeys(columns))
    fields = [pa.field(name, kind) for name, kind in flat if EACH not in path_of(name)]
    known = {name for name, _ in flat}
    root = _Node()
    for name, kind in flat:
        path = path_of(name)
        if len(path) > 1 and path[0] not in known:
            root.put(path, kind)
    return pa.schema([*fields, *root.fields()])


@dataclass
class _Node:
    """What is read of an object or a list."""

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
