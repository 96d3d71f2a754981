"""Replay history into a branch beside the live generation, and make the branch live."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any

from pydantic import Field

from keyfold.project import project_jobs
from keyfold.runs.chains import consumers_of, promote_with_consumers
from keyfold.runs.jobs import JobRun, run_summary, run_text
from keyfold.runs.tools.tool import PARAMETERS, JobTool, Option, Outcome, Parameters, Time, Work
from keyfold.state.changing.promoting import promote
from keyfold.state.changing.trying import redrive, try_job
from keyfold.state.differences import Difference
from keyfold.state.rows.lines import json_lines
from keyfold.times import parse_time

_SHOWN = 5
_BRANCH = "A name for the branch."


class TryChangedJob(JobTool):
    """Run a changed job over history into a branch, and compare its tables with the live ones."""

    tool = "state_try"

    branch: str = Field(description=_BRANCH)
    parameters: Parameters = Field(default_factory=dict, description=PARAMETERS)
    since: Annotated[Time, Option("--since", "ISO_TIME")] = Field(None, description="Read events from this time on.")
    until: Annotated[Time, Option("--until", "ISO_TIME")] = Field(None, description="Read events before this time.")

    def act(self, work: Work) -> Outcome:
        """Run the job into the branch and compare."""
        (job,) = work.jobs
        span = {"since": parse_time("--since", self.since), "until": parse_time("--until", self.until)}
        trial = try_job(work.lakehouse, job, self.branch, **span, options=work.options, runners=work.runners)
        return _compared(
            {"job": self.job, "branch": self.branch, "live": trial.live},
            f"{self.job}: branch {self.branch} beside {trial.live}, {trial.run.counts.events:,} events",
            trial.tables,
            f"make it live: `keyfold promote {self.job} {self.branch}`",
        )


class PromoteBranch(JobTool):
    """Make a branch the live generation; the next run continues from it."""

    tool = "state_promote"

    branch: str = Field(description="A branch that `keyfold try`, `redrive` or a replay wrote.")
    with_consumers: Annotated[bool, Option("--with-consumers")] = Field(
        False, description="Also refresh the jobs that read this job's tables, in order; all become live in one step."
    )

    def act(self, work: Work) -> Outcome:
        """Make the branch live, with its consumers if asked."""
        summary, runs = {"job": self.job, "branch": self.branch}, list[JobRun]()
        if self.with_consumers:
            consumers = consumers_of(work.lakehouse, self.job, project_jobs())
            live, runs = promote_with_consumers(
                work.lakehouse, self.job, self.branch, consumers, options=work.options, runners=work.runners
            )
        else:
            live = promote(work.lakehouse, self.job, self.branch)
        text = (
            f"{self.job}: branch {self.branch} is live as {live.name}; `keyfold state prune {self.job}` removes the previous "
            "generation"
        )
        consumed = {"consumers": [run_summary(one) for one in runs]} if self.with_consumers else {}
        return Outcome({**summary, "generation": live.name, **consumed}, "\n".join([text, *map(run_text, runs)]))


class RedriveLateEvents(JobTool):
    """Replay a job into a branch with its late events in time, and compare its tables with the live ones."""

    tool = "state_redrive"

    branch: Annotated[str, Option("--branch")] = Field("redrive", description=_BRANCH)
    since: Annotated[Time, Option("--since", "ISO_TIME")] = Field(
        None, description="Include late events from this time on."
    )
    promote: Annotated[bool, Option("--promote")] = Field(
        False, description="Make the branch the live generation at the end."
    )

    def act(self, work: Work) -> Outcome:
        """Replay the late events into the branch and compare."""
        (job,) = work.jobs
        since = parse_time("--since", self.since)
        found = redrive(work.lakehouse, job, self.branch, since=since, options=work.options, runners=work.runners)
        live = promote(work.lakehouse, self.job, self.branch).name if self.promote else None
        late = {"late_before": found.late_before, "late_after": found.late_after}
        return _compared(
            {"job": self.job, "branch": self.branch, **late, "live": live},
            f"{self.job}: {found.late_before:,} late events, {found.late_after:,} still late in {self.branch}",
            found.trial.tables,
            f"{live} is live now" if live else f"make it live: `keyfold promote {self.job} {self.branch}`",
        )


def _compared(summary: dict[str, Any], begin: str, tables: Mapping[str, Difference], end: str) -> Outcome:
    """Make the outcome of a comparison with the live tables: counts, and text between `begin` and `end`."""
    found = {name: (one, one.summary(), one.first_rows(_SHOWN)) for name, one in tables.items()}
    columns = ("keys_before", "keys_after", "unchanged", "added", "removed", "changed")
    rows = [("table", *(name.removeprefix("keys_") for name in columns))]
    rows += [(name, *(f"{getattr(counts, one):,}" for one in columns)) for name, (_, counts, _) in found.items()]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["".join(f" {cell:<{width}} " for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    for name, (one, counts, shown) in found.items():
        lines += [f"{name} by {', '.join(one.key)}"] * bool(shown.height)
        lines += [f"{name}.{column} differs in {count:,} keys" for column, count in counts.columns.items()]
        lines += [f"  {line}" for line in json_lines(shown, one.key, "jsonl")]
    told = [{"table": name, **asdict(counts), "samples": shown} for name, (_, counts, shown) in found.items()]
    return Outcome({**summary, "tables": told}, "\n".join([begin, *lines, end]))
