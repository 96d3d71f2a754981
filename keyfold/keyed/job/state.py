"""Declare the state of a job."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import polars as pl
import pyarrow as pa

from keyfold.errors import Misconfigured
from keyfold.schemas import Columns, declared_schema


@dataclass(frozen=True)
class State:
    """The state that a job keeps: rows of a key, of which there may be any number.

    Attributes:
        columns: its columns. `deadline` and `processing_deadline` are timers. Columns of the key that a dict lacks are added.
        version: raise it when the meaning of the columns changes.
        migrations: functions that migrate rows from one version to the next, by the version they start from.
        events: expression for the number of events in rows that are in no output row yet. It must be additive: its value for
            all rows is the sum of its values for parts of them.
        one_per_key: condition on rows, of which a key may have one only; checked for state that is made from a table. None
            if a key may have several rows of any kind.

    Example:
        >>> State({"user": pl.String, "clicks": pl.Int64}).schema.names
        ['user', 'clicks']
    """

    columns: Columns
    version: int = 1
    migrations: Mapping[int, Callable[[pl.DataFrame], pl.DataFrame]] = field(default_factory=dict)
    events: pl.Expr = field(default_factory=pl.len)
    one_per_key: pl.Expr | None = None
    schema: pa.Schema = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "schema", declared_schema("state", self.columns))

    def with_key(self, where: str, key: Sequence[pa.Field]) -> "State":
        """Return the state with the columns of the key, which a dict may leave out."""
        if not isinstance(self.columns, Mapping):
            return self
        names = [one.name for one in key]
        declared = declared_schema(f"{where}: state", self.columns)
        for one in key:
            if one.name in declared.names and declared.field(one.name).type != one.type:
                raise Misconfigured(
                    f"{where}: state: key column {one.name} is {declared.field(one.name).type}, and {one.type} in the events"
                )
        return replace(self, columns=pa.schema([*key, *(one for one in declared if one.name not in names)]))
