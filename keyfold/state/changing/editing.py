"""Correct or remove the state of given keys, and record who did it, when and why.

An edit is a batch of the live generation's journal that reads no events and writes to no table. Its plan says what is done, and its
commit record names the manifests of the changed state partitions. So the state before it stays readable as any other batch's.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

import numpy as np
import polars as pl

from keyfold.errors import Damaged, InvalidData, NotFound, counted
from keyfold.keyed.calling.slots import SLOT, Slots, distinct, partition_labels, slots_of
from keyfold.keyed.calling.step_call import count
from keyfold.keyed.execution.batches import Batches
from keyfold.keyed.execution.blobs import partition_numbers, report_of
from keyfold.keyed.execution.work import BatchResult
from keyfold.keyed.generation.batch_records import KeyedPlan
from keyfold.keyed.generation.continuing import check_generation
from keyfold.keyed.generation.generations import Generation, live_generation
from keyfold.keyed.generation.manifests import read_manifests
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.rows.codec import conform, polars_schema
from keyfold.keyed.state_parts.manifest import Manifest
from keyfold.keyed.state_parts.partition_state import PartitionState
from keyfold.lakehouse import Lakehouse, exclusive
from keyfold.privacy import describe_error, masked
from keyfold.runners import Runners
from keyfold.state.changing.audit import Author, record_edit
from keyfold.state.changing.state_rewriting import ChangeRows, filled, last_batch
from keyfold.state.making.sources import fitted
from keyfold.state.making.staging import private_in_state
from keyfold.state.reading.reader import read_state
from keyfold.state.rows.keys import Key, WantedKeys, wanted_keys
from keyfold.state.rows.sql_expressions import sql_expression


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
    """The result of an edit, or what it would be.

    Attributes:
        job: name of the job.
        batch: the batch of the live generation's journal that is the edit; None without `yes`.
        rows_before, rows_after: rows of the keys before and after.
    """

    job: str
    batch: int | None
    rows_before: pl.DataFrame
    rows_after: pl.DataFrame


def edit_state(lakehouse: Lakehouse, job: KeyedJob, edit: Edit, *, yes: bool = False, runners: Runners) -> Edited:
    """Correct or remove the state of given keys, by a batch of its own; the state before it stays readable as batch before.

    Without `yes`, it only returns the rows as they are and as they would be. The job's tables stay as they are. Events in removed rows count as never read. An edit that is cut off changes nothing.

    Raises:
        KeyfoldError: no key was given, none of them has state, a correction is invalid or does not fit its column, the last
            run was interrupted, the live generation is not of this version of the job, or a run has locked the job; nothing is
            changed.
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
        kinds = polars_schema(job.state.schema)
        before = read_state(lakehouse, job, keys=edit.keys).polars()
        before = before.select(pl.col(name).cast(kind) for name, kind in kinds.items())
        if not before.height:
            raise NotFound(f"job {job.name}: none of these keys has state in {live.name}")
        try:
            after = filled(change(before), job.state.schema)
        except (pl.exceptions.PolarsError, ValueError) as error:
            raise InvalidData(
                f"job {job.name}: the corrections do not give its state: {describe_error(error, job.private)}; nothing "
                "was changed"
            ) from None
        if not yes:
            return Edited(job.name, None, before, after)
        check_generation(live, job)
        what, changed = (
            "corrected" if edit.corrections else "removed",
            before.select(job.key).unique(maintain_order=True),
        )
        plan = _plan(
            live, done.batch, f"{counted(changed.height, 'key')} {what} by {edit.author.who}: {edit.author.why}"
        )
        # In place of an edit that was cut off, which has changed nothing.
        live.journal.withdraw()
        live.journal.write_plans([plan])
        slots = distinct(np.sort(slots_of(job, before)))
        exchange = partial(_exchange, job, live, change, slots)
        Batches(runners, lakehouse, job, live, lambda: None, exchange=exchange).work()
        live.record_checksums()
    keys = masked(changed, private_in_state(job)).to_dicts()
    # Outside of the job's lock: the table of edits has a lock of its own.
    record_edit(lakehouse, edit.author, what, job.name, keys, {"state": before.height}, live.name)
    return Edited(job.name, plan.batch, before, after)


def _plan(live: Generation, last: int, edit: str) -> KeyedPlan:
    """Return the plan of an edit after the last batch: it stands where that batch has come to."""
    before = live.journal.plan(last)
    if before is None:
        raise Damaged(f"job {live.record.job}, {live.name}: the plan of batch {last} is gone; restore it from a backup")
    return before.model_copy(
        update={
            "batch": last + 1,
            "run": last + 1,
            "batches": 1,
            "planned_at": datetime.now(UTC),
            "inputs": tuple(one.model_copy(update={"files": ()}) for one in before.inputs),
            "seed": None,
            "edit": edit,
            "clock": before.clock.model_copy(update={"previous_watermark": before.clock.watermark, "advanced_by": ""}),
            "rows_before": 0,
            "rows": 0,
            "rows_of_run": 0,
        }
    )


def _exchange(
    job: KeyedJob, live: Generation, change: ChangeRows, slots: Slots, plan: KeyedPlan, files: Mapping[int, str]
) -> BatchResult:
    """Change the rows of some slots, in this process: an edit is of few keys, and reads no other partitions' parts."""
    result, had, has = BatchResult(), 0, 0
    labels = np.array(partition_labels(live.partitions))[partition_numbers(slots, live.partitions)]
    for label, packed in read_manifests(live.manifests, files).items():
        old, mine = Manifest.unpack(packed), slots[labels == label]
        if not mine.size:
            result.report += report_of(0, 0, old)
            continue
        state = PartitionState(job, live.parts, old, plan.batch)
        before = state.rows(mine)
        after = filled(conform(change(before.drop(SLOT)), job.state.schema, "changed state"), job.state.schema)
        after = after.with_columns(pl.Series(SLOT, slots_of(job, after))).sort(SLOT, maintain_order=True)
        open_change = count(after, job.state.events) - count(before, job.state.events)
        state.change(before, after, after.clear(), open_change)
        new = state.end()
        result.report += report_of(0, open_change, new)
        result.dropped += sorted(old.files - new.files)
        result.manifests[label] = new.pack() if new.parts else None
        had, has = had + before.height, has + after.height
    result.edited = f"{counted(has, 'row')} of state in place of {had:,}"
    return result


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
