"""Change state, correct events or erase rows by hand, with a record of who and why."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Self

from pydantic import Field, model_validator

from keyfold.errors import Misconfigured
from keyfold.project import project_streams
from keyfold.runs.correcting import Corrected, correct
from keyfold.runs.erasing import Erased, Erasure, erase
from keyfold.runs.quarantining import quarantine
from keyfold.runs.tools.tool import DryRun, JobTool, Option, Outcome, RecordedTool, StreamTool, Work
from keyfold.state.changing.editing import Edit, Edited, edit_state
from keyfold.state.rows.lines import json_lines

_DRY = "Report what would change; change nothing."


class EditKeys(RecordedTool, JobTool):
    """Correct or remove the state of named keys, in a new generation."""

    tool = "state_edit"

    keys: Annotated[list[str], Option("--key", "KEY")] = Field(
        min_length=1, description="A key; a JSON object if it has several columns. May be repeated."
    )
    corrections: Annotated[dict[str, str], Option("--set", "COLUMN=EXPR")] = Field(
        default_factory=dict, description="A column's new value, as SQL over the state's columns."
    )
    remove: Annotated[bool, Option("--remove")] = Field(False, description="Remove the keys' state.")
    dry_run: DryRun = Field(False, description=_DRY)

    @model_validator(mode="after")
    def _is_valid(self) -> Self:
        if bool(self.corrections) == self.remove:
            raise Misconfigured("give either --set COLUMN=EXPR or --remove")
        return self

    def act(self, work: Work) -> Outcome:
        """Correct or remove the keys."""
        (job,) = work.jobs
        edit = Edit(tuple(self.keys), self.corrections, self.author)
        edited = edit_state(work.lakehouse, job, edit, dry_run=self.dry_run, runners=work.runners)
        rows = {"before": edited.rows_before, "after": edited.rows_after}
        return Outcome({"job": self.job, "generation": edited.generation, **rows}, _edit_text(edited))


class CorrectEvents(StreamTool):
    """Replace events by id, and compute all jobs that read their stream again."""

    tool = "correct"

    source: Annotated[str, Option("--from", "FILE")] = Field(
        description="The right events: a file of Parquet, CSV or JSON lines with all columns of the stream."
    )
    yes: Annotated[bool, Option("--yes")] = Field(
        False, description="Replace them; without it, only show what differs."
    )

    def act(self, work: Work) -> Outcome:
        """Replace the events, and compute the jobs again."""
        done = correct(
            work.lakehouse,
            project_streams()[self.stream],
            work.jobs,
            self.source,
            self.author,
            dry_run=not self.yes,
            options=work.options,
            runners=work.runners,
        )
        summary = {
            "events": done.events,
            "replaced": done.replaced,
            "before": done.before,
            "after": done.after,
            "tables": {name: {"gone": gone, "new": new} for name, (gone, new) in done.tables.items()},
            "dry_run": not self.yes,
        }
        end = "" if self.yes else "nothing changed: give --yes to replace them"
        return self.outcome(summary, _correct_lines(done, dry_run=not self.yes), done.jobs, done.runs, end)


class QuarantineEvents(StreamTool):
    """Move events by id from the event table to quarantine, so that a job which fails on them can go on."""

    tool = "quarantine"

    ids: list[str] = Field(min_length=1, description="The event's id; a JSON object if it has several columns.")
    yes: Annotated[bool, Option("--yes")] = Field(False, description="Move them; without it, only show them.")

    def act(self, work: Work) -> Outcome:
        """Move the events, and compute the jobs again that have read them."""
        moved = quarantine(
            work.lakehouse,
            project_streams()[self.stream],
            work.jobs,
            self.ids,
            self.author,
            dry_run=not self.yes,
            options=work.options,
            runners=work.runners,
        )
        what = "was moved to" if self.yes else "would be moved to"
        said = f"{moved.events.height:,} of events.{self.stream} {what} quarantine.{self.stream}"
        end = "" if self.yes else "nothing changed: give --yes to move them"
        summary = {"events": moved.events, "dry_run": not self.yes}
        return self.outcome(summary, [*json_lines(moved.events, (), "jsonl"), said], moved.jobs, moved.runs, end)


class EraseRowsEverywhere(StreamTool):
    """Erase rows of a stream from its events, quarantine and history, and compute all jobs that read it again."""

    tool = "state_erase"
    confirm = "Repeat the stream's name: erased rows cannot be restored."
    is_final = True

    values: Annotated[dict[str, list[str]], Option("--where", "COLUMN=VALUE")] = Field(
        description="Rows with this value in this column. May be repeated."
    )
    remove_unsearchable: Annotated[bool, Option("--remove-unsearchable")] = Field(
        False, description="Also remove quarantined lines whose fields cannot be read, whatever they contain."
    )
    dry_run: DryRun = Field(False, description=_DRY)

    def act(self, work: Work) -> Outcome:
        """Erase the rows, and compute the jobs again."""
        erased = erase(
            work.lakehouse,
            project_streams()[self.stream],
            work.jobs,
            Erasure(self.values, self.author, self.remove_unsearchable),
            dry_run=self.dry_run,
            options=work.options,
            runners=work.runners,
        )
        summary = {
            "rows": erased.rows,
            "unsearchable": asdict(erased.unsearchable),
            "files_deleted": erased.files_deleted,
            "not_searched": erased.not_searched,
            "dry_run": self.dry_run,
        }
        lines = _erase_lines(erased, removed=self.remove_unsearchable, dry_run=self.dry_run)
        return self.outcome(summary, lines, erased.jobs, erased.runs, "")


def _edit_text(edited: Edited) -> str:
    lines = [f"before: {line}" for line in json_lines(edited.rows_before, (), "jsonl")]
    lines += [f"after:  {line}" for line in json_lines(edited.rows_after, (), "jsonl")]
    lines.append(f"{edited.generation} is live now" if edited.generation else "nothing changed (--dry-run)")
    return "\n".join(lines)


def _correct_lines(corrected: Corrected, *, dry_run: bool) -> Iterator[str]:
    yield from (f"before: {line}" for line in json_lines(corrected.before, (), "jsonl"))
    yield from (f"after:  {line}" for line in json_lines(corrected.after, (), "jsonl"))
    what = f"{corrected.replaced:,} of {corrected.events:,} events {'differ' if dry_run else 'were replaced'}"
    yield f"{what} in events.{corrected.stream}"
    yield from (f"{name}: {gone:,} rows are gone, {new:,} are new" for name, (gone, new) in corrected.tables.items())


def _erase_lines(erased: Erased, *, removed: bool, dry_run: bool) -> Iterator[str]:
    had = "has" if dry_run else "had"
    yield from [f"{place} {had} {count:,} rows" for place, count in erased.rows.items()] or ["no matching rows"]
    if (unsearchable := erased.unsearchable).lines and not removed:
        more = ", …" if unsearchable.lines > len(unsearchable.where) else ""
        yield (
            f"{unsearchable.lines:,} quarantined lines stay, since their fields cannot be read and so not searched "
            f"({', '.join(unsearchable.where)}{more}): inspect them, or give --remove-unsearchable"
        )
    if dry_run:
        yield "nothing erased (--dry-run)"
    else:
        yield f"all these rows are erased; {erased.files_deleted:,} files of older versions were deleted"
    yield from (f"not searched, check by hand: {place}" for place in erased.not_searched)
