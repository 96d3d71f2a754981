"""What events come to, part by part: counts, totals, the least and the greatest value."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import polars as pl
import pyarrow as pa
from pyarrow import types

from keyfold.columns import column
from keyfold.errors import Misconfigured
from keyfold.keyed.rows.exact_sums import check_sums, may_overflow
from keyfold.stream import TIMESTAMP

COUNTED = "n_events"
"""The column that says how many events a row stands for, where a job gives it no other name."""


@dataclass(frozen=True)
class Aggregate:
    """A value of each event, and how the values of two make one of both.

    Attributes:
        value: of an event, over the columns of the event table.
        joined: how two are made one; a NULL is left out.
    """

    value: pl.Expr
    joined: Literal["sum", "min", "max"]


def count(where: pl.Expr | None = None) -> Aggregate:
    """How many events there are, or how many of them a condition holds for."""
    one = pl.lit(1, pl.Int64) if where is None else where.fill_null(value=False).cast(pl.Int64)
    return Aggregate(one, "sum")


def total(value: str | pl.Expr) -> Aggregate:
    """The sum of whole numbers or decimals, exact: one that its column does not hold is refused. Of nothing it is 0."""
    return Aggregate(_value(value), "sum")


def least(value: str | pl.Expr) -> Aggregate:
    """The least value; NULL of nothing."""
    return Aggregate(_value(value), "min")


def greatest(value: str | pl.Expr) -> Aggregate:
    """The greatest value; NULL of nothing."""
    return Aggregate(_value(value), "max")


class Aggregates:
    """The aggregates of a job, by column, and the number of events among them.

    Args:
        job: whose.
        of: the aggregates.
        counted: the column that says how many events a row stands for.
        event_time: of the events.
        output: columns of the job's table: those of aggregates have their types from it, and whole numbers where it has none.

    Raises:
        Misconfigured: a total is of numbers that round.
    """

    def __init__(self, job: str, of: Mapping[str, Aggregate], counted: str, event_time: str, output: pa.Schema) -> None:
        self._of = {**of, counted: count()}
        others = {
            name: column(
                name, pa.int64(), f"{name} of these events", made_of=one.value.meta.root_names(), nullable=False
            )
            for name, one in of.items()
        }
        others[counted] = number_of_events(counted, event_time)
        self.fields = [output.field(name) if name in output.names else others[name] for name in self._of]
        self._sums = [field.name for field in self.fields if self._of[field.name].joined == "sum"]
        for field in self.fields:
            if field.name in self._sums and not (field.type == pa.int64() or types.is_decimal128(field.type)):
                raise Misconfigured(
                    f"job {job}: {field.name} is a sum, and {field.type}; make it int64 or a decimal of 38 digits, whose sums "
                    "are the same in any order"
                )

    @property
    def names(self) -> list[str]:
        """The columns."""
        return list(self._of)

    @property
    def derived(self) -> dict[str, pl.Expr]:
        """The value of each event, but for those that are a column of the event table as it is."""
        return {name: one.value for name, one in self._of.items() if not one.value.meta.eq(pl.col(name))}

    def joined(self, rows: pl.DataFrame, by: list[str], *more: pl.Expr) -> pl.DataFrame:
        """Rows of one key as one: with `more` besides the aggregates.

        Raises:
            TotalTooLargeError: a total does not fit.
        """
        check_sums(rows, by, self._sums)
        return rows.group_by(by).agg(*more, *(getattr(pl.col(name), one.joined)() for name, one in self._of.items()))

    def combined(self, rows: pl.DataFrame, by: list[str], *more: pl.Expr) -> pl.DataFrame:
        """The same before the shuffle, where a total that might not fit is left to the step, which knows what there was before."""
        return rows if may_overflow(rows, self._sums) else self.joined(rows, by, *more)


def newest(event_time: str) -> pa.Field:
    """The column of the event time of rows that stand for several events."""
    return column(
        event_time, TIMESTAMP, "Event time of the newest of them (UTC)", made_of=(event_time,), nullable=False
    )


def number_of_events(name: str, event_time: str) -> pa.Field:
    """The column that says how many events a row stands for."""
    return column(name, pa.int64(), "How many events the row stands for", made_of=(event_time,), nullable=False)


def _value(value: str | pl.Expr) -> pl.Expr:
    return pl.col(value) if isinstance(value, str) else value
