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
        made: other columns that the operator makes, by name: the columns of the input that they depend on; by default the event
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
    made: Mapping[str, Sequence[str]] = field(default_factory=dict)
    decided_by: Sequence[str] = ()

    def __post_init__(self) -> None:
        one, where = self.source, f"job {self.job}: key"
        for name, how in self.then.items():
            check_by_row(f"job {self.job}: then: {name}", how)
        known = [name for name in (*one.stream.event_schema.names, *one.refined.new_columns) if name != one.event_time]
        for name in self.key:
            if name == one.event_time:
                raise Misconfigured(
                    f"{where}: {name} is the event time, which orders the events of a key: leave it out"
                )
            if name not in known:
                raise Misconfigured(f"{where}: there is no column {name}{nearest(name, known)}")

    def output(
        self,
        declared: Columns | None,
        *,
        by: Sequence[str] | None = None,
        times: Sequence[str] = (),
        more: Sequence[pa.Field] = (),
        counted: str = "",
        hidden: Sequence[pa.Field] = (),
    ) -> pa.Schema:
        """Return the columns of the main table: those that its author has declared, or by default all there are.

        Args:
            declared: the declaration, in which columns may lack their lineage.
            by: columns of the input that the table has; by default the key.
            times: columns with times that the operator makes, such as `window_start`.
            more: further columns of the operator.
            counted: the column with the number of events.
            hidden: columns that `then` may use, and that the table lacks.

        Raises:
            Misconfigured: an aggregate or a column of `then` does not fit the columns that it is of, or a table cannot hold one.
        """
        where, by = f"job {self.job}: output", self.key if by is None else by
        own = [*times, *(one.name for one in (*more, *hidden))]
        for name in self.of:
            if name in (*self.key, *own):
                raise Misconfigured(
                    f"job {self.job}: {name} is a column of the key, or one that the operator makes; give the aggregate another name"
                )
        of_events = [field_of(f"job {self.job}: key", name, readable(self.source)) for name in by]
        for one in of_events:
            if one.name in self.key:
                self.source.check_key(f"job {self.job}: input {self.source.stream.name}", one)
        of_events = [one.with_nullable(one.nullable and one.name not in self.key) for one in of_events]
        fields = [with_lineage(one, self._of_input(one.name)) for one in of_events]
        fields += [column(name, TIMESTAMP, name.replace("_", " ").capitalize(), nullable=False) for name in times]
        fields += self._aggregates(counted)
        fields += more
        if declared is not None:
            given = stored_schema(where, declared, [*self.key, *times])
            self._check(where, given, [*fields, *hidden])
            return self._with_lineage(given)
        known = declared_schema(where, [*fields, *hidden])
        for name, how in self.then.items():
            if name in (counted, *(one.name for one in of_events)):
                raise Misconfigured(
                    f"job {self.job}: then: {name} is a column that the job goes by; give it another name"
                )
            made = type_in(f"job {self.job}: then: {name}", how, known)
            what = f"Computed from {', '.join(dict.fromkeys(how.meta.root_names())) or 'a constant'}"
            fields = [one for one in fields if one.name != name]
            fields.append(column(name, arrow_type(made), what))
        return self._with_lineage(stored_schema(where, fields, self.key))

    def table(
        self, one: OutputTable, main: pa.Schema, own: Sequence[pa.Field], *, counted: str = "", has_then: bool = True
    ) -> OutputTable:
        """Return a further table with the lineage of all columns.

        Args:
            one: the table.
            main: the columns of the main table; aggregates that both have are of one type.
            own: the columns of its rows besides the aggregates and `then`.
            counted: the column with the number of events.
            has_then: whether its rows have the columns of `then`, as far as these are made of the others.

        Raises:
            Misconfigured: it has another column, or one of another type.
        """
        declared = {field.name: field for field in self.aggregates_in(main)}
        fields = [*own, *(declared.get(field.name, field) for field in self._aggregates(counted))]
        self._check(f"job {self.job}: table {one.name}", one.schema, fields, has_then=has_then, is_main=False)
        return replace(one, schema=self._with_lineage(one.schema))

    def _aggregates(self, counted: str) -> list[pa.Field]:
        table = readable(self.source)
        fields = [_of_aggregate(f"job {self.job}: {name}", name, one, table) for name, one in self.of.items()]
        if counted and counted not in self.of:
            fields.append(column(counted, pa.int64(), "How many events", nullable=False))
        return fields

    def _check(
        self,
        where: str,
        declared: pa.Schema,
        fields: Sequence[pa.Field],
        *,
        has_then: bool = True,
        is_main: bool = True,
    ) -> None:
        """Check that a table has columns of its rows alone, in their types."""
        rows = {one.name: one for one in fields}
        then = {
            name: how
            for name, how in self.then.items()
            if has_then and (is_main or rows.keys() >= {*how.meta.root_names()})
        }
        for field_ in declared:
            if is_main and field_.name in self.made and field_.name not in rows:
                continue
            if field_.name not in (*rows, *then):
                raise Misconfigured(
                    f"{where}: there is no column {field_.name} to write{nearest(field_.name, [*rows, *then])}"
                )
            how = then.get(field_.name)
            if how is not None and rows.keys() >= {*how.meta.root_names()}:
                found = arrow_type(type_in(f"job {self.job}: then: {field_.name}", how, pa.schema(list(rows.values()))))
            elif how is None and not (is_main and field_.name in self.of):
                found = rows[field_.name].type
            else:
                # The aggregates of the main table may be declared as a wider type, see `as_declared`.
                continue
            if not (pa.types.is_null(found) or _same(found, field_.type)):
                raise Misconfigured(
                    f"{where}: {field_.name} is {found}, and declared as {field_.type}: declare it as {found}"
                )

    def aggregates_in(self, table: pa.Schema) -> pa.Schema:
        """Return the columns of a table that are aggregates as they are, and not computed from them."""
        return pa.schema([one for one in table if one.name in self.of and one.name not in self.then])

    def _with_lineage(self, schema: pa.Schema) -> pa.Schema:
        return pa.schema([one if lineage_of(one) else with_lineage(one, self._lineage(one.name)) for one in schema])

    def _lineage(self, name: str) -> list[str]:
        roots = self.then[name].meta.root_names() if name in self.then else [name]
        found = [source for root in roots for source in self._sources(root)]
        # Columns of one event are passed on as they are.
        passed_on = {*self.key, *self.source.stream.event_schema.names} - self.of.keys()
        if not passed_on.issuperset(roots):
            found += [source for root in self.decided_by for source in self._of_input(root)]
        return list(dict.fromkeys(found)) or [self.source.event_time]

    def _sources(self, name: str) -> Sequence[str]:
        if (one := self.of.get(name)) is not None:
            in_order = one.counts or one.kind in _IN_ORDER
            roots = [*one.value.meta.root_names(), *([self.source.event_time] if in_order else [])]
        else:
            roots = self.made.get(name, [name])
        return [source for root in roots for source in self._of_input(root)]

    def _of_input(self, name: str) -> Sequence[str]:
        source = self.source
        if name in source.derived:
            return roots_of(source.derived[name])
        if source.exploded is not None and name == source.exploded.column:
            return source.exploded.values.meta.root_names()
        return [name if name in source.stream.event_schema.names else source.event_time]


