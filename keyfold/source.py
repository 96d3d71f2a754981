"""Where a column of a stream comes from in raw data."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from keyfold.raw_paths import PLACE, TEXT_OF

TIME_UNITS = ("s", "ms", "us", "ns")
"""Of numbers that count from 1970."""


@dataclass(frozen=True, init=False)
class Source:
    """Where an event column's value comes from in raw data; the first of these that has one gives it, row by row.

    Attributes:
        names: raw columns, in order; one alone may be given as text. `device.id` leads into an object, `items[0].price` into
            a list, and `readings[].value` into each element of one, of which each becomes an event (`raw_paths`). Of a
            message of Kafka also `kafka_key`, `kafka_header.NAME`, `kafka_headers`, `kafka_topic`, `kafka_partition`,
            `kafka_offset` and `kafka_timestamp`, which are not of its value.
        path: the file's path below its landing folder, without its endings (`.csv.gz`).
        constant: the same value for every row.
        time: how the raw columns write a time, where that is not ISO 8601: `s`, `ms`, `us` or `ns`, numbers that count
            from 1970, or a format such as `%d/%m/%Y %H:%M` (chrono's, as Polars takes it), UTC unless it has an offset
            (`%z`). Never guessed: nobody knows whether a number counts seconds, or which of two days is the month.
        json: the value is the JSON text of what the names lead to, whatever it is, as it stands in the line; without a
            name that of the whole line.
        place: the value is where in its list the element stood that became the event, from 0.

    Example:
        >>> Source(names=("ts", "timestamp"), time="ms").raw_type(pa.timestamp("us", tz="UTC"))
        DataType(double)
        >>> Source("device.id").names
        ('device.id',)
    """

    names: tuple[str, ...]
    path: bool
    constant: Any
    time: str
    json: bool
    place: bool

    def __init__(
        self,
        names: str | Sequence[str] = (),
        path: bool = False,
        constant: Any = None,
        time: str = "",
        *,
        json: bool = False,
        place: bool = False,
    ) -> None:
        given = {"path": path, "constant": constant, "time": time, "json": json, "place": place}
        for name, value in {"names": (names,) if isinstance(names, str) else tuple(names), **given}.items():
            object.__setattr__(self, name, value)

    @property
    def raw_names(self) -> tuple[str, ...]:
        """The raw columns as a table of raw rows has them."""
        if self.place:
            return (PLACE,)
        return tuple(f"{name}{TEXT_OF}" for name in self.names or ("",)) if self.json else self.names

    def raw_type(self, column: pa.DataType) -> pa.DataType:
        """The type that raw values of a column have, where their format knows types."""
        if not self.time:
            return column
        # A count of seconds may have a fraction; one of nanoseconds has more digits than a float can hold.
        return {"ns": pa.int64()}.get(self.time, pa.float64() if self.time in TIME_UNITS else pa.string())
