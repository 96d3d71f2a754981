"""`keyfold plan`: what was changed in a job, or in which jobs, and what that needs before they run."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer

from keyfold.cli.options import Parameters
from keyfold.cli.state_tools import Partitions, build_live_job, require_lakehouse
from keyfold.cli.terminal import AS_JSON, report
from keyfold.errors import KeyfoldError
from keyfold.keyed.generation.configured import configured_job
from keyfold.keyed.generation.live_record import live_generation_name
from keyfold.keyed.job.contract import KeyedJob
from keyfold.lakehouse import Lakehouse
from keyfold.project import project_jobs
from keyfold.runs.jobs import own_parameters
from keyfold.state.changing.moving import ChangePlan, plan_change


def plan(
    lakehouse: Lakehouse,
    job: Annotated[str | None, typer.Argument(help="The job.")] = None,
    changed: Annotated[
        bool, typer.Option("--changed", help="List all jobs that declare something else than their live generations.")
    ] = False,
    param: Parameters = None,
    partitions: Partitions = None,
) -> None:
    """Report what was changed in a job, by argument, and what that needs before it runs: nothing, a state move, or a full refresh.

    Other code of a step is the author's to judge: a run goes on with it, and `keyfold try` shows its effect.
    """
    if (job is None) != changed or (changed and (param or partitions)):
        raise typer.BadParameter("give a job, or --changed for all jobs with the parameters of their live generations")
    if job is None:
        _plan_all(lakehouse)
        return
    keyed_job = build_live_job(lakehouse, job, param)
    planned, own = plan_change(lakehouse, keyed_job, partitions), own_parameters(lakehouse, keyed_job)
    options = [word for text in param or () for word in ("--param", text)]
    number = [] if partitions is None else ["--partitions", str(partitions)]
    report(
        _summary(planned),
        live_parameters={name: now for name, (now, _) in own.items()},
        next=_next(lakehouse, keyed_job, planned, options, number),
    )


def _plan_all(lakehouse: Lakehouse) -> None:
    """Report the jobs of the project that differ from their live generations, and those that have none."""
    require_lakehouse(lakehouse)
    differing, new, same = list[dict[str, Any]](), list[str](), list[str]()
    for name, declared in project_jobs().items():
        if live_generation_name(lakehouse, name) is None:
            new.append(name)
            continue
        try:
            job = configured_job(lakehouse, declared)
            planned = plan_change(lakehouse, job)
        except KeyfoldError as error:
            # It has a generation, and cannot go on with it.
            differing.append({"job": name, "verdict": "refresh", "error": str(error)})
            continue
        if not planned.changes and not planned.effects:
            same.append(name)
            continue
        summary = {
            key: value for key, value in _summary(planned).items() if key in ("job", "verdict", "changes", "effects")
        }
        differing.append({**summary, "next": _next(lakehouse, job, planned)})
    if AS_JSON.get():
        report({"changed": differing, "new": new, "unchanged": same})
        return
    report({"changed": {plan.pop("job"): plan for plan in differing} or "none", "new": new, "unchanged": same})


def _summary(planned: ChangePlan) -> Mapping[str, Any]:
    summary = asdict(planned)
    if not AS_JSON.get():
        summary["changes"] = [str(change) for change in planned.changes] or "none"
        summary["effects"] = [str(change) for change in planned.effects]
    return summary


def _next(
    lakehouse: Lakehouse, job: KeyedJob, planned: ChangePlan, options: Sequence[str] = (), number: Sequence[str] = ()
) -> str:
    """Return the commands to give next, with the options that were given."""
    run, trial = (
        lakehouse.command(command, job.name, *more, *options) for command, more in (("run", ()), ("try", ("BRANCH",)))
    )
    # Rows of some jobs can be computed again of a span alone, once a run goes on with the job.
    again = lakehouse.command("reprocess", job.name, "--since", "TIME", "--why", "REASON")
    later = "" if job.row_times is None else f"; {again} to compute rows of the past again"
    following = {
        "free": run,
        "judge": f"{trial} to see what would change; {run}{later}",
        "move": f"{lakehouse.command('state', 'move', job.name, *options, *number)}{later}",
        "refresh": f"{trial} to see what would change; {lakehouse.command('run', job.name, '--full-refresh', *options)}",
    }
    return following[planned.verdict]
