"""Make a new generation of a job: of the rows of a table, or of the live one for a changed job."""

from dataclasses import asdict
from typing import Annotated, Self, cast

from pydantic import Field, model_validator

from keyfold.errors import Misconfigured
from keyfold.runs.jobs import own_parameters
from keyfold.runs.tools.tool import PARAMETERS, DryRun, JobTool, Option, Outcome, Parameters, Time, Work
from keyfold.state.changing.moving import ChangePlan, move, plan_change
from keyfold.state.making.bootstrap import Bootstrap, Bootstrapped, ReadFrom, bootstrap
from keyfold.state.rows.lines import json_lines
from keyfold.times import BEGINNING, parse_time


class BootstrapState(JobTool):
    """Seed a new generation of a job from a table; the next run continues from it."""

    tool = "state_bootstrap"

    source: Annotated[str, Option("--from", "TABLE|PATH")] = Field(
        description="A table, or Delta, Parquet, CSV or JSON lines."
    )
    mapping: Annotated[dict[str, str], Option("--map", "COLUMN=EXPR")] = Field(
        default_factory=dict, description="A column of state, as SQL over the source's columns; may be repeated."
    )
    watermark: Annotated[Time, Option("--watermark", "ISO_TIME")] = Field(
        None, description="Watermark of the seeded state [default: the live generation's]."
    )
    from_version: Annotated[str | None, Option("--from-version", "N|live|latest|start")] = Field(
        None,
        description="Version of the event table up to which the state contains the events; `live`: up to which the live "
        "generation has read.",
    )
    dry_run: DryRun = Field(False, description="Check, count and show; change nothing.")
    parameters: Parameters = Field(default_factory=dict, description=PARAMETERS)

    @model_validator(mode="after")
    def _is_valid(self) -> Self:
        self._wanted()  # raises for a wrong value
        return self

    def act(self, work: Work) -> Outcome:
        """Seed the new generation, or report what it would contain."""
        (job,) = work.jobs
        seeded = bootstrap(work.lakehouse, job, self._wanted(), dry_run=self.dry_run, runners=work.runners)
        return Outcome(asdict(seeded), _seed_text(seeded))

    def _wanted(self) -> Bootstrap:
        watermark = parse_time("--watermark", self.watermark)
        return Bootstrap(self.source, self.mapping, watermark, _version(self.from_version))


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
            own = own_parameters(work.lakehouse, job)
            live = {name: now for name, (now, _) in own.items()}
            stay = [f"parameter {name} stays {now} (by default {default})" for name, (now, default) in own.items()]
            return Outcome(asdict(plan) | {"live_parameters": live}, "\n".join([*stay, _plan_text(plan)]))
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


def _version(text: str | None) -> ReadFrom | None:
    if text is None or text in ("live", "latest", "start"):
        return cast(ReadFrom | None, text)
    if not text.isdigit():
        raise Misconfigured(f"--from-version is {text!r}; give a version's number, live, latest or start")
    return int(text)


def _seed_text(seeded: Bootstrapped) -> str:
    checked = seeded.checked
    timers = ", ".join(f"{count:,} with a {name}" for name, count in checked.timers.items()) or "no timers"
    watermark = "not set" if seeded.watermark == BEGINNING else f"{seeded.watermark:%Y-%m-%d %H:%M:%S}"
    lines = [
        f"{seeded.job}: {checked.rows:,} rows of {checked.keys:,} keys, {timers}; {checked.events:,} open events",
        *(
            [f"state columns left empty, since the source lacks them: {', '.join(checked.left_empty)}"]
            if checked.left_empty
            else []
        ),
        f"watermark {watermark}; the next run reads {seeded.new_rows:,} rows of the event table",
        *(f"  {line}" for line in json_lines(seeded.sample, (), "jsonl")),
        f"{seeded.generation} is live now" if seeded.generation else "nothing changed (--dry-run)",
    ]
    return "\n".join(lines)


def _plan_text(change: ChangePlan) -> str:
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
