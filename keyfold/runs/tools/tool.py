"""Declare a tool that changes the state of jobs: its inputs, its action and its report.

A tool is a Pydantic model. `keyfold.cli.state_tools` builds a command from it: its docstring is the help, and its fields are the
arguments and options.
"""

import getpass
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, model_validator

from keyfold.keyed.generation.live_record import live_generation_name
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.runner import RunOptions
from keyfold.lakehouse import Lakehouse
from keyfold.project import project_jobs, project_streams
from keyfold.runners import Runners
from keyfold.runs.jobs import JobRun, run_summary, run_text
from keyfold.state.changing.audit import Author
from keyfold.times import parse_time


class Option(NamedTuple):
    """Make a field an option of the command; a field without it is an argument.

    Attributes:
        flag: the option's flag, such as `--from`.
        metavar: the placeholder of the value in the help.
    """

    flag: str
    metavar: str | None = None


def _is_time(text: str | None, info: ValidationInfo) -> str | None:
    parse_time(f"--{info.field_name}", text)
    return text


Time = Annotated[str | None, AfterValidator(_is_time)]
"""An ISO 8601 time as text."""

Parameters = Annotated[dict[str, str], Option("--param", "PARAM")]
DryRun = Annotated[bool, Option("--dry-run")]
PARAMETERS = "A job parameter as name=value; may be repeated."


@dataclass(frozen=True)
class Work:
    """The inputs of `StateTool.act` that its caller opens.

    Attributes:
        runners: choose where the work is done.
        lakehouse: the lakehouse of the jobs.
        jobs: the jobs of `job_names`, built with the new parameters.
        options: options of the runs that the tool starts.
    """

    runners: Runners
    lakehouse: Lakehouse
    jobs: Sequence[KeyedJob]
    options: RunOptions


@dataclass(frozen=True)
class Outcome:
    """The result of a tool, or of its dry run.

    Attributes:
        summary: values and frames, as `--json` prints them.
        text: the report for a terminal.
    """

    summary: dict[str, Any]
    text: str


class StateTool(BaseModel):
    """Base of all tools; Pydantic validates the fields.

    Attributes:
        tool: the tool's name.
        subject: the field that the user repeats to confirm.
        confirm: the text that asks for the confirmation.
        is_final: whether what the tool does cannot be undone, so that its command asks for the confirmation.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    tool: ClassVar[str]
    subject: ClassVar[str] = "job"
    is_final: ClassVar[bool] = False
    confirm: ClassVar[str] = "Repeat the job's name: this run may change its live generation."

    @classmethod
    def subjects(cls) -> Mapping[str, object]:
        """Return the possible subjects by name."""
        return project_jobs()

    @abstractmethod
    def job_names(self, lakehouse: Lakehouse) -> list[str]:
        """Return the names of the jobs that the tool works on."""

    @abstractmethod
    def act(self, work: Work) -> Outcome:
        """Run the tool.

        Raises:
            KeyfoldError: the tool failed; the message says what is unchanged.
        """


class RecordedTool(StateTool):
    """Base of tools whose work has an entry in the audit record."""

    why: Annotated[str, Option("--why")] = Field(description="The reason, for the audit record.")
    who: Annotated[str, Option("--who")] = Field(
        default_factory=getpass.getuser,
        description="Who makes the change, for the audit record [default: the current user].",
    )

    @model_validator(mode="after")
    def _has_author(self) -> Self:
        _ = self.author  # raises for a wrong value
        return self

    @property
    def author(self) -> Author:
        """Who makes the change, and why."""
        return Author(self.who, self.why)


class StreamTool(RecordedTool):
    """Base of tools that change events of a stream, and compute the jobs again that read it."""

    subject = "stream"

    stream: str = Field(description=f"One of: {', '.join(project_streams())}.")

    @classmethod
    def subjects(cls) -> Mapping[str, object]:
        """Return the project's streams by name."""
        return project_streams()

    def job_names(self, lakehouse: Lakehouse) -> list[str]:
        """Return the jobs that have a live generation."""
        return [name for name in project_jobs() if live_generation_name(lakehouse, name) is not None]

    def outcome(
        self, summary: dict[str, Any], lines: Iterable[str], jobs: Sequence[str], runs: Sequence[JobRun], end: str
    ) -> Outcome:
        """Make the outcome: what the tool itself found, the jobs that are computed again, and their runs."""
        computed = f"{'computed again' if runs else 'to be computed again'}: {', '.join(jobs)}"
        text = [*lines, *([computed] if jobs else []), *([end] if end else []), *map(run_text, runs)]
        refreshed = [run_summary(one) for one in runs]
        return Outcome({"stream": self.stream, **summary, "jobs": jobs, "refreshed": refreshed}, "\n".join(text))


class JobTool(StateTool):
    """Base of tools that work on one job."""

    job: str = Field(description="The job.")

    def job_names(self, lakehouse: Lakehouse) -> list[str]:
        """Return the job's name."""
        return [self.job]
