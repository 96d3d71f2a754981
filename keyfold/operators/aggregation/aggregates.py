"""Aggregate functions that can be computed in parts: count, sum, minimum and maximum."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import polars as pl
import pyarrow as pa
from pyarrow import types

from keyfold.columns import column
from keyfold.errors import Misconfigured
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.inputs import STEP_DECIDES, Input
from keyfold.keyed.job.state import State
from keyfold.keyed.job.step import StepFunction
from keyfold.keyed.job.tables import OutputTable
from keyfold.keyed.rows.exact_sums import TotalTooLargeError, summed
from keyfold.stream import TIMESTAMP

COUNTED = "n_events"
"""Default name of the column with the number of events that a row stands for."""


@dataclass(frozen=True)
class Aggregate:
    """An associative aggregate function.

    Attributes:
        value: the value of one event, an expression over the columns of the event table.
        joined: how values are combined; NULLs are ignored.
        ignored: values of `distinct` that do not count.
        kind: the type of a sum in state, if it is not that of the table's column of this name.
    """

    value: pl.Expr
    joined: Literal["sum", "min", "max", "mean", "first", "last", "between", "falls", "distinct"]
    ignored: tuple[Any, ...] = ()
    kind: pa.DataType | None = None

    @property
    def column(self) -> str:
        """The column whose values it takes; empty if they are computed."""
        names = self.value.meta.root_names()
        return names[0] if len(names) == 1 and self.value.meta.eq(pl.col(names[0])) else ""

    @property
    def counts(self) -> bool:
        """Whether it counts all events."""
        return self.joined == "sum" and not self.value.meta.root_names()


def count(where: pl.Expr | None = None) -> Aggregate:
    """Count all events, or those for which a condition is true."""
    one = pl.lit(1, pl.Int64) if where is None else where.fill_null(value=False).cast(pl.Int64)
    return Aggregate(one, "sum")


def sum(value: str | pl.Expr, kind: pa.DataType | None = None) -> Aggregate:
    """Sum integers or decimals exactly; 0 if there are no values. A sum that overflows its column raises an error.

    `kind` is the sum's type if it is not that of the table's column of its name, such as a decimal that is shown as a float.
    """
    return Aggregate(_value(value), "sum", kind=kind)


def min(value: str | pl.Expr) -> Aggregate:
    """Take the minimum; NULL if there are no values."""
    return Aggregate(_value(value), "min")


def max(value: str | pl.Expr) -> Aggregate:
    """Take the maximum; NULL if there are no values."""
    return Aggregate(_value(value), "max")


def mean(value: str | pl.Expr) -> Aggregate:
    """Average the values as floats; NULL if there are no values. For `last_n`."""
    return Aggregate(_value(value), "mean")


def first(value: str | pl.Expr) -> Aggregate:
    """Take the value of the first event in order of event time."""
    return Aggregate(_value(value), "first")


def last(value: str | pl.Expr) -> Aggregate:
    """Take the value of the last event in order of event time."""
    return Aggregate(_value(value), "last")


def between(value: pl.Expr) -> Aggregate:
    """Sum a whole number of each two consecutive events; `pl.col("x").shift()` is of the earlier one. For sessions."""
    return Aggregate(value, "between")


def falls(value: pl.Expr) -> Aggregate:
    """Sum the falls between consecutive known values, whole and not negative; NULL if none is known. For `sessions_while`."""
    return Aggregate(value, "falls")


def divided(value: pl.Expr, by: float) -> pl.Expr:
    """Divide whole numbers as Python does; Polars multiplies by the inverse of a constant, which sometimes differs by one bit."""
    return value / (value * 0 + by)


def distinct(value: str | pl.Expr, ignored: tuple[Any, ...] = ()) -> Aggregate:
    """Collect the set of the elements of lists, sorted, without NULLs and without `ignored`; for `running`."""
    return Aggregate(_value(value), "distinct", ignored)


class Aggregates:
    """The aggregates of a job by column, including the number of events.

    Args:
        job: the job's name.
        of: the aggregates by column.
        counted: the column with the number of events that a row stands for.
        event_time: the events' time column.
        output: columns of the job's table. An aggregate takes its type from here; int64 if it is not in the table.

    Raises:
        Misconfigured: a sum is over floats, whose sums depend on the order.
    """

    def __init__(self, job: str, of: Mapping[str, Aggregate], counted: str, event_time: str, output: pa.Schema) -> None:
        self._of = {**of, counted: count()}
        undeclared = {
            name: column(
                name,
                one.kind or pa.int64(),
                f"{name} of these events",
                lineage=list(dict.fromkeys(one.value.meta.root_names())),
                nullable=one.kind is not None,
            )
            for name, one in of.items()
        }
        undeclared[counted] = number_of_events(counted, event_time)
        self.fields = [
            output.field(name) if name in output.names and self._of[name].kind is None else undeclared[name]
            for name in self._of
        ]
        self.sums = [field.name for field in self.fields if self._of[field.name].joined == "sum"]
        for field in self.fields:
            if field.name in self.sums and not (field.type == pa.int64() or types.is_decimal128(field.type)):
                raise Misconfigured(
                    f"job {job}: {field.name} is a sum, and {field.type}; make it int64 or a decimal of 38 digits, whose sums "
                    "are the same in any order"
                )

    @property
    def names(self) -> list[str]:
        """The names of the aggregate columns."""
        return list(self._of)

    @property
    def derived(self) -> dict[str, pl.Expr]:
        """The expressions to add to the event table; aggregates of a plain column need none."""
        return {name: one.value for name, one in self._of.items() if one.column != name}

    def joined(self, rows: pl.DataFrame, by: list[str], *more: pl.Expr) -> pl.DataFrame:
        """Aggregate the rows of each group, with `more` as further aggregations.

        Raises:
            TotalTooLargeError: a sum overflows its column.
        """
        others = (getattr(pl.col(name), one.joined)() for name, one in self._of.items() if one.joined != "sum")
        return summed(rows, by, self.sums, *more, *others)

    def combined(self, rows: pl.DataFrame, by: list[str], *more: pl.Expr) -> pl.DataFrame:
        """Aggregate before the shuffle; return the rows unchanged if a sum overflows.

        A partial sum may overflow where the total with the state does not, so the step decides.
        """
        try:
            return self.joined(rows, by, *more)
        except TotalTooLargeError:
            return rows


def counting_job(
    name: str,
    source: Input,
    counted: str,
    *,
    derive: Mapping[str, pl.Expr],
    columns: pa.Schema,
    combine: Callable[[pl.DataFrame], pl.DataFrame],
    key: tuple[str, ...],
    state: State,
    step: StepFunction,
    tables: Sequence[OutputTable],
    settings: Mapping[str, Any],
) -> KeyedJob:
    """Make a job whose rows of events have in `counted` the number of events that they stand for.

    Args:
        name, key, state, step, tables: as of `KeyedJob`.
        source: the input as its author declared it.
        counted: the column.
        derive: the columns of events that are computed, besides those of the input.
        columns: the columns of events.
        combine: as of `Input`.
        settings: other arguments of `KeyedJob`.
    """
    one = replace(
        source,
        derive={**source.derive, **derive},
        columns=columns,
        combine=combine,
        events=pl.col(counted).sum(),
        final_at=STEP_DECIDES,
    )
    return KeyedJob(name, one, key, state, step, tables, closes_in_order=True, **settings)


def newest(event_time: str) -> pa.Field:
    """Declare the event time of a row that stands for several events: the newest of them."""
    return column(
        event_time, TIMESTAMP, "Event time of the newest of them (UTC)", lineage=(event_time,), nullable=False
    )


def number_of_events(name: str, event_time: str) -> pa.Field:
    """Declare the column with the number of events that a row stands for."""
    return column(name, pa.int64(), "How many events the row stands for", lineage=(event_time,), nullable=False)


def _value(value: str | pl.Expr) -> pl.Expr:
    return pl.col(value) if isinstance(value, str) else value
