"""Jobs whose rows of events and of state stand for many events: their aggregates, which are kept in parts, and their number."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl
import pyarrow as pa
from pyarrow import types

from keyfold.columns import column
from keyfold.errors import Misconfigured
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.inputs import Input
from keyfold.keyed.job.state import State
from keyfold.keyed.job.step import StepFunction
from keyfold.keyed.job.tables import OutputTable
from keyfold.keyed.rows.codec import polars_schema
from keyfold.keyed.rows.exact_sums import TotalTooLargeError, summed
from keyfold.operators.aggregation.aggregates import IN_PARTS, Aggregate, count, require_known, value_type
from keyfold.operators.aggregation.parts import (
    Parts,
    check_is_number,
    exact_mean,
    first_or_last,
    float_sum,
    kept_values,
    plain,
)
from keyfold.operators.stepping import step_job
from keyfold.schemas import arrow_type
from keyfold.stream import TIMESTAMP


class Aggregates:
    """The aggregates of a job by column, including the number of events.

    Args:
        job: the job's name.
        of: the aggregates by column.
        counted: the column with the number of events that a row stands for.
        source: the input, whose columns they are of.
        output: columns of the job's table. A sum, minimum or maximum takes its type from here; int64 if it is not in the table.

    Attributes:
        fields: their columns in state.

    Raises:
        Misconfigured: an aggregate is not one that can be kept in parts, or does not fit its values.
    """

    def __init__(self, job: str, of: Mapping[str, Aggregate], counted: str, source: Input, output: pa.Schema) -> None:
        require_known(job, of, IN_PARTS)
        self._of = {**of, counted: count()}
        read = {root for one in of.values() for root in one.value.meta.root_names()} or {source.event_time}
        ties = pa.schema([one for one in source.stream.event_schema if one.name in read])
        self._parts = {
            name: plain(name, one.value, "sum", number_of_events(counted, source.event_time))
            if name == counted and counted not in output.names
            else _parts_of(job, name, one, source, output, ties)
            for name, one in self._of.items()
        }
        self.fields, common = list[pa.Field](), set[str]()
        for parts in self._parts.values():
            self.fields += [one for one in parts.columns if one.name not in common.intersection(parts.common)]
            common.update(parts.common)
        names = [*self.names, *(name for name, parts in self._parts.items() if parts.made is not None)]
        if twice := {name for name in names if names.count(name) > 1}:
            raise Misconfigured(
                f"job {job}: {', '.join(sorted(twice))}: two aggregates need a column of this name; rename one"
            )
        self.sums = [name for parts in self._parts.values() for name in parts.sums]

    @property
    def names(self) -> list[str]:
        """The names of their columns in state."""
        return [field.name for field in self.fields]

    @property
    def derived(self) -> dict[str, pl.Expr]:
        """The expressions to add to the event table; a plain column needs none."""
        return {
            name: value
            for parts in self._parts.values()
            for name, value in parts.values.items()
            if not value.meta.eq(pl.col(name))
        }

    def joined(self, rows: pl.DataFrame, by: list[str], *more: pl.Expr) -> pl.DataFrame:
        """Aggregate the rows of each group, with `more` as further aggregations.

        Raises:
            TotalTooLargeError: a sum overflows its column.
            TooManyValuesError: a group has more values than are kept.
        """
        others = dict[str, pl.Expr]()
        for parts in self._parts.values():
            rows = parts.aligned(rows, by)
            others |= {name: how.alias(name) for name, how in parts.joined.items()}
        groups = summed(rows, by, self.sums, *more, *others.values())
        for parts in self._parts.values():
            parts.check(groups)
        return groups

    def finished(self, groups: pl.DataFrame) -> pl.DataFrame:
        """Add the aggregates that are made of several parts."""
        return groups.with_columns(
            **{name: parts.made for name, parts in self._parts.items() if parts.made is not None}
        )

    def of_events(self, events: pl.DataFrame, group: pl.Series) -> pl.DataFrame:
        """Aggregate events of the event table by the number of their group; return the groups in order."""
        values = {name: value for parts in self._parts.values() for name, value in parts.values.items()}
        return self.finished(self.joined(events.select(group, **values), [group.name])).sort(group.name)

    def combined(self, rows: pl.DataFrame, by: list[str], *more: pl.Expr) -> pl.DataFrame:
        """Aggregate before the shuffle; return the rows unchanged if a sum overflows.

        A partial sum may overflow where the total with the state does not, so the step decides.
        """
        try:
            return self.joined(rows, by, *more)
        except TotalTooLargeError:
            return rows


def _parts_of(job: str, name: str, one: Aggregate, source: Input, output: pa.Schema, ties: pa.Schema) -> Parts:
    where, lineage = f"job {job}: {name}", list(dict.fromkeys(one.value.meta.root_names()))
    value = value_type(where, name, one, source, output)
    if one.joined in ("sum", "mean", "quantile"):
        check_is_number(where, value)
    if one.joined in ("sum", "mean") and name in output.names and output.field(name).type == pa.float32():
        raise Misconfigured(
            f"{where}: a {one.joined} is declared as float32, and made in 64 bits; declare it as float64"
        )
    if one.joined in ("sum", "mean") and value.is_float():
        return float_sum(name, one.value, lineage, mean=one.joined == "mean")
    if one.joined == "mean":
        kind = pa.decimal128(38, value.scale) if isinstance(value, pl.Decimal) else pa.int64()
        return exact_mean(name, one.value, kind, lineage)
    if one.joined in ("first", "last"):
        return first_or_last(name, one.value, one.joined, arrow_type(value), source.event_time, ties, lineage)
    if one.joined in ("count_distinct", "quantile", "collect"):
        return kept_values(name, one.value, one.joined, value, source.event_time, lineage, one.at_most, one.q)
    field = column(
        name, one.kind or pa.int64(), f"{name} of these events", lineage=lineage, nullable=one.kind is not None
    )
    if name in output.names and one.kind is None:
        field = output.field(name)
    shown = polars_schema(pa.schema([field]))[field.name]
    if one.joined in ("min", "max") and shown != value and not (shown.is_numeric() and value.is_numeric()):
        raise Misconfigured(f"{where} is the {one.joined} of {value}, and declared as {shown}; declare it as {value}")
    if one.joined == "sum" and not (field.type == pa.int64() or types.is_decimal128(field.type)):
        raise Misconfigured(f"{where} is a sum of {value}, and {field.type}; make it int64 or a decimal of 38 digits")
    return plain(name, one.value, one.joined, field)


def counting_job(
    name: str,
    source: Input,
    counted: str,
    *,
    derive: Mapping[str, pl.Expr],
    columns: pa.Schema,
    combine: Callable[[pl.DataFrame], pl.DataFrame] | None,
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
    one = replace(source.with_computed(derive), columns=columns, combine=combine, events=pl.col(counted).sum())
    return step_job(name, one, key, state, step, tables, settings)


def newest(event_time: str) -> pa.Field:
    """Declare the event time of a row that stands for several events: the newest of them."""
    return column(
        event_time, TIMESTAMP, "Event time of the newest of them (UTC)", lineage=(event_time,), nullable=False
    )


def number_of_events(name: str, event_time: str) -> pa.Field:
    """Declare the column with the number of events that a row stands for."""
    return column(name, pa.int64(), "How many events the row stands for", lineage=(event_time,), nullable=False)
