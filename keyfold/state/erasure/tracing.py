"""Trace the values of a stream's columns through jobs: the columns of states and tables that have them."""

from collections.abc import Iterable, Mapping
from functools import reduce
from operator import and_, or_

import polars as pl
import pyarrow as pa

from keyfold.columns import made_of
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.inputs import Input

Held = Mapping[str, frozenset[str]]
"""For each column of the stream: the columns that have its values."""


class Trace:
    """The trace of some columns of a stream through jobs.

    A column has the values of another one if it has its name, if it is that column renamed (`derived`), or if it is declared to
    depend on that column only (`columns.made_of`) and both are text.

    Args:
        stream: name of the event table.
        schema: its columns.
        values: the values to find, by column of the stream.
        jobs: all jobs that read the stream, directly or not, each after all jobs that it reads (`job_chains.in_order`).
    """

    def __init__(
        self, stream: str, schema: pa.Schema, values: Mapping[str, pl.Series], jobs: Iterable[KeyedJob]
    ) -> None:
        self._values, self._kinds = values, {name: schema.field(name).type for name in values}
        self._tables: dict[str, Held] = {stream: {name: frozenset({name}) for name in values}}
        self._jobs: dict[str, Held] = {}
        for job in jobs:
            read = [_read(one, self._tables[one.table]) for one in job.all_inputs.values() if one.table in self._tables]
            self._jobs[job.name] = {name: frozenset().union(*(held[name] for held in read)) for name in values}
            self._tables |= {table.name: self._held(job.name, table.schema) for table in job.tables}

    @property
    def columns(self) -> list[str]:
        """The columns of the stream whose values are traced."""
        return sorted(self._values)

    def where(self, job: str, schema: pa.Schema) -> pl.Expr | None:
        """Return the condition on rows of a job's state or table that have the values; None if it lacks the columns."""
        return self._where(self._held(job, schema))

    def where_in(self, table: str) -> pl.Expr | None:
        """Return the condition on rows of the stream's or a job's table that have the values; None if it lacks the columns."""
        return self._where(self._tables[table])

    def is_of(self, table: str) -> bool:
        """Whether a table is the stream's event table, or depends on it."""
        return table in self._tables

    def made_of_them(self, job: str, schema: pa.Schema) -> list[str]:
        """Return the columns that are declared to depend on the traced columns."""
        columns = _all(self._jobs[job])
        return [field.name for field in schema if columns.intersection(made_of(field))]

    def _held(self, job: str, schema: pa.Schema) -> Held:
        return {
            name: frozenset(field.name for field in schema if _holds(field, columns, self._kinds[name]))
            for name, columns in self._jobs[job].items()
        }

    def _where(self, held: Held) -> pl.Expr | None:
        # A row counts if it has all values: without one of the columns that cannot be decided.
        if not all(held.values()):
            return None
        conditions = [
            [pl.col(column).is_in(self._values[name].implode()) for column in sorted(held[name])] for name in held
        ]
        return reduce(and_, (reduce(or_, one) for one in conditions))


def _read(one: Input, held: Held) -> Held:
    """Return the columns with the values by their names in an input of a job."""
    renamed = {
        new: roots[0]
        for new, how in one.derived.items()
        if isinstance(how, pl.Expr) and len(roots := how.meta.root_names()) == 1 and _is_column(how, roots[0])
    }
    same = {name: name for name in one.events.names if name not in one.derived}
    return {
        name: frozenset(new for new, old in (same | renamed).items() if old in columns)
        for name, columns in held.items()
    }


def _is_column(how: pl.Expr, name: str) -> bool:
    return how.meta.undo_aliases().meta.eq(pl.col(name))


def _holds(field: pa.Field, columns: frozenset[str], kind: pa.DataType) -> bool:
    if field.name in columns:
        return True
    # A number that depends on the column may be a sum or a count, which only looks like one of its values.
    is_text = field.type == kind and pa.types.is_string(kind)
    return is_text and bool(made_of(field)) and columns.issuperset(made_of(field))


def _all(held: Held) -> frozenset[str]:
    return frozenset[str]().union(*held.values())
