"""What is known of the values of an Avro schema before one is read: how deep they are, and whether they take any bytes."""

from collections.abc import Mapping
from typing import Any, NamedTuple

MOST_FREE = 1_000
"""Most values of a record that take no bytes, such as fields of type null."""

DEEPEST = 500
"""Most values that are within one another. fastavro's compiled reader does not check its stack."""


class Shape(NamedTuple):
    """What is known of the values of a schema before one is read.

    Attributes:
        free: number of values in an encoding without any byte; None if it takes a byte.
        depth: how many values are within one another.
    """

    free: int | None
    depth: int = 1


class Shapes:
    """The shapes of a schema's types.

    Attributes:
        are_recursive: whether a value may have one of its own type within it.
    """

    def __init__(self, named: Mapping[str, Any]) -> None:
        self.are_recursive = False
        self._named, self._known, self._open = named, dict[str, Shape](), set[str]()

    def of(self, schema: Any) -> Shape:
        """Return the shape of a schema.

        Raises:
            ValueError: a few bytes may stand for values without end.
        """
        if isinstance(schema, list):
            return Shape(None, 1 + max([self.of(branch).depth for branch in schema], default=0))
        if isinstance(schema, str):
            schema = self._named.get(schema, {"type": schema})
        kind = schema["type"]
        if kind in ("record", "error"):
            return self._of_record(schema)
        if kind in self._named:
            return self.of(kind)
        if kind in ("array", "map"):
            inside = self.of(schema["items" if kind == "array" else "values"])
            if kind == "array" and inside.free is not None:
                raise ValueError(
                    "it has a list whose elements take no bytes, so that a few stand for any number of them"
                )
            return Shape(None, inside.depth + 1)
        return Shape(1 if kind == "null" or (kind == "fixed" and not schema["size"]) else None)

    def _of_record(self, record: Any) -> Shape:
        name = record["name"]
        if name in self._open:
            self.are_recursive = True
            return Shape(None)
        if name not in self._known:
            self._open.add(name)
            fields = [self.of(field["type"]) for field in record["fields"]]
            self._open.remove(name)
            free = 1 + sum(field.free for field in fields if field.free is not None)
            if free > MOST_FREE:
                raise ValueError(
                    f"it has a record with {free:,} values that take no bytes, and at most {MOST_FREE:,} are read"
                )
            depth = 1 + max([field.depth for field in fields], default=0)
            self._known[name] = Shape(None if any(field.free is None for field in fields) else free, depth)
        return self._known[name]
