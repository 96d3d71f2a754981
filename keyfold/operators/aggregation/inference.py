"""Infer the columns of an operator's table from its input and its aggregates."""

from collections.abc import Mapping, Sequence

import polars as pl
import pyarrow as pa

from keyfold.columns import column, lineage_of, passed_on
from keyfold.errors import Misconfigured
from keyfold.keyed.job.inputs import Input
from keyfold.keyed.rows.codec import polars_schema
from keyfold.operators.aggregation.aggregates import COUNTED, Aggregate
from keyfold.schemas import arrow_type, declared_schema, field_of, type_of
from keyfold.stream import TIMESTAMP

_INTEGERS, _FLOATS = ("between", "falls", "count_distinct"), ("mean", "quantile")


def counted_by(of: Mapping[str, Aggregate], counted: str) -> str:
    """Return the column with the number of events: the one that is named, or the first `count()`, or `n_events`.

    Raises:
        Misconfigured: a value of `of` is no aggregate.
    """
    for name, one in of.items():
        if not isinstance(one, Aggregate):
            raise Misconfigured(f"{name} is {one!r}; give an aggregate, such as count() or sum('cents')")
    return counted or next((name for name, one in of.items() if one.counts), COUNTED)


def inferred_output(
    job: str,
    source: Input,
    of: Mapping[str, Aggregate],
    *,
    by: Sequence[str],
    times: Sequence[str] = (),
    more: Sequence[pa.Field] = (),
    counted: str = "",
    then: Mapping[str, pl.Expr] | None = None,
) -> pa.Schema:
    """Return the columns of a table that its author has not declared.

    Args:
        job: the job's name, for errors.
        source: the input.
        of: the aggregates by column.
        by: columns of the input that the table has: key and groups.
        times: columns with times that the operator makes, such as `window_start`.
        more: further columns of the operator.
        counted: the column with the number of events.
        then: columns computed from the others.

    Raises:
        Misconfigured: an aggregate or a column of `then` does not fit the columns that it is of.
    """
    events = source.schema
    table = pa.schema([*events, *(one for one in source.stream.event_schema if one.name not in events.names)])
    fields = passed_on(pa.schema([field_of(f"job {job}: key", name, events) for name in by]))
    fields += [
        column(name, TIMESTAMP, name.replace("_", " ").capitalize(), lineage=(source.event_time,), nullable=False)
        for name in times
    ]
    fields += [_of_aggregate(job, name, one, table) for name, one in of.items()]
    if counted and counted not in of:
        fields.append(column(counted, pa.int64(), "How many events", lineage=(source.event_time,), nullable=False))
    fields += more
    known = polars_schema(declared_schema(f"job {job}: output", fields))
    for name, how in (then or {}).items():
        made = _type_of(f"job {job}: then: {name}", how, known)
        roots = list(dict.fromkeys(how.meta.root_names()))
        lineage = [source for one in fields if one.name in roots for source in lineage_of(one)]
        what = f"Computed from {', '.join(roots) or 'a constant'}"
        fields = [one for one in fields if one.name != name]
        fields.append(column(name, arrow_type(made), what, lineage=list(dict.fromkeys(lineage))))
    return pa.schema(fields)


def _of_aggregate(job: str, name: str, one: Aggregate, table: pa.Schema) -> pa.Field:
    where, roots = f"job {job}: {name}", list(dict.fromkeys(one.value.meta.root_names()))
    for root in roots:
        field_of(where, root, table)
    value = _type_of(where, one.value, polars_schema(table))
    kind = one.kind or arrow_type(value)
    if one.joined in _FLOATS:
        kind = pa.float64()
    elif one.joined in _INTEGERS or (one.joined == "sum" and value.is_integer()):
        kind = pa.int64()
    elif one.joined == "collect":
        kind = arrow_type(pl.List(value))
    elif one.joined == "sum" and isinstance(value, pl.Decimal):
        kind = pa.decimal128(38, value.scale)
    never_null = one.joined in ("sum", "count_distinct", "collect") or (
        one.joined in ("first", "last") and roots and not table.field(roots[0]).nullable
    )
    what = "How many events" if one.counts else f"The {one.joined} of {', '.join(roots) or 'a constant'}"
    return column(name, kind, what, lineage=roots, nullable=not never_null)


def _type_of(where: str, how: pl.Expr, columns: Mapping[str, pl.DataType]) -> pl.DataType:
    try:
        return type_of(how, columns)
    except pl.exceptions.PolarsError as error:
        raise Misconfigured(f"{where}: {str(error).splitlines()[0]}; there are {', '.join(columns)}") from None
