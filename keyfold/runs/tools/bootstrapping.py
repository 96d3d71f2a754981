"""A job's state made of any table."""

from dataclasses import asdict
from typing import Annotated, Self, cast

from pydantic import Field, model_validator

from keyfold.errors import Misconfigured
from keyfold.runs.tools.tool import PARAMETERS, DryRun, JobTool, Option, Outcome, Parameters, Time, Work
from keyfold.state.making.bootstrap import Bootstrap, Bootstrapped, ReadFrom, bootstrap
from keyfold.state.rows.lines import json_lines
from keyfold.times import BEGINNING, parse_time


class BootstrapState(JobTool):
    """Seed a new generation of a job from a table; the next run goes on from there."""

    tool = "state_bootstrap"
    needs_token = True

    source: Annotated[str, Option("--from", "TABLE|PATH")] = Field(
        description="A table, or Delta, Parquet, CSV or JSON lines."
    )
    mapping: Annotated[dict[str, str], Option("--map", "COLUMN=EXPR")] = Field(
        default_factory=dict, description="What a column of state is: SQL over the source's columns."
    )
    watermark: Annotated[Time, Option("--watermark", "ISO_TIME")] = Field(
        None, description="Event time that the state has reached [default: the live generation's]."
    )
    from_version: Annotated[str | None, Option("--from-version", "N|live|latest|start")] = Field(
        None,
        description="Version of the event table that the state has seen; `live`: what the live generation has read.",
    )
    dry_run: DryRun = Field(False, description="Check, count and show; change nothing.")
    parameters: Parameters = Field(default_factory=dict, description=PARAMETERS)

    @model_validator(mode="after")
    def _is_valid(self) -> Self:
        self._wanted()
        return self

    def act(self, work: Work) -> Outcome:
        """Seed it."""
        (job,) = work.jobs
        told = bootstrap(work.spark, work.lakehouse, job, self._wanted(), dry_run=self.dry_run)
        return Outcome(asdict(told), _text(told), {"sample": (told.sample, job.private_of(job.state))})

    def _wanted(self) -> Bootstrap:
        watermark = parse_time("--watermark", self.watermark)
        return Bootstrap(self.source, self.mapping, watermark, _version(self.from_version))


def _version(text: str | None) -> ReadFrom | None:
    if text is None or text in ("live", "latest", "start"):
        return cast(ReadFrom | None, text)
    if not text.isdigit():
        raise Misconfigured(f"--from-version is {text!r}; give a version's number, live, latest or start")
    return int(text)


def _text(told: Bootstrapped) -> str:
    checked = told.checked
    timers = ", ".join(f"{count:,} with a {name}" for name, count in checked.timers.items()) or "none with a timer"
    watermark = "not set" if told.watermark == BEGINNING else f"{told.watermark:%Y-%m-%d %H:%M:%S}"
    lines = [
        f"{told.job}: {checked.rows:,} rows of {checked.keys:,} keys, {timers}; they stand for {checked.events:,} events",
        *(
            [f"empty, since the source has nothing for it: {', '.join(checked.left_empty)}"]
            if checked.left_empty
            else []
        ),
        f"watermark {watermark}; {told.new_rows:,} rows of the event table come next",
        *(f"  {line}" for line in json_lines(told.sample, (), "jsonl")),
        f"{told.generation} is live now" if told.generation else "nothing was changed (--dry-run)",
    ]
    return "\n".join(lines)
