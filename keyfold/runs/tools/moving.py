"""Report what a changed job needs, and move its state and tables."""

from dataclasses import asdict
from typing import Annotated

from pydantic import Field

from keyfold.runs.tools.tool import PARAMETERS, DryRun, JobTool, Option, Outcome, Parameters, Work
from keyfold.state.changing.moving import ChangePlan, move, plan_change


class MoveState(JobTool):
    """Move a job's state and tables into a new generation that fits the job's present schemas and parameters."""

    tool = "state_move"

    parameters: Parameters = Field(default_factory=dict, description=PARAMETERS)
    partitions: Annotated[int | None, Option("--partitions")] = Field(
        None, ge=1, le=32_768, description="Number of state partitions."
    )
    dry_run: DryRun = Field(False, description="Report what the change needs; change nothing.")

    def act(self, work: Work) -> Outcome:
        """Plan or make the move."""
        (job,) = work.jobs
        if self.dry_run:
            plan = plan_change(work.lakehouse, job, self.partitions)
            return Outcome(asdict(plan), _text(plan))
        moved = move(work.lakehouse, job, self.partitions, runners=work.runners)
        summary = {
            "job": self.job,
            "generation": moved.generation.name,
            "state_rows_before": moved.rows_before,
            "state_rows": moved.rows,
            "table_rows": moved.table_rows,
        }
        tables = ", ".join(f"{count:,} {name}" for name, count in moved.table_rows.items())
        text = (
            f"{self.job}: {moved.generation.name} is live, with {moved.rows:,} rows of state (of {moved.rows_before:,}) and "
            f"{tables}; `keyfold state prune {self.job}` removes the previous generation"
        )
        return Outcome(summary, text)


def _text(change: ChangePlan) -> str:
    if change.generation is None:
        return (
            f"{change.job} has never run: its first run reads {change.events:,} events ({change.event_bytes:,} bytes)"
        )
    lines = [f"{one.setting}: {one.before} -> {one.after}: {one.verdict} ({one.why})" for one in change.changes]
    if change.verdict == "free":
        lines.append(f"{change.job} continues in {change.generation}: `keyfold run {change.job}`")
    elif change.verdict == "move":
        lines.append(
            f"a move rewrites {change.state_bytes:,} bytes of state ({change.open_events:,} open events) and keeps the tables: "
            f"`keyfold state move {change.job}`"
        )
    else:
        duration = f", about {change.seconds:,.0f} s at the speed of its last batches" if change.seconds else ""
        lines.append(
            f"a refresh reads {change.events:,} events again ({change.event_bytes:,} bytes{duration}): `keyfold run "
            f"{change.job} --full-refresh`; `keyfold try {change.job} BRANCH` shows first what it would change"
        )
    lines.append("changes in the code of the step are not examined: `keyfold try` shows their effect")
    return "\n".join(lines)
