"""State and rows changed by hand, and written down."""

import getpass
from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Self

from pydantic import Field, model_validator

from keyfold.errors import Misconfigured
from keyfold.keyed.generation.generations import live_generation_name
from keyfold.lakehouse import Lakehouse
from keyfold.project import project_jobs, project_streams
from keyfold.runs.chains import refresh_all
from keyfold.runs.summaries import run_summary, run_text
from keyfold.runs.tools.tool import DryRun, JobTool, Option, Outcome, StateTool, Work
from keyfold.state.changing.audit import Author
from keyfold.state.changing.editing import Edit, Edited, edit_state
from keyfold.state.erasure.erasing import Erased, Erasure, erase
from keyfold.state.rows.lines import json_lines
from keyfold.stream.sharing import sharing

_Who = Annotated[str, Option("--who")]
_Why = Annotated[str, Option("--why")]
_WHO = "Who does it [default: the user of this machine]."
_WHY = "Why it is done; it is written down."
_DRY = "Say what would change; change nothing."


class EditKeys(JobTool):
    """Correct or remove the state of named keys, in a new generation."""

    tool = "state_edit"
    needs_token = True

    keys: Annotated[list[str], Option("--key", "KEY")] = Field(
        min_length=1, description="A key; of several columns a JSON object. May be repeated."
    )
    why: _Why = Field(description=_WHY)
    corrections: Annotated[dict[str, str], Option("--set", "COLUMN=EXPR")] = Field(
        default_factory=dict, description="What a column is to be: SQL over the state's."
    )
    remove: Annotated[bool, Option("--remove")] = Field(False, description="Remove the keys' state.")
    who: _Who = Field(default_factory=getpass.getuser, description=_WHO)
    dry_run: DryRun = Field(False, description=_DRY)

    @model_validator(mode="after")
    def _is_valid(self) -> Self:
        if bool(self.corrections) == self.remove:
            raise Misconfigured("say what is to become of the keys: --set COLUMN=EXPR, or --remove")
        Author(self.who, self.why)
        return self

    def act(self, work: Work) -> Outcome:
        """Edit them."""
        (job,) = work.jobs
        edit = Edit(tuple(self.keys), self.corrections, Author(self.who, self.why))
        edited = edit_state(work.spark, work.lakehouse, job, edit, dry_run=self.dry_run)
        rows = {"before": edited.rows_before, "after": edited.rows_after}
        private = job.private_of(job.state)
        return Outcome(
            {"job": self.job, "generation": edited.generation, **rows},
            _edit_text(edited),
            {name: (frame, private) for name, frame in rows.items()},
        )


class EraseRowsEverywhere(StateTool):
    """Erase rows of a stream everywhere: state, tables, late, quarantine, events and their history."""

    tool = "state_erase"
    subject = "stream"
    confirm = "The stream's name again: what is erased is gone."
    needs_token = True

    stream: str = Field(description=f"One of: {', '.join(project_streams())}.")
    values: Annotated[dict[str, list[str]], Option("--where", "COLUMN=VALUE")] = Field(
        description="Whose rows: a column's value. May be repeated."
    )
    why: _Why = Field(description=_WHY)
    who: _Who = Field(default_factory=getpass.getuser, description=_WHO)
    remove_unsearchable: Annotated[bool, Option("--remove-unsearchable")] = Field(
        False, description="Remove quarantined lines too whose fields cannot be told, whoever's they are."
    )
    refresh: Annotated[bool, Option("--refresh")] = Field(
        False,
        description="Make jobs anew that have summed such rows up without their columns, with those that read them.",
    )
    dry_run: DryRun = Field(False, description=_DRY)

    @model_validator(mode="after")
    def _is_valid(self) -> Self:
        Author(self.who, self.why)
        return self

    @classmethod
    def subjects(cls) -> Mapping[str, object]:
        """The streams."""
        return project_streams()

    def job_names(self, lakehouse: Lakehouse) -> list[str]:
        """Those that have run."""
        return [name for name in project_jobs() if live_generation_name(lakehouse, name) is not None]

    def act(self, work: Work) -> Outcome:
        """Erase them."""
        streams = project_streams()
        erased = erase(
            work.spark,
            work.lakehouse,
            streams[self.stream],
            work.jobs,
            Erasure(self.values, Author(self.who, self.why), self.remove_unsearchable),
            sharing=sharing(streams, self.stream),
            dry_run=self.dry_run,
        )
        is_refreshed = self.refresh and not self.dry_run
        refreshed = refresh_all(work.spark, work.lakehouse, erased.summed_up_by, project_jobs()) if is_refreshed else []
        summary = {
            "stream": self.stream,
            "rows": erased.rows,
            "sums": erased.sums,
            "summed_up_by": erased.summed_up_by,
            "refreshed": [run_summary(one) for one in refreshed],
            "unsearchable": asdict(erased.unsearchable),
            "generations": erased.generations,
            "files_deleted": erased.files_deleted,
            "look_yourself": erased.not_touched,
            "dry_run": self.dry_run,
        }
        text = _erase_text(
            work.lakehouse,
            erased,
            removed=self.remove_unsearchable,
            dry_run=self.dry_run,
            is_refreshed=bool(refreshed),
        )
        return Outcome(summary, "\n".join([text, *map(run_text, refreshed)]))


def _edit_text(edited: Edited) -> str:
    lines = [f"before: {line}" for line in json_lines(edited.rows_before, (), "jsonl")]
    lines += [f"after:  {line}" for line in json_lines(edited.rows_after, (), "jsonl")]
    lines.append(f"{edited.generation} is live now" if edited.generation else "nothing was changed (--dry-run)")
    return "\n".join(lines)


def _erase_text(lakehouse: Lakehouse, erased: Erased, *, removed: bool, dry_run: bool, is_refreshed: bool) -> str:
    held = "holds" if dry_run else "held"
    lines = [f"{place} {held} {count:,} rows" for place, count in erased.rows.items()] or ["nothing holds such a row"]
    if erased.sums:
        left = "made anew" if is_refreshed else "left as it is"
        lines.append(f"summed up without these columns, and {left}: {', '.join(erased.sums)}")
        if not is_refreshed:
            commands = (
                lakehouse.command("run", job, "--full-refresh", "--with-consumers") for job in erased.summed_up_by
            )
            lines += [f"to sum up without such rows: `{command}`" for command in commands]
    if (cannot := erased.unsearchable).lines and not removed:
        more = ", …" if cannot.lines > len(cannot.where) else ""
        lines.append(
            f"{cannot.lines:,} quarantined lines cannot be searched, since their fields cannot be told, and stay "
            f"({', '.join(cannot.where)}{more}): look at them, or give --remove-unsearchable"
        )
    if dry_run:
        lines.append("nothing was erased (--dry-run)")
    else:
        lines.append(f"none of them holds one now; {erased.files_deleted:,} files of older versions were deleted")
    lines += [f"look yourself: {place}" for place in erased.not_touched]
    return "\n".join(lines)
