"""A changed job: what the change means, and its state and tables moved."""

from dataclasses import asdict
from typing import Annotated

import polars as pl
from pydantic import Field

from keyfold.runs.tools.tool import PARAMETERS, DryRun, JobTool, Option, Outcome, Parameters, Work
from keyfold.state.changing.moving import ChangePlan, move, plan_change


class MoveState(JobTool):
    """Take a job's state and tables along into a new generation, as the job is now."""

    tool = "state_move"

    parameters: Parameters = Field(default_factory=dict, description=PARAMETERS)
    partitions: Annotated[int | None, Option("--partitions")] = Field(
        None, ge=1, le=32_768, description="Partitions of Spark's state store."
    )
    dry_run: DryRun = Field(False, description="Say what the change means; change nothing.")

    @property
    def needs_spark(self) -> bool:
        """Of a move."""
        return not self.dry_run

    def act(self, work: Work) -> Outcome:
        """Move it."""
        (job,) = work.jobs
        if self.dry_run:
            plan = plan_change(work.lakehouse, job, self.partitions)
            changes = pl.DataFrame([{name: str(value) for name, value in asdict(one).items()} for one in plan.changes])
            return Outcome(asdict(plan), _text(plan), {"changes": (changes, frozenset())})
        moved = move(work.spark, work.lakehouse, job, self.partitions)
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
            f"{tables}; the one before stays until `keyfold state prune {self.job}`"
        )
        return Outcome(summary, text)


def _text(told: ChangePlan) -> str:
    if told.generation is None:
        return f"{told.job} has never run: its first run reads {told.events:,} events ({told.event_bytes:,} bytes)"
    lines = [f"{one.setting}: {one.before} -> {one.after}: {one.verdict} ({one.why})" for one in told.changes]
    if told.verdict == "free":
        lines.append(f"{told.job} goes on in {told.generation}: `keyfold run {told.job}`")
    elif told.verdict == "move":
        lines.append(
            f"a move rewrites {told.state_bytes:,} bytes of state, which stand for {told.open_events:,} open events; tables "
            f"are taken over as they are: `keyfold state move {told.job}`"
        )
    else:
        lasts = f", about {told.seconds:,.0f} s by the speed of its last batches" if told.seconds else ""
        lines.append(
            f"a refresh reads {told.events:,} events again ({told.event_bytes:,} bytes{lasts}): `keyfold run {told.job} "
            f"--full-refresh`; see first what it would change: `keyfold try {told.job} BRANCH`"
        )
    lines.append("of changes in the code of its step this knows nothing: `keyfold try` shows what they do")
    return "\n".join(lines)
