"""The state tools as Dagster jobs: a form in the launchpad each, checked before anything starts, confirmed by name.

None of them has a schedule or a sensor. What replaces state by what no event brings back, or erases rows, asks for a token
that pages do not show (`tokens`). What they did stands in the run's output, and edits and erasures in `monitoring.edits` too.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import dagster as dg
import polars as pl
from pydantic import Field, model_validator
from pyspark.sql import SparkSession

from keyfold.dagster.assets.previews import preview_rows
from keyfold.dagster.automation.state.tokens import TOKEN_HELP, check_token, token_told
from keyfold.errors import Misconfigured
from keyfold.keyed.generation.configured import configured_job
from keyfold.keyed.generation.generations import live_generation_name
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.parameters import is_path
from keyfold.lakehouse import Lakehouse
from keyfold.project import project_jobs, project_streams
from keyfold.sharing import sharing
from keyfold.state.changing.audit import Author
from keyfold.state.changing.editing import Edit, edit_state
from keyfold.state.changing.moving import move, plan_change
from keyfold.state.changing.promoting import promote
from keyfold.state.changing.trying import frame_of, redrive, try_job
from keyfold.state.differences.comparing import TableDifference
from keyfold.state.erasure.erasing import Erasure, erase
from keyfold.state.making.bootstrap import Bootstrap, ReadFrom, bootstrap
from keyfold.times import parse_time

_TAGS = {"keyfold/tool": "state"}
_NAMED: Mapping[str, ReadFrom] = {"live": "live", "latest": "latest", "start": "start"}


class OfJob(dg.Config):
    """What every tool of one job takes."""

    job: str = Field(description=f"One of: {', '.join(project_jobs())}.")
    confirm: str = Field(description="The job's name again: this run changes which generation of it is live.")
    parameters: dict[str, str] = Field(
        default_factory=dict, description="The job's parameters that are to differ from the live generation's."
    )

    @model_validator(mode="after")
    def _is_confirmed(self) -> Self:
        if self.job not in project_jobs():
            raise ValueError(f"no job {self.job!r}; jobs there: {', '.join(project_jobs())}")
        if self.confirm != self.job:
            raise ValueError(f"confirm is {self.confirm!r}: write the job's name, {self.job}, once more")
        return self

    def keyed_job(self, lakehouse: Lakehouse) -> KeyedJob:
        """The job, with its live generation's parameters but for those given.

        Raises:
            KeyfoldError: one of them is the path of a file, or as `configured_job`.
        """
        fields = project_jobs()[self.job].parameters.model_fields
        if paths := [name for name in self.parameters if name in fields and is_path(fields[name])]:
            raise Misconfigured(f"{', '.join(paths)}: a run config names no file; give it on the command line")
        return configured_job(lakehouse, project_jobs()[self.job], given=self.parameters)


class BootstrapConfig(OfJob):
    """What `state_bootstrap` takes; see `keyfold state bootstrap`."""

    source: str = Field(description="A table of the lakehouse, by its name. Files: `keyfold state bootstrap`.")
    mapping: dict[str, str] = Field(
        default_factory=dict, description="What a column of state is: SQL over the source's columns, by column."
    )
    watermark: str | None = Field(
        default=None, description="ISO 8601 time that the state has reached. Left out: the live generation's."
    )
    from_version: str | None = Field(
        default=None,
        description="Version of the event table that the state has seen: a number, live, latest or start. Left out: where "
        "the live generation has read to.",
    )
    # The other way round than on the command line: a form is sent by one click.
    dry_run: bool = Field(default=True, description="Check, count and show; change nothing.")
    token: str = Field(default="", description=TOKEN_HELP)

    def wanted(self, lakehouse: Lakehouse) -> Bootstrap:
        """The bootstrap.

        Raises:
            KeyfoldError: the source is no table of the lakehouse, or the version is none.
        """
        if self.source not in (tables := lakehouse.tables()):
            raise Misconfigured(
                f"source is {self.source!r}: a run config names no file, but a table of {lakehouse.home} "
                f"({', '.join(tables) or 'none yet'}); to seed from files: `keyfold state bootstrap`"
            )
        return Bootstrap(self.source, self.mapping, parse_time("watermark", self.watermark), self._version())

    def _version(self) -> ReadFrom | None:
        if self.from_version is None or self.from_version in _NAMED:
            return None if self.from_version is None else _NAMED[self.from_version]
        if not self.from_version.isdigit():
            raise Misconfigured(f"from_version is {self.from_version!r}; give a number, live, latest or start")
        return int(self.from_version)


class MoveConfig(OfJob):
    """What `state_move` takes; see `keyfold state move`."""

    partitions: int | None = Field(default=None, ge=1, description="Of Spark's state store. Left out: as they are.")
    dry_run: bool = Field(default=True, description="Say what the change means; change nothing.")


class TryConfig(OfJob):
    """What `state_try` takes; see `keyfold try`."""

    branch: str = Field(description="A name for the branch.")


class PromoteConfig(OfJob):
    """What `state_promote` takes; see `keyfold promote`."""

    branch: str = Field(description="The branch that is to be live.")


class RedriveConfig(OfJob):
    """What `state_redrive` takes; see `keyfold redrive`."""

    branch: str = Field(default="redrive", description="A name for the branch.")
    since: str | None = Field(default=None, description="Of late events, those from this ISO 8601 time on.")
    promote: bool = Field(default=False, description="Make the branch live at the end.")


class EditConfig(OfJob):
    """What `state_edit` takes; see `keyfold state edit`."""

    keys: list[str] = Field(min_length=1, description="Keys; of several columns each a JSON object.")
    corrections: dict[str, str] = Field(
        default_factory=dict,
        description="What columns of state are to be: SQL, by column. Left out: the keys' state goes.",
    )
    who: str = Field(description="Who does it.")
    why: str = Field(description="Why; both are written down.")
    dry_run: bool = Field(default=True, description="Show what would change; change nothing.")
    token: str = Field(default="", description=TOKEN_HELP)


class EraseConfig(dg.Config):
    """What `state_erase` takes; see `keyfold erase`."""

    stream: str = Field(description=f"One of: {', '.join(project_streams())}.")
    confirm: str = Field(description="The stream's name again: what is erased is gone.")
    values: dict[str, list[str]] = Field(description="Whose rows: a column's values, by column.")
    who: str = Field(description="Who does it.")
    why: str = Field(description="Why; both are written down.")
    remove_unsearchable: bool = Field(
        default=False, description="Remove quarantined lines too whose fields cannot be told, whoever's they are."
    )
    dry_run: bool = Field(default=True, description="Count what would go; erase nothing.")
    token: str = Field(default="", description=TOKEN_HELP)

    @model_validator(mode="after")
    def _is_confirmed(self) -> Self:
        if self.stream not in project_streams():
            raise ValueError(f"no stream {self.stream!r}; streams there: {', '.join(project_streams())}")
        if self.confirm != self.stream:
            raise ValueError(f"confirm is {self.confirm!r}: write the stream's name, {self.stream}, once more")
        return self


@dg.op(out=dg.Out(dg.Nothing), tags=_TAGS)
def bootstrap_state(
    context: dg.OpExecutionContext,
    config: BootstrapConfig,
    spark: dg.ResourceParam[SparkSession],
    lakehouse: dg.ResourceParam[Lakehouse],
) -> None:
    """Seed a new generation of a job from a table."""
    job = config.keyed_job(lakehouse)
    wanted = config.wanted(lakehouse)
    check_token(context, config)
    told = bootstrap(spark, lakehouse, job, wanted, dry_run=config.dry_run)
    context.add_output_metadata(
        {
            **token_told(context, config),
            "generation": told.generation or "unchanged (dry run)",
            "rows": told.checked.rows,
            "keys": told.checked.keys,
            "events": told.checked.events,
            "timers": dict(told.checked.timers),
            "left_empty": list(told.checked.left_empty),
            "watermark": told.watermark.isoformat(),
            "rows_to_read_next": told.new_rows,
            "sample": preview_rows(told.sample, _private(job)),
        }
    )


@dg.op(out=dg.Out(dg.Nothing), tags=_TAGS)
def move_state(
    context: dg.OpExecutionContext,
    config: MoveConfig,
    spark: dg.ResourceParam[SparkSession],
    lakehouse: dg.ResourceParam[Lakehouse],
) -> None:
    """Say what a change of a job means, or take its state and tables along into a new generation."""
    job = config.keyed_job(lakehouse)
    plan = plan_change(lakehouse, job, config.partitions)
    told: dict[str, Any] = {
        "verdict": plan.verdict,
        "changes": preview_rows(
            pl.DataFrame(
                [
                    {
                        "setting": one.setting,
                        "before": str(one.before),
                        "after": str(one.after),
                        "means": one.verdict,
                        "why": one.why,
                    }
                    for one in plan.changes
                ]
            )
        ),
        "state_bytes": plan.state_bytes,
        "events": plan.events,
    }
    if not config.dry_run:
        moved = move(spark, lakehouse, job, config.partitions)
        told |= {"generation": moved.generation.name, "state_rows": moved.rows, "table_rows": moved.table_rows}
    context.add_output_metadata(told)


@dg.op(out=dg.Out(dg.Nothing), tags=_TAGS)
def try_changed_job(
    context: dg.OpExecutionContext,
    config: TryConfig,
    spark: dg.ResourceParam[SparkSession],
    lakehouse: dg.ResourceParam[Lakehouse],
) -> None:
    """Run a changed job over history into a branch, and tell how its tables differ from the live ones."""
    job = config.keyed_job(lakehouse)
    trial = try_job(spark, lakehouse, job, config.branch)
    context.add_output_metadata({"live": trial.live, "branch": trial.branch, **_differences(job, trial.tables)})


@dg.op(out=dg.Out(dg.Nothing), tags=_TAGS)
def promote_branch(
    context: dg.OpExecutionContext, config: PromoteConfig, lakehouse: dg.ResourceParam[Lakehouse]
) -> None:
    """Make a branch the live generation."""
    context.add_output_metadata({"generation": promote(lakehouse, config.job, config.branch).name})


@dg.op(out=dg.Out(dg.Nothing), tags=_TAGS)
def redrive_late_events(
    context: dg.OpExecutionContext,
    config: RedriveConfig,
    spark: dg.ResourceParam[SparkSession],
    lakehouse: dg.ResourceParam[Lakehouse],
) -> None:
    """Tell what a job's tables would be had its late events come in time, and make it so where that is asked for."""
    job = config.keyed_job(lakehouse)
    found = redrive(spark, lakehouse, job, config.branch, since=parse_time("since", config.since))
    told: dict[str, Any] = {"late_before": found.late_before, "late_after": found.late_after}
    if config.promote:
        told["generation"] = promote(lakehouse, config.job, config.branch).name
    context.add_output_metadata({**told, **_differences(job, found.trial.tables)})


