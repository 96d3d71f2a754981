"""Correct or remove the state of given keys, and record who did it, when and why.

An edit is a batch of the live generation's journal that reads no events and writes to no table. Its plan says what is done, and its
commit record names the manifests of the changed state partitions. So the state before it stays readable as any other batch's.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import polars as pl

from keyfold.errors import Damaged, InvalidData, NotFound, counted
from keyfold.journal.audit import Author, record_edit
from keyfold.keyed.calling.slots import distinct, slots_of
from keyfold.keyed.execution.batches import Batches
from keyfold.keyed.execution.writing_state import ChangeRows, changed_state
from keyfold.keyed.generation.batch_records import KeyedPlan
from keyfold.keyed.generation.continuing import check_generation, complete_batch
from keyfold.keyed.generation.generations import Generation, live_generation
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.rows.codec import empty, polars_schema
from keyfold.lakehouse import Lakehouse
from keyfold.privacy import masked
from keyfold.runners import Runners
from keyfold.state.making.mapping import StateMapping, as_state, check_rows, private_in_state
from keyfold.state.reading.reader import read_state
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
    corrections = _corrections(job, edit.corrections)
    change = _change(job, wanted, corrections)
    with lakehouse.job(job.name).exclusive(f"job {job.name}"):
        live = live_generation(lakehouse, job.name)
        if live is None:
            raise NotFound(f"job {job.name} has never run: it has no state")
        last = complete_batch(live)
        kinds = polars_schema(job.state.schema)
        before = read_state(lakehouse, job, keys=edit.keys).polars()
        before = before.select(pl.col(name).cast(kind) for name, kind in kinds.items())
        if not before.height:
            raise NotFound(f"job {job.name}: none of these keys has state in {live.name}")
        if corrections.texts:
            check_rows(job, before.lazy(), corrections)
        after = change(before)
        if not yes:
            return Edited(job.name, None, before, after)
        check_generation(live, job)
        text, changed = (
            "corrected" if edit.corrections else "removed",
            before.select(job.key).unique(maintain_order=True),
        )
        plan = plan_of_edit(
            live, last.batch, f"{counted(changed.height, 'key')} {text} by {edit.author.who}: {edit.author.why}"
        )
        # In place of an edit that was cut off, which has changed nothing.
        live.journal.withdraw()
        live.journal.write_plans([plan])
        slots = distinct(np.sort(slots_of(job, before)))
        tasks = changed_state(job, live, slots, change)
        edited = f"{counted(after.height, 'row')} of state in place of {before.height:,}"
        Batches(runners, lakehouse, job, live, tasks=tasks, edited=edited).run_planned(of_earlier_run=True)
    keys = masked(changed, private_in_state(job)).to_dicts()
    # Outside of the job's lock: the table of edits has a lock of its own.
    record_edit(lakehouse, edit.author, text, job.name, keys, {"state": before.height}, live.name)
    return Edited(job.name, plan.batch, before, after)


def plan_of_edit(live: Generation, last: int, edit: str) -> KeyedPlan:
    """Return the plan of an edit after the last batch, which reads no events: it stands where that batch has come to."""
    before = live.journal.plan(last)
    if before is None:
        raise Damaged(f"job {live.record.job}, {live.name}: the plan of batch {last} is gone; restore it from a backup")
    return before.model_copy(
        update={
            "batch": last + 1,
            "run": last + 1,
            "batches": 1,
            "planned_at": datetime.now(UTC),
            "inputs": tuple(input_.model_copy(update={"files": ()}) for input_ in before.inputs),
            "seed": None,
            "edit": edit,
            "clock": before.clock.model_copy(update={"previous_watermark": before.clock.watermark, "advanced_by": ""}),
            "rows": 0,
        }
    )


def _change(job: KeyedJob, wanted: WantedKeys, corrections: StateMapping) -> ChangeRows:
    """Make the function that changes the rows of the wanted keys, and no others."""

    def change(rows: pl.DataFrame) -> pl.DataFrame:
        edited = wanted.of(rows)
        if not edited.height:
            return rows
        others = rows.join(edited.select(job.key).unique(), on=list(job.key), how="anti")
        return pl.concat([others, as_state(job, edited.lazy(), corrections).collect()]) if corrections.texts else others

    return change


def _corrections(job: KeyedJob, texts: Mapping[str, str]) -> StateMapping:
    """Check corrections before the job is locked."""
    own = [name for name in job.state.schema.names if name not in job.key]
    if unknown := [name for name in texts if name not in own]:
        raise InvalidData(
            f"job {job.name}: {', '.join(unknown)} cannot be set; the state's own columns are {', '.join(own)}"
        )
    # An aggregate is of its key: how many keys a frame has depends on the state partitions.
    corrections = StateMapping(texts, "--set", is_by_key=True)
    as_state(job, empty(job.state.schema).lazy(), corrections)
    return corrections