def _of_aggregate(where: str, name: str, one: Aggregate, table: pa.Schema) -> pa.Field:
    roots = list(dict.fromkeys(one.value.meta.root_names()))
    for root in roots:
        field_of(where, root, table)
    kind = types_of(where, one, table).result
    never_null = one.kind in ("count", "sum", "over_pairs", "distinct", "count_distinct", "collect") or (
        one.kind in ("first", "last") and one.column and not table.field(one.column).nullable
    )
    what = "How many events" if one.counts else f"The {one.kind} of {', '.join(roots) or 'a constant'}"
    return column(name, kind, what, nullable=not never_null)


def _same(one: pa.DataType, other: pa.DataType) -> bool:
    # Arrow has several types of texts and lists that Polars has one of.
    first, second = (polars_schema(pa.schema([("", kind)]))[""] for kind in (one, other))
    return first == second


def as_declared(where: str, value: pl.Expr, kind: pa.DataType, table: pa.Schema, name: str) -> pl.Expr:
    """Return a column of a table in the type that its author has declared, if that holds all values of its own type.

    Raises:
        Misconfigured: it does not.
    """
    if name not in table.names:
        return value
    given, wanted = (polars_schema(pa.schema([pa.field(name, one)]))[name] for one in (kind, table.field(name).type))
    if given == wanted:
        return value
    if not _holds(wanted, given):
        raise Misconfigured(
            f"{where} is {kind}, and declared as {table.field(name).type}: declare it as {kind}, or compute another column of it"
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