@dg.op(out=dg.Out(dg.Nothing), tags=_TAGS)
def edit_keys(
    context: dg.OpExecutionContext,
    config: EditConfig,
    spark: dg.ResourceParam[SparkSession],
    lakehouse: dg.ResourceParam[Lakehouse],
) -> None:
    """Correct or remove the state of named keys, in a new generation."""
    job = config.keyed_job(lakehouse)
    edit = Edit(tuple(config.keys), config.corrections, Author(config.who, config.why))
    check_token(context, config)
    edited = edit_state(spark, lakehouse, job, edit, dry_run=config.dry_run)
    context.add_output_metadata(
        {
            **token_told(context, config),
            "generation": edited.generation or "unchanged (dry run)",
            "before": preview_rows(edited.rows_before, _private(job)),
            "after": preview_rows(edited.rows_after, _private(job)),
        }
    )


@dg.op(out=dg.Out(dg.Nothing), tags=_TAGS)
def erase_rows_everywhere(
    context: dg.OpExecutionContext,
    config: EraseConfig,
    spark: dg.ResourceParam[SparkSession],
    lakehouse: dg.ResourceParam[Lakehouse],
) -> None:
    """Erase rows of a stream everywhere: state, tables, late, quarantine, events and their history."""
    live = [name for name in project_jobs() if live_generation_name(lakehouse, name) is not None]
    jobs = [configured_job(lakehouse, project_jobs()[name]) for name in live]
    erasure = Erasure(config.values, Author(config.who, config.why), config.remove_unsearchable)
    check_token(context, config)
    streams = project_streams()
    erased = erase(
        spark,
        lakehouse,
        streams[config.stream],
        jobs,
        erasure,
        sharing=sharing(streams, config.stream),
        dry_run=config.dry_run,
    )
    context.add_output_metadata(
        {
            **token_told(context, config),
            "rows": erased.rows,
            "summed_up_and_left": list(erased.sums),
            "refresh_to_sum_up_anew": list(erased.summed_up_by),
            "unsearchable_lines": erased.unsearchable.lines,
            "unsearchable": list(erased.unsearchable.where),
            "generations": erased.generations,
            "files_deleted": erased.files_deleted,
            "look_yourself": list(erased.not_touched),
        }
    )


