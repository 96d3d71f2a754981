"""Determine what a change of a job requires: nothing, a move of its state, or a refresh; and migrate rows of state."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl

from keyfold.errors import IncompatibleState
from keyfold.keyed.generation.fingerprint import fixed_settings
from keyfold.keyed.generation.generations import Generation
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.rows.codec import polars_schema

Verdict = Literal["free", "move", "refresh"]

_MOVES_FREELY = {
    "key_groups": "state is divided into the new number of key groups",
    "hash": "state is divided by the new hash",
    "delay": "it decides what is late from here on; events that were late before stay so",
}
_PARAMETERS_OF_THE_ENGINE = ("key_groups", "watermark_delay", "idle_timeout")
"""Parameters that are settings of the engine; state can be moved to any of their values."""


@dataclass(frozen=True)
class Change:
    """A setting that differs from the live generation's birth record.

    Attributes:
        setting: its name, as in the birth record; a parameter as `parameter NAME`.
        before, after: the old and the new value.
        verdict: what the change requires.
        why: the reason, in a line.
    """

    setting: str
    before: Any
    after: Any
    verdict: Verdict
    why: str


def changes_to(job: KeyedJob, generation: Generation) -> tuple[Change, ...]:
    """Return the settings of a job that differ from a generation's birth record, with what each change requires."""
    born, now = generation.record["fixed"], fixed_settings(job)
    changes: list[Change] = []
    for setting in [*born, *(name for name in now if name not in born)]:
        before, after = born.get(setting), now.get(setting)
        if setting == "parameters":
            changes += _parameters(job, before or {}, dict(job.parameters))
        elif before != after and setting != "schema_version":
            changes.append(Change(setting, before, after, *_meaning(job, generation, setting, before, after)))
    before, after = born.get("schema_version"), job.state.version
    if before != after:
        changes.append(Change("schema_version", before, after, *_version(job, before, after)))
    return tuple(changes)


def verdict_of(changes: tuple[Change, ...]) -> Verdict:
    """Return what all changes together require."""
    verdicts = {change.verdict for change in changes}
    if "refresh" in verdicts:
        return "refresh"
    return "move" if "move" in verdicts else "free"


def migrate(job: KeyedJob, generation: Generation) -> Callable[[pl.DataFrame], pl.DataFrame]:
    """Return the function that migrates rows of a generation's state to the job's version, one version after another.

    New columns that may be NULL are NULL.

    Raises:
        KeyfoldError: the job lacks the migration from one of the versions.
    """
    version = int(generation.record["fixed"].get("schema_version", job.state.version))
    if lacking := _lacking(job, version):
        raise IncompatibleState(
            f"job {job.name} has no migration of its state from version {lacking[0]}: give it one "
            "(`State.migrations`), or start a new generation with --full-refresh"
        )

    def migrated(rows: pl.DataFrame) -> pl.DataFrame:
        for number in range(version, job.state.version):
            rows = job.state.migrations[number](rows)
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


def _parameters(job: KeyedJob, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    changes: list[Change] = []
    for name in [*before, *(name for name in after if name not in before)]:
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        meaning: tuple[Verdict, str]
        if name in job.free_parameters:
            meaning = "free", "no state and no row depends on it"
        elif name in job.movable_parameters or name in _PARAMETERS_OF_THE_ENGINE:
            meaning = "move", "it counts from here on; rows that are written stay as they are"
        else:
            meaning = "refresh", "state and rows were made with it"
        changes.append(Change(f"parameter {name}", old, new, *meaning))
    return changes


def _meaning(job: KeyedJob, generation: Generation, setting: str, before: Any, after: Any) -> tuple[Verdict, str]:
    if setting in _MOVES_FREELY:
        return "move", _MOVES_FREELY[setting]
    if setting == "tables":
        return _tables(before or {}, after or {})
    if setting == "inputs" and before and after:
        return _inputs(before, after)
    if setting.startswith("columns of "):
        return _columns(job, generation, setting.removeprefix("columns of "), before, after)
    return "refresh", "the meaning of state and rows depends on it"


def _tables(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Verdict, str]:
    if changed := [name for name in before if name in after and before[name] != after[name]]:
        return "refresh", f"{', '.join(changed)} has another mode or key"
    gone, new = ([name for name in one if name not in other] for one, other in ((before, after), (after, before)))
    effects = [f"{', '.join(new)} begins empty"] if new else []
    effects += [f"{', '.join(gone)} stays behind with the old generation"] if gone else []
    return "move", "; ".join(effects)


def _inputs(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Verdict, str]:
    in_both = [name for name in before if name in after and before[name] != after[name]]
    delayed = [name for name in in_both if _without_delay(before[name]) == _without_delay(after[name])]
    if changed := [name for name in in_both if name not in delayed]:
        return "refresh", f"{', '.join(changed)} is read in another way"
    gone, new = ([name for name in one if name not in other] for one, other in ((before, after), (after, before)))
    begins = (
        "begins at the job's position in its table, or at that table's beginning; events behind the watermark are late"
    )
    effects = [f"{', '.join(new)} {begins}"] if new else []
    effects += [f"{', '.join(gone)} is no longer read"] if gone else []
    effects += [f"the delay of {', '.join(delayed)}: {_MOVES_FREELY['delay']}"] if delayed else []
    return "move", "; ".join(effects)


def _without_delay(one: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in one.items() if name != "delay"}


def _columns(job: KeyedJob, generation: Generation, what: str, before: Any, after: Any) -> tuple[Verdict, str]:
    if before is None or after is None:
        return "move", "with its table"
    gone = [name for name in before if name not in after]
    # Types without `not null`: NULLs in rows are found when they are rewritten (`state_rewriting.filled`).
    retyped = [name for name in before if name in after and before[name].split()[0] != after[name].split()[0]]
    new = [name for name in after if name not in before]
    strict = [name for name in new if after[name].endswith("not null")]
    if what == "state" and int(generation.record["fixed"].get("schema_version", 1)) != job.state.version:
        return "move", "the job's migrations convert it"
    if gone or retyped or strict:
        changed = [*(f"{name} is gone" for name in gone), *(f"{name} is of another type" for name in retyped)]
        changed += [f"{name} is new and may not be empty" for name in strict]
        hint = "; raise the version of State and give it a migration" if what == "state" else ""
        return "refresh", ", ".join(changed) + hint
    if what == "events":
        return "move", f"new: {', '.join(new)}; earlier late rows lack it" if new else "the same columns"
    return "move", f"new: {', '.join(new)}, empty in existing rows" if new else "the same columns in another order"
