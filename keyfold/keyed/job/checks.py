"""Check the declaration of a job when it is made, and not during a run."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from keyfold.errors import Misconfigured
from keyfold.keyed.job.inputs import Input
from keyfold.keyed.job.step import DEADLINE, PROCESSING_DEADLINE
from keyfold.keyed.job.tables import require_columns, require_timestamp
from keyfold.keyed.rows.hashing import check_hashable
from keyfold.schemas import check_by_row, field_of, require, type_of
from keyfold.stream import TIMESTAMP

if TYPE_CHECKING:
    from keyfold.keyed.job.contract import KeyedJob


def check_job(job: "KeyedJob") -> None:
    """Check what a job declares besides its inputs (`check_inputs`).

    Raises:
        Misconfigured: a column or a type does not fit; names the field, and what is there.
    """
    subject = f"job {job.name}"
    schema = job.state.schema
    require_columns(f"{subject}: state", job.key, schema)
    check_hashable(f"{subject}: key", job.key, job.columns)
    if not 1 <= job.key_groups <= 32_768:
        raise Misconfigured(f"{subject}: key_groups is {job.key_groups}; it must be 1 to 32768")
    for column in (DEADLINE, PROCESSING_DEADLINE):
        if column in schema.names:
            require_timestamp(f"{subject}: state", column, schema)
    for argument, expression in {"events": job.state.events, "one_per_key": job.state.one_per_key}.items():
        _check_expression(f"{subject}: state: {argument}", expression, schema)
    for table in job.own_tables:
        if table.key and (lacking := [name for name in job.key if name not in table.key]):
            raise Misconfigured(
                f"{subject}: table {table.name}: the key lacks {', '.join(lacking)} of the job's key, so that two keys could write "
                "one row; add it, or write the table with a job that has the table's key"
            )
        for name in job.key if table.key else ():
            if (kind := table.schema.field(name).type) != job.columns.field(name).type:
                raise Misconfigured(
                    f"{subject}: table {table.name}: {name} is {kind}, and {job.columns.field(name).type} in the job's key; a key "
                    "has one type"
                )
        _check_expression(f"{subject}: table {table.name}: events", table.events, table.schema)
    _check_row_times(job)
    for name, expression in job.inputs.items():
        _check_expression(f"{subject}: input {name}: events", expression.events, expression.schema)


def _check_row_times(job: "KeyedJob") -> None:
    if (times := job.row_times) is None:
        return
    subject = f"job {job.name}: row_times"
    for table in job.own_tables:
        time, columns = times.of_table(table), ", ".join(times.of_rows[0].meta.root_names())
        # Operators give several, of which a table may lack all.
        if time is None and len(times.of_rows) == 1:
            raise Misconfigured(
                f"{subject}: {columns} is not in {'the key of ' if table.key else ''}table {table.name}; the time of a row must be, so "
                "that a span of rows can be replaced"
            )
        _check_time(f"{subject}: of_rows, in table {table.name}", time, table.schema)
    _check_time(f"{subject}: of_state", times.of_state, job.state.schema)
    _check_time(f"{subject}: of_late", times.of_late, job.columns)


def _check_time(subject: str, time: pl.Expr | None, schema: pa.Schema) -> None:
    _check_expression(subject, time, schema)
    if time is not None and (kind := type_of(time, pl.Schema(schema))) != pl.Datetime("us", "UTC"):
        raise Misconfigured(f"{subject} is {kind}; it must be a time in UTC, such as a window's start")


def _check_expression(subject: str, expression: pl.Expr | None, schema: pa.Schema) -> None:
    require(subject, expression, pl.Expr | None, "an expression, such as pl.col('clicks').sum()")
    for name in expression.meta.root_names() if expression is not None else []:
        field_of(subject, name, schema)


def check_inputs(job: str, key: tuple[str, ...], inputs: Mapping[str, Input]) -> None:
    """Check that a job can have these inputs.

    Raises:
        Misconfigured: a column is missing, has a reserved name, or has different types in two inputs; names the remedy.
    """
    subject = f"job {job}"
    if not inputs:
        raise Misconfigured(f"{subject}: it has no inputs; give one stream or more, by name")
    if not key:
        raise Misconfigured(f"{subject}: key needs at least one column")
    seen: dict[str, tuple[str, pa.DataType]] = {}
    for name, input_ in inputs.items():
        at = f"{subject}: input {name}"
        if len(inputs) > 1 and not name.isidentifier():
            raise Misconfigured(f"{at}: a name has letters, digits and underscores")
        if input_.producer == job:
            raise Misconfigured(f"{at} is the job's own table {input_.table}: read another table")
        _check_input(at, key, input_, is_only=len(inputs) == 1)
        for column_ in input_.schema:
            _check_column(at, input_, column_, key, seen)
            seen.setdefault(column_.name, (name, column_.type))


def _check_input(at: str, key: tuple[str, ...], input_: Input, *, is_only: bool) -> None:
    # Operators compute columns of those that are derived, and need not keep these.
    derived = () if input_.computed else input_.derived
    if not input_.event_time:
        raise Misconfigured(
            f"{at}: say which column of {input_.table} has the event's time: Input({input_.stream.name}, at='…')"
        )
    for argument, needed in (("key", key), ("at", (input_.event_time,)), ("derive", derived)):
        for column_ in needed:
            field_of(f"{at}: {argument}", column_, input_.schema)
    if input_.event_time in input_.derived:
        raise Misconfigured(
            f"{at}: event_time {input_.event_time} is derived; it must be a column of the event table, or one by another name"
        )
    if input_.schema.field(input_.event_time).type != TIMESTAMP:
        raise Misconfigured(
            f"{at}: event_time {input_.event_time} is {input_.schema.field(input_.event_time).type}; it must be {TIMESTAMP}"
        )
    time = field_of(f"{at}: at", input_.stored_time, input_.stream.event_schema)
    if input_.producer is None and time.name != input_.stream.event_time and input_.may_lack(time):
        raise Misconfigured(
            f"{at}: at is {time.name}, which may be NULL: declare it with nullable=False if no event lacks it, or leave such "
            f"events out: {input_.stream.name}.where(pl.col({time.name!r}).is_not_null())"
        )
    _check_condition(at, input_)
    _check_lateness(at, input_)
    if input_.combine is not None and not is_only:
        raise Misconfigured(f"{at}: combine is for a job with one input; leave it out")
    if input_.exploded is not None and input_.exploded.column not in key:
        raise Misconfigured(
            f"{at}: explode is of {input_.exploded.column}; it must be of a column of the key, {', '.join(key)}"
        )


def _check_condition(at: str, input_: Input) -> None:
    """Check that the condition of an input can be evaluated on the rows of its table.

    Raises:
        Misconfigured: it names no column, or one that the table lacks; or it is not Boolean.
    """
    if input_.condition is None:
        return
    schema = input_.stream.event_schema
    if lacking := sorted(set(input_.condition.meta.root_names()) - set(schema.names)):
        raise Misconfigured(f"{at}: where names {', '.join(lacking)}; {input_.table} has {', '.join(schema.names)}")
    try:
        # Polars finds a condition that does not fit the columns' types also on a frame without rows.
        kind = pl.DataFrame(schema=pl.Schema(schema)).select(held=input_.condition)["held"].dtype
    except pl.exceptions.PolarsError as error:
        raise Misconfigured(f"{at}: where does not fit {input_.table}: {str(error).splitlines()[0]}") from None
    if kind != pl.Boolean or not input_.condition.meta.root_names():
        raise Misconfigured(f"{at}: where is {input_.condition}; it must be true or false by columns of {input_.table}")


def _check_column(
    at: str, input_: Input, column_: pa.Field, key: tuple[str, ...], seen: Mapping[str, tuple[str, pa.DataType]]
) -> None:
    rename = "give it another name with `derive`"
    if column_.name in key:
        input_.check_key(at, column_)
    before = seen.get(column_.name)
    if before is not None and before[1] != column_.type:
        noun = "the key's column" if column_.name in key else "column"
        remedy = "a key has one type in all inputs: cast it with `derive`" if column_.name in key else rename
        raise Misconfigured(
            f"{at}: {noun} {column_.name} is {column_.type}, and {before[1]} in input {before[0]}; {remedy}"
        )


def _check_lateness(at: str, input_: Input) -> None:
    final = input_.final_at
    if final is None:
        raise Misconfigured(
            f"{at}: say when the result of an event is final, after which it is late: final_at={input_.event_time!r} as soon as "
            f"the watermark has reached it, final_at=pl.col({input_.event_time!r}) + timedelta(hours=1) an hour later, or "
            "final_at=STEP_DECIDES if the step finds the late events itself"
        )
    late_at = input_.is_late_at
    if late_at is None:
        return
    for name in late_at.meta.root_names():
        field_of(f"{at}: final_at", name, input_.schema)
    check_by_row(f"{at}: final_at", late_at)
    kind = type_of(late_at, pl.Schema(input_.schema))
    if kind != pl.Datetime("us", "UTC"):
        raise Misconfigured(
            f"{at}: final_at is {kind}; it must be a time in UTC, such as the event time and a duration"
        )
