"""Change state, correct events or erase rows by hand, with a record of who and why."""

import getpass
from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Self

from pydantic import Field, model_validator

from keyfold.errors import Misconfigured
from keyfold.keyed.generation.live_record import live_generation_name
from keyfold.lakehouse import Lakehouse
from keyfold.project import project_jobs, project_streams
from keyfold.runs.correcting import Corrected, correct
from keyfold.runs.erasing import Erased, Erasure, erase
from keyfold.runs.jobs import run_summary, run_text
from keyfold.runs.quarantining import quarantine
from keyfold.runs.tools.tool import DryRun, JobTool, Option, Outcome, StateTool, Work
from keyfold.state.changing.audit import Author
from keyfold.state.changing.editing import Edit, Edited, edit_state
from keyfold.state.rows.lines import json_lines

_Who = Annotated[str, Option("--who")]
_Why = Annotated[str, Option("--why")]
_WHO = "Who makes the change, for the audit record [default: the current user]."
_WHY = "The reason, for the audit record."
_DRY = "Report what would change; change nothing."


class EditKeys(JobTool):
    """Correct or remove the state of named keys, in a new generation."""

    tool = "state_edit"

    keys: Annotated[list[str], Option("--key", "KEY")] = Field(
        min_length=1, description="A key; a JSON object if it has several columns. May be repeated."
    )
    why: _Why = Field(description=_WHY)
    corrections: Annotated[dict[str, str], Option("--set", "COLUMN=EXPR")] = Field(
        default_factory=dict, description="A column's new value, as SQL over the state's columns."
    )
    remove: Annotated[bool, Option("--remove")] = Field(False, description="Remove the keys' state.")
    who: _Who = Field(default_factory=getpass.getuser, description=_WHO)
    dry_run: DryRun = Field(False, description=_DRY)

    @model_validator(mode="after")
    def _is_valid(self) -> Self:
        if bool(self.corrections) == self.remove:
            raise Misconfigured("give either --set COLUMN=EXPR or --remove")
        Author(self.who, self.why)
        return self

    def act(self, work: Work) -> Outcome:
        """Correct or remove the keys."""
        (job,) = work.jobs
        edit = Edit(tuple(self.keys), self.corrections, Author(self.who, self.why))
        edited = edit_state(work.runners, work.lakehouse, job, edit, dry_run=self.dry_run)
        rows = {"before": edited.rows_before, "after": edited.rows_after}
        return Outcome({"job": self.job, "generation": edited.generation, **rows}, _edit_text(edited))


class CorrectEvents(StateTool):
    """Replace events by id, and compute all jobs that read their stream again."""

    tool = "correct"
    subject = "stream"

    stream: str = Field(description=f"One of: {', '.join(project_streams())}.")
    source: Annotated[str, Option("--from", "FILE")] = Field(
        description="The right events: a file of Parquet, CSV or JSON lines with all columns of the stream."
    )
    why: _Why = Field(description=_WHY)
    who: _Who = Field(default_factory=getpass.getuser, description=_WHO)
    yes: Annotated[bool, Option("--yes")] = Field(
        False, description="Replace them; without it, only show what differs."
    )

    @model_validator(mode="after")
    def _is_valid(self) -> Self:
        Author(self.who, self.why)
        return self

    @classmethod
    def subjects(cls) -> Mapping[str, object]:
        """Return the project's streams by name."""
        return project_streams()

    def job_names(self, lakehouse: Lakehouse) -> list[str]:
        """Return the jobs that have a live generation."""
        return [name for name in project_jobs() if live_generation_name(lakehouse, name) is not None]

    def act(self, work: Work) -> Outcome:
        """Replace the events, and compute the jobs again."""
        corrected = correct(
            work.lakehouse,
            project_streams()[self.stream],
            work.jobs,
            self.source,
            Author(self.who, self.why),
            dry_run=not self.yes,
            options=work.options,
            runners=work.runners,
        )
        summary = {
            "stream": self.stream,
            "events": corrected.events,
            "replaced": corrected.replaced,
            "before": corrected.before,
            "after": corrected.after,
            "jobs": corrected.jobs,
            "tables": {name: {"gone": gone, "new": new} for name, (gone, new) in corrected.tables.items()},
            "refreshed": [run_summary(one) for one in corrected.runs],
            "dry_run": not self.yes,
        }
        return Outcome(summary, _correct_text(corrected, dry_run=not self.yes))


class QuarantineEvents(StateTool):
    """Move events by id from the event table to quarantine, so that a job which fails on them can go on."""

    tool = "quarantine"
    subject = "stream"

    stream: str = Field(description=f"One of: {', '.join(project_streams())}.")
    ids: list[str] = Field(min_length=1, description="The event's id; a JSON object if it has several columns.")
    why: _Why = Field(description=_WHY)
    who: _Who = Field(default_factory=getpass.getuser, description=_WHO)
    yes: Annotated[bool, Option("--yes")] = Field(False, description="Move them; without it, only show them.")

    @model_validator(mode="after")
    def _is_valid(self) -> Self:
        Author(self.who, self.why)
        return self

    @classmethod
    def subjects(cls) -> Mapping[str, object]:
        """Return the project's streams by name."""
        return project_streams()

    def job_names(self, lakehouse: Lakehouse) -> list[str]:
        """Return the jobs that have a live generation."""
        return [name for name in project_jobs() if live_generation_name(lakehouse, name) is not None]

    def act(self, work: Work) -> Outcome:
        """Move the events, and compute the jobs again that have read them."""
        moved = quarantine(
            work.lakehouse,
            project_streams()[self.stream],
            work.jobs,
            self.ids,
            Author(self.who, self.why),
            dry_run=not self.yes,
            options=work.options,
            runners=work.runners,
        )
        summary = {
            "stream": self.stream,
            "events": moved.events,
            "jobs": moved.jobs,
            "refreshed": [run_summary(one) for one in moved.runs],
            "dry_run": not self.yes,
        }
        lines = json_lines(moved.events, (), "jsonl")
        what = "was moved to" if self.yes else "would be moved to"
        lines = [*lines, f"{moved.events.height:,} of events.{self.stream} {what} quarantine.{self.stream}"]
        if moved.jobs:
            lines.append(f"{'computed again' if self.yes else 'to be computed again'}: {', '.join(moved.jobs)}")
        if not self.yes:
            lines.append("nothing changed: give --yes to move them")
        return Outcome(summary, "\n".join([*lines, *map(run_text, moved.runs)]))


