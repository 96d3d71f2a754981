"""Declare where a stream's column comes from in raw data."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from keyfold.stream.raw_paths import PLACE, TEXT_OF

TIME_UNITS = ("s", "ms", "us", "ns")
"""Units of numbers that count from 1970."""


@dataclass(frozen=True, init=False)
class Source:
    """The source of a column in raw data. In each row, the first of these with a value is used.

    Attributes:
        names: raw columns, in order; a single one may be given as text. `device.id` leads into an object, `items[0].price`
            into a list, and `readings[].value` into each element of a list, which becomes an event (`raw_paths`). A Kafka
            message also has `kafka_key`, `kafka_header.NAME`, `kafka_headers`, `kafka_topic`, `kafka_partition`,
            `kafka_offset` and `kafka_timestamp`.
        path: whether the file's path is used: below its landing folder, without its suffixes (`.csv.gz`).
        time: format of times that are not ISO 8601: `s`, `ms`, `us` or `ns` for numbers that count from 1970, or a
            format such as `%d/%m/%Y %H:%M` (as Polars takes it), read as UTC unless it has an offset (`%z`). It is never
            guessed: a number does not tell its unit, and a date may be day first or month first.
        json: whether the value is the JSON text at the names, as it is in the line; without a name, the whole line.
        place: whether the value is the index in its list of the element that became the event, from 0.

    Example:
        >>> Source(names=("ts", "timestamp"), time="ms").raw_type(pa.timestamp("us", tz="UTC"))
        DataType(double)
        >>> Source("device.id").names
        ('device.id',)
    """

    names: tuple[str, ...]
    path: bool
    time: str
    json: bool
    place: bool

    def __init__(
        self,
        names: str | Sequence[str] = (),
        path: bool = False,
        time: str = "",
        *,
        json: bool = False,
        place: bool = False,
    ) -> None:
        given = {"path": path, "time": time, "json": json, "place": place}
        for name, value in {"names": (names,) if isinstance(names, str) else tuple(names), **given}.items():
            object.__setattr__(self, name, value)

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
        # A count of seconds may have a fraction; one of nanoseconds has more digits than a float can hold.
        return {"ns": pa.int64()}.get(self.time, pa.float64() if self.time in TIME_UNITS else pa.string())
