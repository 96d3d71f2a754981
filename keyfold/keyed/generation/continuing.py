"""Decide whether a job can continue its generation, whether that is whole, and record from which batch on its functions have other code.

HOME/jobs/<job>/<generation>/code.json   the code of the last run, where it is not that which the generation was created with
"""

from collections.abc import Mapping
from dataclasses import replace

from deltalake import DeltaTable
from pydantic import ValidationError

from keyfold.errors import IncompatibleState, KeyfoldError, NotFound
from keyfold.journal.agreement import check_tables, has_taken_all
from keyfold.keyed.generation.batch_records import KeyedDone
from keyfold.keyed.generation.declaration import FunctionCode, declaration_of
from keyfold.keyed.generation.declaration_changes import code_differences, compare
from keyfold.keyed.generation.declaration_difference import Difference
from keyfold.keyed.generation.generation_record import RECORD
from keyfold.keyed.generation.generations import Generation
from keyfold.keyed.job.contract import KeyedJob
from keyfold.storage.storage_path import DamagedError
from keyfold.validation import Record

_CODE = "code.json"
_COUNTED = {"where", "explode", "conserved"}
"""Arguments by which conservation counts all events that were ever read."""


class CodeRecord(Record):
    """The code that a generation's batches have.

    Attributes:
        since: the first batch with this code.
        code: the functions that the job was given, by label.
        change: what changed in it, as text; empty if it is what the generation was created with.
    """

    since: int = 0
    code: dict[str, FunctionCode]
    change: str = ""


def check_generation(generation: Generation, job: KeyedJob) -> Mapping[str, FunctionCode]:
    """Check that a job can continue a generation: it may differ in the code of its functions, and in what is free.

    Returns:
        The code of its functions, by label, for `record_code`.

    Raises:
        IncompatibleState: a setting differs; says what changed, and the remedy.
    """
    comparison = compare(generation.record, job)
    all_ = (*comparison.settings, *comparison.effects)
    if any(not _may_differ(difference, job) for difference in all_):
        refused = [difference for difference in comparison.settings if not _may_differ(difference, job)]
        changed = refused or comparison.effects
        raise IncompatibleState(
            f"job {job.name} is declared otherwise than {generation.name} was created with: {'; '.join(map(str, changed))}. Set it "
            f"back; or ask what it takes (`keyfold plan {job.name}`): to move the state, or to try it on history and read all "
            "events again with --full-refresh"
        )
    return comparison.code


def declared_anew(generation: Generation, job: KeyedJob) -> Generation:
    """Return a generation as if it was created with what a job declares now, if that changes nothing that is read, stored or counted.

    A run cannot continue it so: its open state is of the earlier declaration. It can once all of that was computed again.
    """
    comparison = compare(generation.record, job)
    refused = [difference for difference in comparison.settings if not _may_differ(difference, job)]
    is_stored = any(difference.section != "arguments" or _COUNTED & {*difference.path} for difference in refused)
    if not refused or comparison.effects or is_stored:
        return generation
    return replace(generation, record=generation.record.model_copy(update={"declaration": declaration_of(job)}))


def with_last_declaration(generation: Generation) -> Generation:
    """Return a generation with the declaration that its last batch has recorded, after writing it down. The caller holds the job's lock."""
    last = generation.journal.last_done()
    declared = last.replaced.declaration if last is not None and last.replaced is not None else None
    if declared is None or declared == generation.record.declaration:
        return generation
    record = generation.record.model_copy(update={"declaration": declared})
    (generation.folder / RECORD).write_json(record.model_dump(mode="json"))
    return replace(generation, record=record)


def _may_differ(difference: Difference, job: KeyedJob) -> bool:
    if difference.section == "parameters":
        # Also where it was not free when the generation was created.
        return difference.path[0] in job.free_parameters
    return difference.is_free


def agreeing_tables(generation: Generation, subject: str, remedy: str) -> tuple[dict[str, DeltaTable], bool]:
    """Check that a generation's tables agree with its journal; returns them, and whether they have all commits of the last batch.

    Args:
        subject: describes the generation, for messages.
        remedy: what to do if they do not agree.

    Raises:
        KeyfoldError: a table is gone or is another one, or does not have the batches that the journal has committed.
    """
    tables = {name: generation.table(name) for name in generation.record.table_ids}
    opened = check_tables(generation.journal, tables, generation.ids, generation.identity, subject, remedy)
    return opened, has_taken_all(generation.journal.last_done(), opened, generation.identity)


def complete_batch(generation: Generation) -> KeyedDone:
    """Return the last commit record of a generation, after a check that its last run is complete.

    Raises:
        KeyfoldError: it has no batch, its last run was interrupted, or a table is gone or does not agree with the journal.
    """
    job, last = generation.record.job, generation.journal.last_done()
    subject, run = f"job {job}, {generation.name}", f"run the job once first: `keyfold run {job}`"
    if last is None:
        raise NotFound(f"{subject}: no batch is done yet; {run}")
    # An edit that was cut off has changed nothing.
    if any(not plan.edit for plan in generation.journal.pending()):
        raise KeyfoldError(f"{subject}: its last run was cut off; {run}")
    # Without this check, the rows of a missing table would be lost silently.
    if not agreeing_tables(generation, subject, f"start over: `keyfold run {job} --full-refresh`")[1]:
        # A run makes the missing commits from the commit record. Here their rows would be lost.
        raise KeyfoldError(f"{subject}: a table lacks its last batch, which the next run commits; {run}")
    return last


def code_of_generation(generation: Generation) -> CodeRecord:
    """Return the code that the last run of a generation had.

    Raises:
        DamagedError: the record of it is damaged.
    """
    file = generation.folder / _CODE
    try:
        return CodeRecord.model_validate(file.read_json(f"remove {file}: the next run writes it again"))
    except FileNotFoundError:
        return CodeRecord(code=generation.record.declaration.code)
    except ValidationError:
        raise DamagedError(f"{file} is damaged; remove it: the next run writes it again") from None


def record_code(generation: Generation, code: Mapping[str, FunctionCode]) -> str:
    """Record the code of a run, if it is not that of the last one; returns what changed from the next batch on, empty for nothing.

    The caller must hold the job's lock.
    """
    last_record, last = generation.journal.last_done(), code_of_generation(generation)
    following = last_record.batch + 1 if last_record else 0
    changed = code_differences(last.code, code)
    if changed:
        last = CodeRecord(since=following, code=dict(code), change="; ".join(map(str, changed)))
        (generation.folder / _CODE).write_json(last.model_dump(mode="json"))
    # A run that was killed before its first batch has recorded the same.
    return last.change if last.since == following else ""
