"""Map rows to a job's state by expressions for its columns, and check them: those of a table, and those of a state that is edited."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

import polars as pl

from keyfold.errors import InvalidData, counted
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.step import DEADLINE, PROCESSING_DEADLINE
from keyfold.keyed.rows.codec import polars_schema
from keyfold.keyed.rows.hashing import key_hash
from keyfold.privacy import MASK, masked
from keyfold.state.making.sources import fitted
from keyfold.state.rows.sql_expressions import sql_expression

_FAULTS_SHOWN = 3
_ROW = "#row"


@dataclass(frozen=True)
class StateMapping:
    """How rows of a source become rows of state.

    Attributes:
        texts: SQL expressions over the source's columns, by column of state; a column that is not named is copied from the
            source's column of the same name.
        option: the option of the command line that gives them, for messages.
        is_by_key: whether an aggregate is of the rows of its key, and not of all rows.
    """

    texts: Mapping[str, str] = field(default_factory=dict)
    option: Literal["--map", "--set"] = "--map"
    is_by_key: bool = False


@dataclass(frozen=True)
class Checked:
    """Counts of checked rows of state.

    Attributes:
        rows: number of rows.
        keys: number of keys.
        events: number of events in these rows (`State.events`).
        timers: rows with a timer, by its column.
        left_empty: columns of state that are not in the source.
    """

    rows: int
    keys: int
    events: int
    timers: dict[str, int]
    left_empty: tuple[str, ...]


def as_state(job: KeyedJob, source: pl.LazyFrame, mapping: StateMapping) -> pl.LazyFrame:
    """Map the source's rows to the columns of the job's state; values that do not fit become NULL (see `check_rows`).

    Args:
        source: rows of the source.
        mapping: how they become rows of state.

    Raises:
        KeyfoldError: an expression is invalid, names an unknown column, or is missing for a column that may not be NULL.
    """
    values = _values(job, source, mapping)
    wanted = polars_schema(job.state.schema)
    have = source.select(**values).collect_schema()
    return source.select(
        (fitted(expression, have[name], wanted[name]) if (expression := values.get(name)) is not None else pl.lit(None))
        .cast(wanted[name])
        .alias(name)
        for name in wanted
    )


def check_rows(job: KeyedJob, source: pl.LazyFrame, mapping: StateMapping) -> Checked:
    """Check that every row of the source can be a row of state.

    Raises:
        KeyfoldError: as `as_state`; or rows lack a key, have a value that does not fit its column, or have the same key though
            the job keeps one row for each. Names the numbers of the first such rows, and the column.
    """
    values = _values(job, source, mapping)
    state = as_state(job, source, mapping)
    never_empty = [field.name for field in job.state.schema if not field.nullable or field.name in job.key]
    # Side by side: a value of the source that is NULL in the state did not fit.
    both = pl.concat(
        [state, source.select(**{f"#{name}": value for name, value in values.items()})], how="horizontal"
    ).with_row_index(_ROW, offset=1)
    faults = {
        **{f"no {name}": pl.col(name).is_null() & _given_empty(name, values) for name in never_empty},
        **{f"no {name}": pl.col(name).is_null() & stands_for_events for name, stands_for_events in _sums(job).items()},
        **{f"bad {name}": pl.col(name).is_null() & pl.col(f"#{name}").is_not_null() for name in values},
        **_of_events(job, values, mapping),
    }
    timers = [name for name in (DEADLINE, PROCESSING_DEADLINE) if name in job.state.schema.names]
    counted = both.select(
        pl.len().alias("rows"),
        # Count hashes: at a third of the cost, and wrong with a probability of 1 in 100,000 at ten million keys.
        key_hash(job.key).n_unique().alias("keys"),
        job.state.events.cast(pl.Int64).alias("events"),
        *(pl.col(name).count().alias(f"timers {name}") for name in timers),
        *(condition.sum().alias(name) for name, condition in faults.items()),
    ).collect(engine="streaming")
    counts = counted.row(0, named=True)
    wrong = {name: condition for name, condition in faults.items() if counts[name]}
    if wrong:
        raise InvalidData(_faults_of(job, both, wrong, counts))
    # If every row has its own key, no key has two rows. That is the usual case, and counting keys is most of the cost.
    if job.state.one_per_key is not None and counts["keys"] < counts["rows"]:
        _check_one_per_key(job, state.with_row_index(_ROW, offset=1).filter(job.state.one_per_key))
    return Checked(
        rows=counts["rows"],
        keys=counts["keys"] if counts["rows"] else 0,
        events=counts["events"] or 0,
        timers={name: counts[f"timers {name}"] for name in timers},
        left_empty=tuple(name for name in job.state.schema.names if name not in values),
    )


def private_in_state(job: KeyedJob) -> frozenset[str]:
    """Return the private columns of a job's state. A column of the events is private if it is private there."""
    private = job.private_of(job.state.schema)
    return frozenset(private - {DEADLINE, PROCESSING_DEADLINE} - (set(job.columns.names) - job.private))


def _values(job: KeyedJob, source: pl.LazyFrame, mapping: StateMapping) -> dict[str, pl.Expr]:
    """Return the expression for each column of state; columns that are not in the source are left out."""
    columns = source.collect_schema().names()
    unknown = [name for name in mapping.texts if name not in job.state.schema.names]
    if unknown:
        raise InvalidData(
            f"job {job.name} keeps no column {', '.join(unknown)}; its state has {', '.join(job.state.schema.names)}"
        )
    values = {name: pl.col(name) for name in job.state.schema.names if name in columns}
    values |= {name: _expression(job, name, text, source, mapping) for name, text in mapping.texts.items()}
    lacking = [field.name for field in job.state.schema if not field.nullable and field.name not in values]
    lacking += [name for name in job.key if name not in values and name not in lacking]
    if lacking:
        raise InvalidData(
            f"job {job.name}: its state needs {', '.join(lacking)}, which the source does not have; it has "
            f"{', '.join(columns)}; map it with --map {lacking[0]}=EXPRESSION"
        )
    return values


