"""Seed a job's state from a table."""

from dataclasses import asdict
from typing import Annotated, Self, cast

from pydantic import Field, model_validator

from keyfold.errors import Misconfigured
from keyfold.runs.tools.tool import PARAMETERS, DryRun, JobTool, Option, Outcome, Parameters, Time, Work
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
        return Outcome(asdict(seeded), _text(seeded))

    def _wanted(self) -> Bootstrap:
        watermark = parse_time("--watermark", self.watermark)
        return Bootstrap(self.source, self.mapping, watermark, _version(self.from_version))


def _version(text: str | None) -> ReadFrom | None:
    if text is None or text in ("live", "latest", "start"):
        return cast(ReadFrom | None, text)
    if not text.isdigit():
        raise Misconfigured(f"--from-version is {text!r}; give a version's number, live, latest or start")
    return int(text)


def _text(seeded: Bootstrapped) -> str:
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
