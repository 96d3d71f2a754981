"""Declare a tool that changes the state of jobs: its inputs, its action and its report.

A tool is a Pydantic model. `keyfold.cli.state_tools` builds a command from it: its docstring is the help, and its fields are the
arguments and options.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo

from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.runner import RunOptions
from keyfold.lakehouse import Lakehouse
from keyfold.project import project_jobs
from keyfold.runners import Runners
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


class JobTool(StateTool):
    """Base of tools that work on one job."""

    job: str = Field(description="The job.")

    def job_names(self, lakehouse: Lakehouse) -> list[str]:
        """Return the job's name."""
        return [self.job]
