"""Determine what a change of a job requires: nothing, a move of its state, or a refresh; and migrate rows of state."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl

from keyfold.errors import IncompatibleState
from keyfold.keyed.generation.continuing import code_of_generation
from keyfold.keyed.generation.declaration_changes import code_differences, compare
from keyfold.keyed.generation.declaration_difference import Difference, said
from keyfold.keyed.generation.generations import Generation
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.rows.codec import polars_schema
from keyfold.state.changing.aggregate_changes import aggregate_changes

Verdict = Literal["free", "judge", "move", "refresh"]
_SAID: dict[Verdict, str] = {"free": "free", "judge": "yours to judge", "move": "a move", "refresh": "a refresh"}
_MOST_FIRST: tuple[Verdict, ...] = ("refresh", "move", "judge", "free")

_MOVES_FREELY = {
    "key_groups": "state is divided into the new number of key groups",
    "hash": "state is divided by the new hash",
    "delay": "it decides what is late from here on; events that were late before stay so",
    "then": "it counts from here on; rows that are written stay as they are",
    "counted": "state and rows have the same number; what becomes of columns is said there",
    "output": "state does not depend on it; what becomes of the table's columns is said there",
}
_REFRESHES = {
    "inputs": "it is read in another way",
    "source": "it is read in another way",
    "mode": "the table has another mode or key",
    "key": "state and tables are by another key",
    "contents": "state and rows were made with it",
}
_IS_NEEDED: tuple[Verdict, str] = "refresh", "events are counted, or rows told apart, by it or by what it replaces"
_NOT_NULL = " not null"
_OF_A_WHOLE = 2
"""Length of the path of an aggregate, of which longer ones are settings."""
_BEGINS = (
    "it begins at the job's position in its table, or at that table's beginning; events behind the watermark are late"
)


@dataclass(frozen=True)
class Change:
    """What differs from the declaration that the live generation was created with.

    Attributes:
        setting: the setting in the author's words, by argument: `where`, `aggregates: slowest`, `parameter NAME`.
        before, after: the old and the new value, as text; None where there is none.
        change: the change in words.
        verdict: what it requires; `judge` if a run goes on with it, and what it means is the author's to judge.
        why: the reason, in a line.
    """

    setting: str
    before: str | None
    after: str | None
    change: str
    verdict: Verdict
    why: str

    def __str__(self) -> str:
        return f"{said(self.setting, self.change)} ({_SAID[self.verdict]}: {self.why})"


@dataclass(frozen=True)
class Changes:
    """What differs from the declaration that the live generation was created with.

    Attributes:
        settings: what its author changed, by argument.
        effects: what else differs then, of what is read and stored.
    """

    settings: tuple[Change, ...]
    effects: tuple[Change, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """What all of them together require."""
        verdicts = {change.verdict for change in (*self.settings, *self.effects)}
        for verdict in _MOST_FIRST:
            if verdict in verdicts:
                return verdict
        return "free"


def changes_to(job: KeyedJob, generation: Generation) -> Changes:
    """Return what a job declares otherwise than its generation was created with, and what each change requires."""
    comparison = compare(generation.record, job)
    code = code_differences(code_of_generation(generation).code, comparison.code)
    settings = (_change(difference, job, generation) for difference in (*comparison.settings, *code))
    effects = (_effect(difference, job, generation) for difference in comparison.effects)
    # The columns of an operator's own, of events and of state, are one effect.
    return Changes(tuple(settings), tuple(dict.fromkeys(effects)))


def _change(difference: Difference, job: KeyedJob, generation: Generation) -> Change:
    meaning = _meaning(difference, job, generation)
    return Change(difference.setting, *difference.texts, difference.words, *meaning)


def _effect(difference: Difference, job: KeyedJob, generation: Generation) -> Change:
    """Return what a change has changed with it; of columns that are an operator's own, not which they are."""
    is_late = difference.section == "tables" and difference.path[0].startswith("late.")
    if not is_late and (job.operator is None or difference.section not in _PLACES):
        return _change(difference, job, generation)
    verdict, _ = _meaning(difference, job, generation)
    place = difference.setting.partition(":")[0] if is_late else _PLACES[difference.section]
    why = "rows that are there fit" if verdict != "refresh" else "rows that are there do not fit"
    return Change(place, None, None, "other columns", verdict, why)


_PLACES = {"events": "events of the step", "state": "state"}


def migrate(job: KeyedJob, generation: Generation) -> Callable[[pl.DataFrame], pl.DataFrame]:
    """Return the function that migrates rows of a generation's state to the job's version, one version after another.

    New columns that may be NULL are NULL, but for those of new aggregates (`aggregate_changes`).

    Raises:
        KeyfoldError: the job lacks the migration from one of the versions.
    """
    version = generation.record.declaration.state.version
    if lacking := _lacking(job, version):
        raise IncompatibleState(
            f"job {job.name} has no migration of its state from version {lacking[0]}: give it one "
            "(`State.migrations`), or start a new generation with --full-refresh"
        )

    aggregates = aggregate_changes(job, generation.record)

    def migrated(rows: pl.DataFrame) -> pl.DataFrame:
        for number in range(version, job.state.version):
            rows = job.state.migrations[number](rows)
        if aggregates is not None:
            rows = aggregates.converted(rows, job)
        columns = polars_schema(job.state.schema)
        new = [pl.lit(None, kind).alias(name) for name, kind in columns.items() if name not in rows.columns]
        return rows.with_columns(new).select(list(columns))

    return migrated


