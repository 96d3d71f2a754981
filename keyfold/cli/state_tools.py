"""`keyfold state seed|move|edit` and `keyfold promote`: the tools that change the state of a job."""

import getpass
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated, Any, cast

import polars as pl
import typer

from keyfold.cli.options import Parameters, given_pairs, look_up, runners_for
from keyfold.cli.terminal import progress_of, report, usage_faults
from keyfold.errors import Misconfigured
from keyfold.journal.audit import Author
from keyfold.keyed.generation.configured import live_parameters
from keyfold.keyed.job.building import build_job
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job_run import RunOptions
from keyfold.lakehouse import Lakehouse
from keyfold.project import project_jobs
from keyfold.runs.chains import consumers_of, promote_with_consumers
from keyfold.runs.jobs import JobRun, run_summary
from keyfold.state.changing import editing, moving, promoting
from keyfold.state.differences import Counts
from keyfold.state.making import seeding
from keyfold.times import parse_time

Job = Annotated[str, typer.Argument(help="The job.")]
Branch = Annotated[str, typer.Argument(help="A name for the branch.")]
Partitions = Annotated[int | None, typer.Option("--partitions", min=1, max=32_768, help="Number of state partitions.")]
Why = Annotated[str, typer.Option("--why", help="The reason, for the audit record.")]
Who = Annotated[
    str | None, typer.Option("--who", help="Who makes the change, for the audit record [default: the current user].")
]
Yes = Annotated[bool, typer.Option("--yes", help="Do it; without it, only show what would change.")]


@contextmanager
def working(lakehouse: Lakehouse, task: str) -> Iterator[dict[str, Any]]:
    """Yield the arguments `options` and `runners` of a tool, whose progress is shown, in a folder that is a lakehouse."""
    require_lakehouse(lakehouse)
    with runners_for(None, lakehouse.home) as runners, progress_of(task) as report_progress:
        yield {"options": RunOptions(on_batch=lambda progress, _: report_progress(progress)), "runners": runners}


def following(yes: bool) -> dict[str, Any]:
    """Return what a command that shows first says at its end: whether it was done, and if not how to do it."""
    return {"applied": True} if yes else {"applied": False, "next": "nothing was changed: give --yes to do it"}


def author_of(who: str | None, why: str) -> Author:
    """Return who makes a change, and why."""
    with usage_faults():
        return Author(getpass.getuser() if who is None else who, why)


def seed(
    job: Job,
    lakehouse: Lakehouse,
    source: Annotated[
        str, typer.Option("--from", metavar="TABLE|PATH", help="A table, or Delta, Parquet, CSV or JSON lines.")
    ],
    mapping: Annotated[
        list[str] | None,
        typer.Option(
            "--map", metavar="COLUMN=EXPR", help="A column of state, as SQL over the source's columns; may be repeated."
        ),
    ] = None,
    watermark: Annotated[
        str | None,
        typer.Option(metavar="ISO_TIME", help="Watermark of the seeded state [default: the live generation's]."),
    ] = None,
    from_version: Annotated[
        str | None,
        typer.Option(
            metavar="N|latest|start",
            help="Version of the event table up to which the state contains the events [default: what the live generation has read].",
        ),
    ] = None,
    param: Parameters = None,
    yes: Yes = False,
) -> None:
    """Seed a new generation of a job from a table; the next run continues from it."""
    with usage_faults():
        at, version = parse_time("--watermark", watermark), _version(from_version)
        wanted = seeding.SeedSource(source, dict(given_pairs("--map", mapping)), at, version)
    keyed_job = build_live_job(lakehouse, job, param)
    with working(lakehouse, job) as run_arguments:
        seeded = seeding.seed_job(lakehouse, keyed_job, wanted, yes=yes, runners=run_arguments["runners"])
    report(seeded, **following(yes))


