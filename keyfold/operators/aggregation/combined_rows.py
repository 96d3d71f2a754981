"""Jobs whose rows of events and of state stand for many events: their aggregates, which are kept in parts, and their number."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import polars as pl
import pyarrow as pa

from keyfold.columns import column
from keyfold.keyed.job.inputs import Input
from keyfold.keyed.job.state import StoredAggregates
from keyfold.keyed.rows.exact_sums import TotalTooLargeError, summed
from keyfold.operators.aggregation.aggregates import IN_ANY_ORDER, Aggregate, count, readable, require_known
from keyfold.operators.aggregation.incomplete import Incomplete
from keyfold.operators.aggregation.inference import declared_parts
from keyfold.operators.aggregation.parts import Naming, Part, Parts
from keyfold.stream import TIMESTAMP


class Aggregates:
    """The aggregates of a job by column, whose parts are joined by group, in any order of events.

    Args:
        job: the job's name.
        of: the aggregates by column.
        counted: the column with the number of events that a row stands for.
        source: the input, whose columns they are of.
        output: the aggregates as the job's table declares them.
        taken: names of other columns of state, and of the rows that aggregates are made in.

    Attributes:
        fields: the columns of their parts.
        counted: the column with the number of events, which is never NULL.

    Raises:
        Misconfigured: an aggregate needs events in order, or does not fit its values.
    """

    def __init__(
        self,
        job: str,
        of: Mapping[str, Aggregate],
        counted: str,
        source: Input,
        output: pa.Schema,
        taken: Iterable[str] = (),
    ) -> None:
        require_known(job, of, IN_ANY_ORDER)
        of = {**of, counted: count()}
        columns, naming = readable(source), Naming(taken, of)
        read = {root for aggregate in of.values() for root in aggregate.value.meta.root_names()} or {source.event_time}
        # In the stream's order, and then what is made of its columns.
        stored = [name for name in source.stream.event_schema.names if name in columns.names]
        ties = pa.schema([columns.field(name) for name in dict.fromkeys([*stored, *columns.names]) if name in read])
        self._parts = declared_parts(job, of, columns, source.event_time, naming, ties, output)
        (number,) = self._parts[counted].parts
        fields = {
            part.name: _described(part, name, output) for name, parts in self._parts.items() for part in parts.parts
        }
        fields[number.name] = (
            output.field(counted) if counted in output.names else number_of_events(number.name, source.event_time)
        )
        self.fields, self.counted = list(fields.values()), number.name
        self._incomplete = Incomplete(naming)

    @property
    def state(self) -> list[pa.Field]:
        """Their columns in state, of groups that end."""
        return [*self.fields, self._incomplete.field]

    def stored(self, row_key: Sequence[str], *, groups_end: bool = True) -> StoredAggregates:
        """Return what state keeps of them.

        Args:
            row_key: the columns of a group.
            groups_end: whether groups end, and have the columns `state`.
        """
        parts = {
            name: {part.name: part.of_nothing for part in of.parts}
            for name, of in self._parts.items()
            # Without the number of events, no row of state is what it was.
            if self.counted not in of.names
        }
        order = {of.order[-1] for of in self._parts.values() if of.order}
        incomplete = self._incomplete.name if groups_end else ""
        return StoredAggregates(parts, incomplete, row_key=tuple(row_key), order=tuple(order))

    def new(self, events: pl.DataFrame) -> pl.DataFrame:
        """Return events as rows of state have them."""
        return events.with_columns(self._incomplete.of_events)

    @property
    def values(self) -> dict[str, pl.Expr]:
        """The parts of one event."""
        return {part.name: part.value for parts in self._parts.values() for part in parts.parts}

    @property
    def derived(self) -> dict[str, pl.Expr]:
        """The expressions to add to the event table; a plain column needs none."""
        return {name: value for name, value in self.values.items() if not value.meta.eq(pl.col(name))}

    def joined(self, rows: pl.DataFrame, by: list[str], *more: pl.Expr) -> pl.DataFrame:
        """Aggregate the rows of each group, with `more` as further aggregations.

        Raises:
            TotalTooLargeError: a sum overflows its column.
            TooManyValuesError: a group has more values than are kept.
        """
        joined, sums = dict[str, pl.Expr](), list[str]()
        for parts in self._parts.values():
            rows = _aligned(rows, by, parts)
            for part in parts.parts:
                if part.join == "sum":
                    sums.append(part.name)
                else:
                    joined[part.name] = _joined(part, parts.order)
        incomplete = self._incomplete.joined(rows)
        groups = summed(rows, by, sums, *more, *joined.values(), *([] if incomplete is None else [incomplete]))
        for name, parts in self._parts.items():
            parts.check(name, groups)
        return groups

    def finished(self, groups: pl.DataFrame) -> pl.DataFrame:
        """Add the aggregates, which are made of their parts."""
        results = {name: parts.result for name, parts in self._parts.items()}
        return groups.with_columns(**self._incomplete.without_partial(groups, results))

    def of_events(self, events: pl.DataFrame, group: pl.Series) -> pl.DataFrame:
        """Aggregate events of the event table by the number of their group; return the groups in order."""
        return self.finished(self.joined(events.select(group, **self.values), [group.name])).sort(group.name)

    def combined(self, rows: pl.DataFrame, by: list[str], *more: pl.Expr) -> pl.DataFrame:
        """Aggregate before the shuffle; return the rows unchanged if a sum overflows.

        A partial sum may overflow where the total with the state does not, so the step decides.
        """
        try:
            return self.joined(rows, by, *more)
        except TotalTooLargeError:
            return rows


def _described(part: Part, aggregate: str, output: pa.Schema) -> pa.Field:
    """Return a column of state, as its author has declared that of the table if they are the same."""
    if part.name == aggregate and aggregate in output.names and output.field(aggregate).type == part.column.type:
        # Rows that are older than an aggregate lack it.
        return output.field(aggregate).with_nullable(True)
    return part.column


def _joined(part: Part, order: Sequence[str]) -> pl.Expr:
    """Return a part of a group of rows."""
    values = pl.col(part.name)
    match part.join:
        case "min" | "max":
            return getattr(values, part.join)()
        case "scale":
            return values.max()
        case "limb":
            return values.sum()
        case "first" | "last":
            return getattr(values.sort_by(order, nulls_last=False), part.join)()
        case "set":
            return values.explode().drop_nulls().unique().sort()
        case _:
            return values.explode(empty_as_null=False, keep_nulls=False).sort()


def _aligned(rows: pl.DataFrame, by: Sequence[str], parts: Parts) -> pl.DataFrame:
    """Return rows whose sums of floats have the greatest scale of their group, so that they can be added."""
    if not (scales := parts.of("scale")):
        return rows
    (scale,), limbs = scales, parts.of("limb")
    # A join takes half of the time of `max().over(by)`.
    greatest = rows.group_by(by).agg(pl.col(scale).max().alias("#scale"))
    rows = rows.join(greatest, on=list(by), how="left", nulls_equal=True, maintain_order="left")
    steps, (high, middle, low) = pl.col("#scale") - pl.col(scale), map(pl.col, limbs)
    nothing = pl.lit(0, pl.Int64)
    return rows.with_columns(
        pl.when(steps == 0).then(high).otherwise(nothing).alias(limbs[0]),
        pl.when(steps == 0).then(middle).when(steps == 1).then(high).otherwise(nothing).alias(limbs[1]),
        pl.when(steps == 0).then(low).when(steps == 1).then(middle).when(steps == 2).then(high).otherwise(nothing)
        .alias(limbs[2]),
        pl.col("#scale").alias(scale),
    ).drop("#scale")  # fmt: skip


def counting_input(
    source: Input,
    counted: str,
    *,
    derive: Mapping[str, pl.Expr],
    columns: pa.Schema,
    combine: Callable[[pl.DataFrame], pl.DataFrame],
) -> Input:
    """Return an input whose rows have in `counted` the number of events that they stand for.

    Args:
        source: the input as its author declared it.
        counted: the column.
        derive: the columns of events that are computed, besides those of the input.
        columns: the columns of events.
        combine: as of `Input`.
    """
    return replace(source.with_computed(derive), columns=columns, combine=combine, events=pl.col(counted).sum())


def newest(event_time: str) -> pa.Field:
    """Declare the event time of a row that stands for several events: the newest of them."""
    return column(
        event_time, TIMESTAMP, "Event time of the newest of them (UTC)", lineage=(event_time,), nullable=False
    )


def number_of_events(name: str, event_time: str) -> pa.Field:
    """Declare the column with the number of events that a row stands for."""
    return column(name, pa.int64(), "How many events the row stands for", lineage=(event_time,), nullable=False)