class EraseRowsEverywhere(StateTool):
    """Erase rows of a stream from its events, quarantine and history, and compute all jobs that read it again."""

    tool = "state_erase"
    subject = "stream"
    confirm = "Repeat the stream's name: erased rows cannot be restored."
    is_final = True

    stream: str = Field(description=f"One of: {', '.join(project_streams())}.")
    values: Annotated[dict[str, list[str]], Option("--where", "COLUMN=VALUE")] = Field(
        description="Rows with this value in this column. May be repeated."
    )
    why: _Why = Field(description=_WHY)
    who: _Who = Field(default_factory=getpass.getuser, description=_WHO)
    remove_unsearchable: Annotated[bool, Option("--remove-unsearchable")] = Field(
        False, description="Also remove quarantined lines whose fields cannot be read, whatever they contain."
    )
    dry_run: DryRun = Field(False, description=_DRY)

    @model_validator(mode="after")
    def _is_valid(self) -> Self:
        Author(self.who, self.why)
        return self

    @classmethod
    def subjects(cls) -> Mapping[str, object]:
        """Return the project's streams by name."""
        return project_streams()

    def job_names(self, lakehouse: Lakehouse) -> list[str]:
        """Return the jobs that have a live generation."""
        return [name for name in project_jobs() if live_generation_name(lakehouse, name) is not None]

    def act(self, work: Work) -> Outcome:
        """Erase the rows, and compute the jobs again."""
        erased = erase(
            work.lakehouse,
            project_streams()[self.stream],
            work.jobs,
            Erasure(self.values, Author(self.who, self.why), self.remove_unsearchable),
            dry_run=self.dry_run,
            options=work.options,
            runners=work.runners,
        )
        summary = {
            "stream": self.stream,
            "rows": erased.rows,
            "jobs": erased.jobs,
            "refreshed": [run_summary(one) for one in erased.runs],
            "unsearchable": asdict(erased.unsearchable),
            "files_deleted": erased.files_deleted,
            "not_searched": erased.not_searched,
            "dry_run": self.dry_run,
        }
        text = _erase_text(erased, removed=self.remove_unsearchable, dry_run=self.dry_run)
        return Outcome(summary, text)


def _edit_text(edited: Edited) -> str:
    lines = [f"before: {line}" for line in json_lines(edited.rows_before, (), "jsonl")]
    lines += [f"after:  {line}" for line in json_lines(edited.rows_after, (), "jsonl")]
    lines.append(f"{edited.generation} is live now" if edited.generation else "nothing changed (--dry-run)")
    return "\n".join(lines)


def _correct_text(corrected: Corrected, *, dry_run: bool) -> str:
    lines = [f"before: {line}" for line in json_lines(corrected.before, (), "jsonl")]
    lines += [f"after:  {line}" for line in json_lines(corrected.after, (), "jsonl")]
    lines.append(
        f"{corrected.replaced:,} of {corrected.events:,} events {'differ' if dry_run else 'were replaced'} in "
        f"events.{corrected.stream}"
    )
    if corrected.jobs:
        lines.append(f"{'to be computed again' if dry_run else 'computed again'}: {', '.join(corrected.jobs)}")
    lines += [f"{name}: {gone:,} rows are gone, {new:,} are new" for name, (gone, new) in corrected.tables.items()]
    if dry_run:
        lines.append("nothing changed: give --yes to replace them")
    return "\n".join([*lines, *map(run_text, corrected.runs)])


def _erase_text(erased: Erased, *, removed: bool, dry_run: bool) -> str:
    had = "has" if dry_run else "had"
    lines = [f"{place} {had} {count:,} rows" for place, count in erased.rows.items()] or ["no matching rows"]
    if erased.jobs:
        lines.append(f"{'to be computed again' if dry_run else 'computed again'}: {', '.join(erased.jobs)}")
    if (unsearchable := erased.unsearchable).lines and not removed:
        more = ", …" if unsearchable.lines > len(unsearchable.where) else ""
        lines.append(
            f"{unsearchable.lines:,} quarantined lines stay, since their fields cannot be read and so not searched "
            f"({', '.join(unsearchable.where)}{more}): inspect them, or give --remove-unsearchable"
        )
    if dry_run:
        lines.append("nothing erased (--dry-run)")
    else:
        lines.append(f"all these rows are erased; {erased.files_deleted:,} files of older versions were deleted")
    lines += [f"not searched, check by hand: {place}" for place in erased.not_searched]
    return "\n".join([*lines, *map(run_text, erased.runs)])