def _lacking(job: KeyedJob, version: int) -> list[int]:
    # A later version of the job wrote it: migrations do not lead back.
    if version > job.state.version:
        return [version]
    return [number for number in range(version, job.state.version) if number not in job.state.migrations]


def _version(job: KeyedJob, before: int, after: int) -> tuple[Verdict, str]:
    if lacking := _lacking(job, before):
        return "refresh", f"the job has no migration of its state from version {lacking[0]}"
    return "move", f"the job's migrations change rows of state from version {before} to {after}"


def _parameter(job: KeyedJob, name: str) -> tuple[Verdict, str]:
    if name in job.free_parameters:
        return "free", "no state and no row depends on it"
    if name in job.movable_parameters:
        return "move", "it counts from here on; rows that are written stay as they are"
    return "refresh", "state and rows were made with it"


def _meaning(difference: Difference, job: KeyedJob, generation: Generation) -> tuple[Verdict, str]:
    if difference.is_code:
        return "judge", "runs go on with it; `keyfold try` shows which rows it changes"
    if difference.section == "parameters":
        return _parameter(job, difference.path[0])
    if difference.section == "state" and difference.path == ("version",):
        return _version(job, int(difference.before or 0), int(difference.after or 0))
    return _whole(difference) or _of_columns(difference, job, generation) or _of_setting(difference, job, generation)


def _of_setting(difference: Difference, job: KeyedJob, generation: Generation) -> tuple[Verdict, str]:
    path = difference.path
    if difference.is_free:
        return "free", "no state and no row depends on it"
    if aggregate := _of_aggregate(difference, job, generation):
        return aggregate
    setting = path[0] if difference.section == "arguments" else path[-1] if path else difference.section
    if setting in _MOVES_FREELY:
        return "move", _MOVES_FREELY[setting]
    if setting == "state" and generation.record.declaration.state.version != job.state.version:
        return "move", "the job's migrations convert it"
    return "refresh", _REFRESHES.get(setting, "the meaning of state and rows depends on it")


def _of_aggregate(difference: Difference, job: KeyedJob, generation: Generation) -> tuple[Verdict, str] | None:
    """Return what an aggregate requires that is new or gone; None of anything else."""
    changes, path = aggregate_changes(job, generation.record), difference.path
    if difference.section != "arguments" or changes is None or path[0] != "of":
        return None
    is_whole = len(path) == _OF_A_WHOLE
    if is_whole and difference.before is None:
        return ("move", changes.why_new(path[1])) if path[1] in changes.new else _IS_NEEDED
    if is_whole and difference.after is None:
        return ("move", "state and later rows leave it out") if path[1] in changes.gone else _IS_NEEDED
    return "refresh", "state and rows were made with the other one; give the new one a name of its own for a move"


def _of_columns(difference: Difference, job: KeyedJob, generation: Generation) -> tuple[Verdict, str] | None:
    """Return what changed columns require; None of anything else."""
    section, before, after = difference.section, difference.before, difference.after
    if section not in ("tables", "events", "state") or not (isinstance(before, dict) and isinstance(after, dict)):
        return None
    changed = difference.path[0] if section == "tables" else section
    return _columns(job, generation, changed, before["of"], after["of"])


def _whole(difference: Difference) -> tuple[Verdict, str] | None:
    """Return what an input or a table requires that is new or gone; None of anything else."""
    if difference.before is not None and difference.after is not None:
        return None
    place = difference.path if difference.section == "arguments" else (difference.section, *difference.path)
    is_new = difference.before is None
    match place:
        case ("inputs", _):
            return "move", _BEGINS if is_new else "it is no longer read"
        case ("tables", _):
            return "move", "it begins empty" if is_new else "it stays behind with the old generation"
    return None


def _columns(job: KeyedJob, generation: Generation, part: str, before: Any, after: Any) -> tuple[Verdict, str]:
    aggregates = aggregate_changes(job, generation.record) if part in ("state", "events") else None
    may_go = before if part not in ("state", "events") else aggregates.gone_columns if aggregates else ()
    gone = [name for name in before if name not in after and name not in may_go]
    # Types without `not null`: NULLs in rows of state are found when they are rewritten (`writing_state.rows_of_state`).
    retyped = [
        name
        for name in before
        if name in after
        and _type(before[name]) != _type(after[name])
        and not (aggregates and aggregates.is_order(name))
    ]
    new = [name for name in after if name not in before]
    strict = [
        name
        for name in after
        if after[name].endswith(_NOT_NULL)
        and not before.get(name, "").endswith(_NOT_NULL)
        and (name in new or part not in ("state", "events"))
    ]
    if part == "state" and generation.record.declaration.state.version != job.state.version:
        return "move", "the job's migrations convert it"
    if gone or retyped or strict:
        changed = [*(f"{name} is gone" for name in gone), *(f"{name} is of another type" for name in retyped)]
        changed += [f"{name} is new and may not be empty" for name in strict if name in new]
        changed += [f"{name} may not be empty any more" for name in strict if name not in new]
        hint = "; raise the version of State and give it a migration" if part == "state" else ""
        return "refresh", ", ".join(changed) + hint
    left = [name for name in before if name not in after]
    if left and not new:
        return "move", f"{', '.join(left)} is left out"
    if part == "events":
        return "move", f"new: {', '.join(new)}; earlier late rows lack it" if new else "the same columns"
    return "move", f"new: {', '.join(new)}, empty in existing rows" if new else "the same columns in another order"


def _type(text: str) -> str:
    return text.removesuffix(_NOT_NULL)
