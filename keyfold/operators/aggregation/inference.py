"""Infer the columns of an operator's tables, and their lineage, from its input and its aggregates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import polars as pl
import pyarrow as pa

from keyfold.columns import column, lineage_of, with_lineage
from keyfold.errors import Misconfigured
from keyfold.keyed.job.inputs import Input
from keyfold.keyed.job.tables import OutputTable
from keyfold.keyed.rows.codec import polars_schema
from keyfold.operators.aggregation.aggregates import COUNTED, Aggregate, readable, type_in, types_of
from keyfold.operators.aggregation.parts import Naming, Parts, parts_of
from keyfold.schemas import (
    Columns,
    arrow_type,
    check_by_row,
    declared_schema,
    field_of,
    nearest,
    stored_schema,
)
from keyfold.stream import TIMESTAMP
from keyfold.stream.refined import roots_of

_IN_ORDER = ("first", "last", "over_pairs", "sum_of_decreases", "collect")


def counted_by(of: Mapping[str, Aggregate], counted: str) -> str:
    """Return the column with the number of events: the one that is named, or the first `count()`, or `n_events`."""
    return counted or next((name for name, aggregate in of.items() if aggregate.counts), COUNTED)


@dataclass(frozen=True)
class OutputColumns:
    """What the columns of an operator's tables come from.

    Attributes:
        job: the job's name, for errors.
        source: the input.
        key: the key, and other columns that are never NULL in a table that is declared by a dict.
        of: the aggregates by column.
        then: columns computed from the others.
        own: other columns that the operator makes, by name: the columns of the input that they depend on; by default the event
            time.
        decided_by: columns of the input that decide which events a row is of: what is made of several depends on them.

    Raises:
        Misconfigured: a column of the key is of no column of the input, or the event time.
    """

    job: str
    source: Input
    key: Sequence[str]
    of: Mapping[str, Aggregate] = field(default_factory=dict)
    then: Mapping[str, pl.Expr] = field(default_factory=dict)
    own: Mapping[str, Sequence[str]] = field(default_factory=dict)
    decided_by: Sequence[str] = ()

    def __post_init__(self) -> None:
        input_, place = self.source, f"job {self.job}: key"
        for name, computed in self.then.items():
            check_by_row(f"job {self.job}: then: {name}", computed)
        columns = [
            name
            for name in (*input_.stream.event_schema.names, *input_.refined.new_columns)
            if name != input_.event_time
        ]
        for name in self.key:
            if name == input_.event_time:
                raise Misconfigured(
                    f"{place}: {name} is the event time, which orders the events of a key: leave it out"
                )
            if name not in columns:
                raise Misconfigured(f"{place}: there is no column {name}{nearest(name, columns)}")

    def output(
        self,
        declared: Columns | None,
        *,
        by: Sequence[str] | None = None,
        times: Sequence[str] = (),
        more: Sequence[pa.Field] = (),
        counted: str = "",
        never_null: Sequence[str] = (),
        hidden: Sequence[pa.Field] = (),
    ) -> pa.Schema:
        """Return the columns of the main table: those that its author has declared, or by default all there are.

        Args:
            declared: the declaration, in which columns may lack their lineage.
            by: columns of the input that the table has; by default the key.
            times: columns with times that the operator makes, such as `window_start`.
            more: further columns of the operator.
            counted: the column with the number of events.
            never_null: aggregates that every row has; rows that are older than another lack it.
            hidden: columns that `then` may use, and that the table lacks.

        Raises:
            Misconfigured: an aggregate or a column of `then` does not fit the columns that it is of, or a table cannot hold one.
        """
        place, by = f"job {self.job}: output", self.key if by is None else by
        own = [*times, *(field_.name for field_ in (*more, *hidden))]
        for name in self.of:
            if name in (*self.key, *own):
                raise Misconfigured(
                    f"job {self.job}: {name} is a column of the key, or one that the operator makes; give the aggregate another name"
                )
        of_events = [field_of(f"job {self.job}: key", name, readable(self.source)) for name in by]
        for field_ in of_events:
            if field_.name in self.key:
                self.source.check_key(f"job {self.job}: input {self.source.stream.name}", field_)
        of_events = [field_.with_nullable(field_.nullable and field_.name not in self.key) for field_ in of_events]
        fields = [with_lineage(field_, self._of_input(field_.name)) for field_ in of_events]
        fields += [column(name, TIMESTAMP, name.replace("_", " ").capitalize(), nullable=False) for name in times]
        fields += self._aggregates(counted, never_null)
        fields += more
        if declared is not None:
            table = stored_schema(place, declared, [*self.key, *times])
            self._check(place, table, [*fields, *hidden])
            return self._with_lineage(table)
        rows = declared_schema(place, [*fields, *hidden])
        for name, computed in self.then.items():
            if name in (counted, *(field_.name for field_ in of_events)):
                raise Misconfigured(
                    f"job {self.job}: then: {name} is a column that the job goes by; give it another name"
                )
            type_ = type_in(f"job {self.job}: then: {name}", computed, rows)
            meaning = f"Computed from {', '.join(dict.fromkeys(computed.meta.root_names())) or 'a constant'}"
            fields = [field_ for field_ in fields if field_.name != name]
            fields.append(column(name, arrow_type(type_), meaning))
        return self._with_lineage(stored_schema(place, fields, self.key))

    def table(
        self, table: OutputTable, main: pa.Schema, own: Sequence[pa.Field], *, counted: str = "", has_then: bool = True
    ) -> OutputTable:
        """Return a further table with the lineage of all columns.

        Args:
            table: the table.
            main: the columns of the main table; aggregates that both have are of one type.
            own: the columns of its rows besides the aggregates and `then`.
            counted: the column with the number of events.
            has_then: whether its rows have the columns of `then`, as far as these are made of the others.

        Raises:
            Misconfigured: it has another column, or one of another type.
        """
        declared = {field.name: field for field in self.aggregates_in(main)}
        fields = [*own, *(declared.get(field.name, field) for field in self._aggregates(counted))]
        self._check(f"job {self.job}: table {table.name}", table.schema, fields, has_then=has_then, is_main=False)
        return replace(table, schema=self._with_lineage(table.schema))

    def _aggregates(self, counted: str, never_null: Sequence[str] = ()) -> list[pa.Field]:
        table = readable(self.source)
        fields = [
            _of_aggregate(f"job {self.job}: {name}", name, aggregate, table).with_nullable(
                name not in (counted, *never_null)
            )
            for name, aggregate in self.of.items()
        ]
        if counted and counted not in self.of:
            fields.append(column(counted, pa.int64(), "How many events", nullable=False))
        return fields

    def _check(
        self,
        place: str,
        declared: pa.Schema,
        fields: Sequence[pa.Field],
        *,
        has_then: bool = True,
        is_main: bool = True,
    ) -> None:
        """Check that a table has columns of its rows alone, in their types."""
        rows = {row_field.name: row_field for row_field in fields}
        then = {
            name: computed
            for name, computed in self.then.items()
            if has_then and (is_main or rows.keys() >= {*computed.meta.root_names()})
        }
        for field_ in declared:
            if is_main and field_.name in self.own and field_.name not in rows:
                continue
            if field_.name not in (*rows, *then):
                raise Misconfigured(
                    f"{place}: there is no column {field_.name} to write{nearest(field_.name, [*rows, *then])}"
                )
            computed = then.get(field_.name)
            if computed is not None and rows.keys() >= {*computed.meta.root_names()}:
                type_ = arrow_type(
                    type_in(f"job {self.job}: then: {field_.name}", computed, pa.schema(list(rows.values())))
                )
            elif computed is None and not (is_main and field_.name in self.of):
                type_ = rows[field_.name].type
            else:
                # The aggregates of the main table may be declared as a wider type, see `_as_declared`.
                continue
            if not (pa.types.is_null(type_) or _same(type_, field_.type)):
                raise Misconfigured(
                    f"{place}: {field_.name} is {type_}, and declared as {field_.type}: declare it as {type_}"
                )

    def aggregates_in(self, table: pa.Schema) -> pa.Schema:
        """Return the columns of a table that are aggregates as they are, and not computed from them."""
        return pa.schema([field_ for field_ in table if field_.name in self.of and field_.name not in self.then])

    def _with_lineage(self, schema: pa.Schema) -> pa.Schema:
        return pa.schema(
            [field_ if lineage_of(field_) else with_lineage(field_, self._lineage(field_.name)) for field_ in schema]
        )

    def _lineage(self, name: str) -> list[str]:
        roots = self.then[name].meta.root_names() if name in self.then else [name]
        sources = [source for root in roots for source in self._sources(root)]
        # Columns of one event are passed on as they are.
        passed_on = {*self.key, *self.source.stream.event_schema.names} - self.of.keys()
        if not passed_on.issuperset(roots):
            sources += [source for root in self.decided_by for source in self._of_input(root)]
        return list(dict.fromkeys(sources)) or [self.source.event_time]

    def _sources(self, name: str) -> Sequence[str]:
        if (aggregate := self.of.get(name)) is not None:
            in_order = aggregate.counts or aggregate.kind in _IN_ORDER
            roots = [*aggregate.value.meta.root_names(), *([self.source.event_time] if in_order else [])]
        else:
            roots = self.own.get(name, [name])
        return [source for root in roots for source in self._of_input(root)]

    def _of_input(self, name: str) -> Sequence[str]:
        source = self.source
        if name in source.derived:
            return roots_of(source.derived[name])
        if source.exploded is not None and name == source.exploded.column:
            return source.exploded.values.meta.root_names()
        return [name if name in source.stream.event_schema.names else source.event_time]


def _of_aggregate(place: str, name: str, aggregate: Aggregate, table: pa.Schema) -> pa.Field:
    roots = list(dict.fromkeys(aggregate.value.meta.root_names()))
    for root in roots:
        field_of(place, root, table)
    kind = types_of(place, aggregate, table).result
    meaning = "How many events" if aggregate.counts else f"The {aggregate.kind} of {', '.join(roots) or 'a constant'}"
    return column(name, kind, meaning)


def _same(one_type: pa.DataType, other: pa.DataType) -> bool:
    # Arrow has several types of texts and lists that Polars has one of.
    first, second = (polars_schema(pa.schema([("", kind)]))[""] for kind in (one_type, other))
    return first == second


def declared_parts(
    job: str,
    of: Mapping[str, Aggregate],
    columns: pa.Schema,
    event_time: str,
    naming: Naming,
    ties: pa.Schema | None,
    output: pa.Schema,
) -> dict[str, Parts]:
    """Return the parts of a job's aggregates, whose results have the types that its table declares.

    Args:
        job: the job's name.
        of: the aggregates.
        columns: the columns that they are of.
        event_time, naming, ties: as of `parts_of`.
        output: the aggregates as the table declares them.

    Raises:
        Misconfigured: an aggregate does not fit its values, or the declared type does not hold all of its own.
    """
    parts = dict[str, Parts]()
    for name, aggregate in of.items():
        place = f"job {job}: {name}"
        types = types_of(place, aggregate, columns)
        own = parts_of(name, aggregate, types, event_time, naming, ties)
        parts[name] = replace(own, result=_as_declared(place, own.result, types.result, output, name))
    return parts


def _as_declared(place: str, value: pl.Expr, kind: pa.DataType, table: pa.Schema, name: str) -> pl.Expr:
    """Return a column of a table in the type that its author has declared, if that holds all values of its own type.

    Raises:
        Misconfigured: it does not.
    """
    if name not in table.names:
        return value
    own_type, wanted = (
        polars_schema(pa.schema([pa.field(name, type_)]))[name] for type_ in (kind, table.field(name).type)
    )
    if own_type == wanted:
        return value
    if not _holds(wanted, own_type):
        raise Misconfigured(
            f"{place} is {kind}, and declared as {table.field(name).type}: declare it as {kind}, or compute another column of it"
        )
    return value.cast(wanted)


def _holds(wider: pl.DataType, kind: pl.DataType) -> bool:
    if isinstance(wider, pl.Decimal) and isinstance(kind, pl.Decimal):
        return wider.scale >= kind.scale and wider.precision - wider.scale >= kind.precision - kind.scale
    return wider in _WIDER.get(kind, ())


_WIDER: Mapping[pl.DataType, Sequence[pl.DataType]] = {
    pl.Int8(): (pl.Int16(), pl.Int32(), pl.Int64(), pl.Float32(), pl.Float64()),
    pl.Int16(): (pl.Int32(), pl.Int64(), pl.Float32(), pl.Float64()),
    pl.Int32(): (pl.Int64(), pl.Float64()),
    pl.Float32(): (pl.Float64(),),
}
"""The types that hold all values of a type."""