def _expression(job: KeyedJob, name: str, text: str, source: pl.LazyFrame, mapping: StateMapping) -> pl.Expr:
    try:
        expression = sql_expression(f"{mapping.option} {name}", text)
        source.select(expression).collect_schema()
    except pl.exceptions.PolarsError as error:
        reason, columns = str(error).splitlines()[0], ", ".join(source.collect_schema().names())
        raise InvalidData(
            f"{mapping.option} {name}={text}: {reason}; write SQL over the source's columns, {columns}"
        ) from None
    return expression.over(job.key) if mapping.is_by_key and expression.meta.root_names() else expression


def _sums(job: KeyedJob) -> dict[str, pl.Expr]:
    """Return the columns of sums and counts, each with the rows that must have it: without, they would begin anew in silence."""
    stored = job.state.aggregates
    if stored is None:
        return {}
    sums = dict[str, pl.Expr]()
    for aggregate, parts in stored.parts.items():
        lacks = (
            pl.col(stored.incomplete).list.contains(aggregate).fill_null(value=False)
            if stored.incomplete
            else pl.lit(value=False)
        )
        # Of no events a sum is 0; a part of another kind may be NULL.
        sums |= {part: stored.rows & ~lacks for part, value in parts.items() if _is_number(value)}
    return sums


def _of_events(job: KeyedJob, values: Mapping[str, pl.Expr], mapping: StateMapping) -> dict[str, pl.Expr]:
    """Return the columns that only waiting events have, each with the rows that stand for events and would lose its value."""
    stored = job.state.aggregates
    if stored is None:
        return {}
    mapped = {root for name in mapping.texts for root in values[name].meta.root_names()}
    names = [name for name in stored.of_events if name in values and name not in mapped - mapping.texts.keys()]
    return {f"lost {name}": stored.rows & pl.col(name).is_not_null() for name in names}


def _is_number(value: pl.Expr) -> bool:
    (only,) = pl.select(value).to_series()
    return isinstance(only, int | float | Decimal)


def _given_empty(name: str, values: Mapping[str, pl.Expr]) -> pl.Expr:
    return pl.col(f"#{name}").is_null() if name in values else pl.lit(value=True)


def _faults_of(job: KeyedJob, both: pl.LazyFrame, wrong: Mapping[str, pl.Expr], counts: Mapping[str, int]) -> str:
    kinds, private = polars_schema(job.state.schema), private_in_state(job)
    faults: list[str] = []
    for fault, condition in wrong.items():
        kind, _, name = fault.partition(" ")
        columns = [_ROW, f"#{name}"] if kind == "bad" else [_ROW]
        shown = both.filter(condition).select(columns).head(_FAULTS_SHOWN).collect(engine="streaming")
        if kind in ("no", "lost"):
            rows = f"{counted(counts[fault], 'row')} (row {', '.join(str(row) for row in shown[_ROW])})"
            faults.append(f"{name} is empty in {rows}, and may not be" if kind == "no" else _lost(job, name, rows))
        else:
            values = [(row, MASK if name in private else repr(value)) for row, value in shown.iter_rows()]
            rows = ", ".join(f"row {row}: {value}" for row, value in values)
            hint = "; say what the numbers are with --map" if isinstance(kinds[name], pl.Datetime) else ""
            faults.append(f"{name} is no {kinds[name]} in {counted(counts[fault], 'row')} ({rows}{hint})")
    return f"job {job.name}: rows that cannot be state: {'; '.join(faults)}; nothing was changed"


def _lost(job: KeyedJob, name: str, rows: str) -> str:
    parts = job.state.aggregates.columns.values() if job.state.aggregates else ()
    aggregates = ", ".join(column for columns in parts for column in columns)
    return (
        f"{name} is a column of waiting events alone, and would be lost in {rows}; the aggregates are in {aggregates}"
    )


def _check_one_per_key(job: KeyedJob, rows: pl.LazyFrame) -> None:
    """Check that no two of some numbered rows have the same key.

    Raises:
        KeyfoldError: names keys with several rows, and the rows.
    """
    # Count hashes first: grouping keeps the row numbers of all keys in memory.
    counts = rows.select(pl.len(), key_hash(job.key).n_unique().alias("keys")).collect(engine="streaming")
    count, keys = counts.row(0)
    if count == keys:
        return
    repeated = (
        rows.group_by(job.key).agg(pl.col(_ROW)).filter(pl.col(_ROW).list.len() > 1).head(_FAULTS_SHOWN)
    ).collect(engine="streaming")
    if not repeated.height:
        return  # two keys have the same hash
    repeated = masked(repeated, private_in_state(job))
    shown = "; ".join(
        f"{', '.join(str(value) for value in row[:-1])} has rows {', '.join(map(str, row[-1][:_FAULTS_SHOWN]))}"
        for row in repeated.sort(pl.col(_ROW).list.first()).iter_rows()
    )
    raise InvalidData(
        f"job {job.name} keeps at most one such row for each {', '.join(job.key)}, but {shown}; nothing was changed"
    )
