"""A tool that changes the state of jobs: what it takes, what it does, and what it reports.

A tool is a model of Pydantic. `keyfold.cli.state_tools` makes a command of it, `keyfold.dagster.automation.state.state_tools` a
job: its docstring is the help of both, its fields are the arguments and options of one and the form of the other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, NamedTuple

import polars as pl
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo
from pyspark.sql import SparkSession

from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.runner import RunOptions
from keyfold.lakehouse import Lakehouse
from keyfold.project import project_jobs
from keyfold.times import parse_time


class Option(NamedTuple):
    """How a command takes a field; a field without one is an argument.

    Attributes:
        flag: of the option.
        metavar: what stands for the value in its help.
    """

    flag: str
    metavar: str | None = None


def _is_time(text: str | None, info: ValidationInfo) -> str | None:
    parse_time(f"--{info.field_name}", text)
    return text


Time = Annotated[str | None, AfterValidator(_is_time)]
"""A time of ISO 8601, as text: forms have no other."""

Parameters = Annotated[dict[str, str], Option("--param", "PARAM")]
DryRun = Annotated[bool, Option("--dry-run")]
PARAMETERS = "A job parameter as name=value; may be repeated."


@dataclass(frozen=True)
class Work:
    """What a tool works on.

    Attributes:
        spark: the session; None of a tool that needs none.
        lakehouse: where the jobs are.
        jobs: those of `job_names`, as they are to be.
        options: of runs that it makes.
    """

    spark: SparkSession
    lakehouse: Lakehouse
    jobs: Sequence[KeyedJob]
    options: RunOptions


@dataclass(frozen=True)
class Outcome:
    """What a tool has done, or would.

    Attributes:
        summary: values and frames, as `--json` prints them.
        text: for people on a terminal.
        previews: for pages, in place of the summary's entry of that name: rows, with the columns whose values are hidden.
    """

    summary: dict[str, Any]
    text: str
    previews: dict[str, tuple[pl.DataFrame, frozenset[str]]] = field(default_factory=dict)


class StateTool(BaseModel):
    """Base of every tool; its fields are checked when it is made.

    Attributes:
        tool: its name.
        subject: the field whose value a person confirms.
        confirm: what confirming means, for people.
        needs_token: whether a form confirms it by a token too, as what it does cannot be undone.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    tool: ClassVar[str]
    subject: ClassVar[str] = "job"
    confirm: ClassVar[str] = "Repeat the job's name: this run may change its live generation."
    needs_token: ClassVar[bool] = False

    @classmethod
    def subjects(cls) -> Mapping[str, object]:
        """What the subject can be, by name."""
        return project_jobs()

    @property
    def needs_spark(self) -> bool:
        """Whether it asks anything of the session."""
        return True

    def job_names(self, lakehouse: Lakehouse) -> list[str]:
        """The jobs that it works on."""
        raise NotImplementedError

    def act(self, work: Work) -> Outcome:
        """Do it.

        Raises:
            KeyfoldError: it cannot be done; says what was left as it is.
        """
        raise NotImplementedError


class JobTool(StateTool):
    """Base of the tools on one job."""

    job: str = Field(description="The job.")

    def job_names(self, lakehouse: Lakehouse) -> list[str]:
        """The one."""
        return [self.job]
