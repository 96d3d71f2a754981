"""Correct or remove the state of given keys, in a new generation, and record who did it, when and why."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import polars as pl

from keyfold.errors import InvalidData, NotFound
from keyfold.keyed.calling.step_call import count
from keyfold.keyed.generation.generations import live_generation
from keyfold.keyed.generation.going_live import go_live
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.rows.codec import polars_schema
from keyfold.lakehouse import Lakehouse, exclusive
from keyfold.privacy import describe_error, masked
from keyfold.runners import Runners
from keyfold.state.changing.audit import Author, record_edit
from keyfold.state.changing.state_rewriting import ChangeRows, filled, last_batch, origin_after, rewrite
from keyfold.state.making.sources import fitted
from keyfold.state.making.staging import private_in_state
from keyfold.state.reading.reader import read_state
from keyfold.state.rows.expressions import sql_expression
from keyfold.state.rows.keys import Key, WantedKeys, wanted_keys


@dataclass(frozen=True)
class Edit:
    """An edit of the state of some keys.

    Attributes:
        keys: the keys, as `read_state` takes them.
        corrections: SQL expressions over the columns of state, by column; empty removes the keys' rows.
        author: who makes the edit, and why.
    """

    keys: tuple[Key, ...]
    corrections: Mapping[str, str]
    author: Author


@dataclass(frozen=True)
class Edited:
    """The result of an edit, or of a dry run.

    Attributes:
        job: name of the job.
        generation: the generation that is live now; None for a dry run.
        rows_before, rows_after: rows of the keys before and after.
        rows_of_state: number of rows of the whole state now.
    """

    job: str
    generation: str | None
    rows_before: pl.DataFrame
    rows_after: pl.DataFrame
    rows_of_state: int


def edit_state(lakehouse: Lakehouse, job: KeyedJob, edit: Edit, *, dry_run: bool = False, runners: Runners) -> Edited:
    """Correct or remove the state of given keys in a new generation, and make it live. The old one stays, until `prune`.

    The new generation keeps the rows of the job's tables. Events in removed rows count as never read.

    Raises:
        KeyfoldError: no key was given, none of them has state, a correction is invalid or does not fit its column, the last
            run was interrupted, or a run has locked the job; nothing is changed.
    """
    wanted = wanted_keys(edit.keys, job.key, job.state.schema)
    if wanted is None:
        raise InvalidData(f"job {job.name}: no keys are given; name them with --key ({', '.join(job.key)})")
    change = _change(job, wanted, edit.corrections)
    with exclusive(lakehouse.job(job.name), f"job {job.name}"):
        live = live_generation(lakehouse, job.name)
        if live is None:
            raise NotFound(f"job {job.name} has never run: it has no state")
        done = last_batch(job, live)
        before = rows_of(lakehouse, job, edit.keys)
        if not before.height:
            raise NotFound(f"job {job.name}: none of these keys has state in {live.name}")
        try:
            after = filled(change(before), job.state.schema)
        except (pl.exceptions.PolarsError, ValueError) as error:
            raise InvalidData(
                f"job {job.name}: the corrections do not give its state: {describe_error(error, job.private)}; nothing "
                "was changed"
            ) from None
        if dry_run:
            return Edited(job.name, None, before, after, done.open_events)
        # Events of removed rows come to no output: the conservation check must not expect them.
        gone = count(before, job.state.events) - count(after, job.state.events)
        what = "corrected" if edit.corrections else "removed"
        edited = masked(before.select(job.key).unique(maintain_order=True), private_in_state(job))
        keys = json.dumps(edited.to_dicts(), default=str)
        rewritten = rewrite(
            lakehouse,
            job,
            live,
            done,
            origin_after("edit", live, f"{what} {before.select(job.key).n_unique()} keys", -gone),
            change,
            events=done.total_events - gone,
            runners=runners,
        )
        go_live(lakehouse, rewritten.generation)
    rows = json.dumps({"state": before.height})
    generation = rewritten.generation.name
    # Outside of the job's lock: the table of edits has a lock of its own.
    record_edit(lakehouse, edit.author, what=what, of=job.name, generation=generation, keys=keys, rows=rows)
    return Edited(job.name, generation, before, after, rewritten.rows)


def rows_of(lakehouse: Lakehouse, job: KeyedJob, keys: Iterable[Key]) -> pl.DataFrame:
    """Return the rows of state of some keys, in the job's columns."""
    rows = read_state(lakehouse, job, keys=tuple(keys)).polars()
    return rows.select(pl.col(name).cast(kind) for name, kind in polars_schema(job.state.schema).items())


def _change(job: KeyedJob, wanted: WantedKeys, corrections: Mapping[str, str]) -> ChangeRows:
    """Make the function that changes the rows of the wanted keys, and no others."""
    fixed = [name for name in corrections if name in job.key]
    unknown = [name for name in corrections if name not in job.state.schema.names]
    if fixed or unknown:
        columns = ", ".join(name for name in job.state.schema.names if name not in job.key)
        raise InvalidData(
            f"job {job.name}: {', '.join(fixed or unknown)} cannot be set; the state's own columns are {columns}"
        )
    kinds = polars_schema(job.state.schema)
    expressions = {}
    for name, text in corrections.items():
        try:
            expression = sql_expression(f"--set {name}", text)
            has_columns = bool(expression.meta.root_names())
            # An aggregate is of its key: how many keys a frame has depends on the state partitions.
            expressions[name] = expression.over(job.key) if has_columns else expression
            # Apply it to an empty frame, or a constant to one row, to report a wrong name or value before Spark starts.
            _corrected(pl.DataFrame(schema=kinds).clear(0 if has_columns else 1), {name: expressions[name]})
        except (pl.exceptions.PolarsError, ValueError) as error:
            raise InvalidData(
                f"--set {name}={text}: {str(error).splitlines()[0]}; write SQL that gives {kinds[name]}, over "
                f"{', '.join(kinds)}"
            ) from None

    def change(rows: pl.DataFrame) -> pl.DataFrame:
        theirs = wanted.of(rows)
        if not theirs.height:
            return rows
        rest = rows.join(theirs.select(job.key).unique(), on=list(job.key), how="anti")
        if not expressions:
            return rest
        return pl.concat([rest, _corrected(theirs, expressions)])

    return change


def _corrected(rows: pl.DataFrame, expressions: Mapping[str, pl.Expr]) -> pl.DataFrame:
    """Apply corrections to rows; each is computed from the values before the edit.

    Raises:
        ValueError: a correction does not fit the type of its column.
    """
    given = rows.with_columns(**expressions).select(*expressions)
    fits = given.select(
        fitted(pl.col(name), kind, rows.schema[name]).alias(name) for name, kind in given.schema.items()
    )
    # `fitted` returns NULL for a value that does not fit.
    for name in given.columns:
        if fits[name].null_count() > given[name].null_count():
            raise ValueError(f"{name} is no {rows.schema[name]} in some rows")
    return rows.with_columns(fits)