@dg.job(description="Seed a new generation of a job from any table; the next run goes on from there.")
def state_bootstrap() -> None:
    bootstrap_state()


@dg.job(description="What a change of a job means; and a move of its state and tables into a new generation.")
def state_move() -> None:
    move_state()


@dg.job(description="Run a changed job over history into a branch, and tell how its tables differ from the live ones.")
def state_try() -> None:
    try_changed_job()


@dg.job(description="Make a branch the live generation of its job.")
def state_promote() -> None:
    promote_branch()


@dg.job(description="What a job's tables would be had its late events come in time; and make it so.")
def state_redrive() -> None:
    redrive_late_events()


@dg.job(description="Correct or remove the state of named keys, with who and why.")
def state_edit() -> None:
    edit_keys()


@dg.job(description="Erase rows of a stream wherever they are kept, with who and why.")
def state_erase() -> None:
    erase_rows_everywhere()


STATE_TOOLS = [state_bootstrap, state_move, state_try, state_promote, state_redrive, state_edit, state_erase]
"""Every tool, as a job."""


def _private(job: KeyedJob) -> frozenset[str]:
    return job.private_of(job.state)


def _differences(job: KeyedJob, tables: Sequence[TableDifference]) -> dict[str, dg.MetadataValue]:
    schemas = {table.name: table.schema for table in job.tables}
    return {
        "differences": preview_rows(frame_of(tuple(tables))),
        **{
            f"samples of {one.table}": preview_rows(one.samples, job.private_of(schemas[one.table]))
            for one in tables
            if not one.is_none
        },
    }