def move(
    job: Job,
    lakehouse: Lakehouse,
    param: Parameters = None,
    partitions: Partitions = None,
    from_history: Annotated[
        bool,
        typer.Option("--from-history", help="Fill new aggregates of what is open from a replay of all events."),
    ] = False,
    yes: Yes = False,
) -> None:
    """Move a job's state and tables into a new generation that fits the job's present schemas and parameters."""
    keyed_job = build_live_job(lakehouse, job, param)
    with working(lakehouse, job) as run_arguments:
        moved = moving.move(
            lakehouse, keyed_job, partitions, from_history=from_history, yes=yes, runners=run_arguments["runners"]
        )
    rows = {"state_rows_before": moved.rows_before, "state_rows": moved.rows, "table_rows": moved.table_rows}
    report({"job": job, "generation": moved.generation.name, **rows, **following(yes)})


def edit(
    job: Job,
    lakehouse: Lakehouse,
    why: Why,
    key: Annotated[
        list[str], typer.Option(metavar="KEY", help="A key; a JSON object if it has several columns. May be repeated.")
    ],
    who: Who = None,
    corrections: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="COLUMN=EXPR", help="A column's new value, as SQL over the state's columns."),
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the keys' state.")] = False,
    yes: Yes = False,
) -> None:
    """Correct or remove the state of named keys, by a batch of its own in the job's journal."""
    if bool(corrections) == remove:
        raise typer.BadParameter("give either --set COLUMN=EXPR or --remove")
    wanted = editing.Edit(tuple(key), dict(given_pairs("--set", corrections)), author_of(who, why))
    keyed_job = build_live_job(lakehouse, job)
    with working(lakehouse, job) as run_arguments:
        edited = editing.edit_state(lakehouse, keyed_job, wanted, yes=yes, runners=run_arguments["runners"])
    rows = {"before": edited.rows_before, "after": edited.rows_after}
    report({"job": job, **rows}, batch=edited.batch, **following(yes))


def promote(
    job: Job,
    lakehouse: Lakehouse,
    branch: Annotated[str, typer.Argument(help="A branch that `keyfold try` wrote.")],
    with_consumers: Annotated[
        bool,
        typer.Option(
            "--with-consumers",
            help="Also refresh the jobs that read this job's tables, in order; all become live in one step.",
        ),
    ] = False,
) -> None:
    """Make a branch the live generation; the next run continues from it."""
    build_live_job(lakehouse, job)
    runs = list[JobRun]()
    if with_consumers:
        with working(lakehouse, job) as run_arguments:
            consumers = consumers_of(lakehouse, job, project_jobs())
            live, runs = promote_with_consumers(lakehouse, job, branch, consumers, **run_arguments)
    else:
        live = promoting.promote(lakehouse, job, branch)
    report({"job": job, "branch": branch, "generation": live.name}, consumers=[run_summary(run) for run in runs])


def build_live_job(lakehouse: Lakehouse, name: str, parameters: list[str] | None = None) -> KeyedJob:
    """Build the job with the given parameters (`name=value`); the others are those of its live generation.

    Raises:
        typer.BadParameter: the project has no such job, or a parameter's value is invalid.
        KeyfoldError: the live generation is missing.
    """
    declared, of_generation = look_up("job", name, project_jobs()), live_parameters(lakehouse, name)
    with usage_faults():
        built = build_job(declared, dict(given_pairs("--param", parameters)), of_generation)
    require_lakehouse(lakehouse)
    return built


def require_lakehouse(lakehouse: Lakehouse) -> None:
    """Check that there is a lakehouse, before a lock or anything else is made in a folder that is none.

    Raises:
        Misconfigured: the folder has neither events nor jobs.
    """
    if not any(True for kind in ("events", "jobs") for _ in lakehouse.home.glob(f"{kind}/*")):
        raise Misconfigured(
            f"{lakehouse.home} is no lakehouse: it has neither events nor jobs; correct KEYFOLD_HOME or --home, or ingest first"
        )


def _version(text: str | None) -> seeding.ReadFrom | None:
    if text is None or text in ("latest", "start"):
        return cast(seeding.ReadFrom | None, text)
    if not text.isdigit():
        raise Misconfigured(f"--from-version is {text!r}; give a version's number, latest or start")
    return int(text)


def compared(counts: Counts, rows: pl.DataFrame) -> dict[str, Any]:
    """Return how a table differs from the live one, with the first rows that differ."""
    return {name: count for name, count in asdict(counts).items() if name not in ("before", "after")} | {
        "samples": rows
    }
