"""`keyfold try`: run a changed job over history beside the live one, and show which rows differ."""

from typing import Annotated, Any

import typer

from keyfold.cli.options import Parameters
from keyfold.cli.state_tools import Branch, Job, build_live_job, compared, working
from keyfold.cli.terminal import AS_JSON, report, usage_faults
from keyfold.cli.trial_markdown import trial_markdown
from keyfold.lakehouse import Lakehouse
from keyfold.privacy import masked_changes
from keyfold.project import project_jobs
from keyfold.runs.chains import consumers_of
from keyfold.state.changing.moving import plan_change
from keyfold.state.changing.trying import Trial, try_job, try_with_consumers
from keyfold.times import parse_time

_SHOWN = 5


def try_(
    job: Job,
    lakehouse: Lakehouse,
    branch: Branch,
    param: Parameters = None,
    since: Annotated[str | None, typer.Option(metavar="ISO_TIME", help="Read events from this time on.")] = None,
    until: Annotated[str | None, typer.Option(metavar="ISO_TIME", help="Read events before this time.")] = None,
    share: Annotated[
        float | None, typer.Option(metavar="NUMBER", help="Play this share of the keys, such as 0.01 for a hundredth.")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="PATH", help="Read and compare with another lakehouse, which is not changed; write to this one."
        ),
    ] = None,
    with_consumers: Annotated[
        bool,
        typer.Option("--with-consumers", help="Also the jobs that read this job's tables, over the branch's rows."),
    ] = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print Markdown for a comment on a pull request, at most 60 kB.")
    ] = False,
) -> None:
    """Run a changed job over history into a branch, and compare its tables with the live ones."""
    if markdown and AS_JSON.get():
        raise typer.BadParameter("give either --markdown or --json")
    if with_consumers and (since or until):
        raise typer.BadParameter("--with-consumers takes all of history: leave out --since and --until")
    with usage_faults():
        span = {"since": parse_time("--since", since), "until": parse_time("--until", until)}
    source = lakehouse if against is None else Lakehouse(against)
    keyed_job, planned = build_live_job(source, job, param), []
    beside = lakehouse if against is None else lakehouse.reading(source)
    with working(source, job) as run_arguments:
        planned = plan_change(source, keyed_job).changes
        trial = try_job(beside, keyed_job, branch, **span, share=share, **run_arguments)
        consumers = consumers_of(source, job, project_jobs()) if with_consumers else []
        results = [trial, *try_with_consumers(beside, trial, consumers, **run_arguments)]
        trials = [result for result in results if isinstance(result, Trial)]
        reasons = [result for result in results if isinstance(result, str)]
        if markdown:
            print(trial_markdown(trials, planned, reasons), end="")
            return
        shown, *of_consumers = map(_shown, trials)
    following = {} if share is not None or against is not None else {"next": lakehouse.command("promote", job, branch)}
    shown["not_compared"] = [*shown["not_compared"], *reasons]
    report(shown, **({"consumers": of_consumers} if with_consumers else {}), **following)


def _shown(trial: Trial) -> dict[str, Any]:
    """Return the results of a trial, with private values masked."""
    private = {table.name: trial.job.private_of(table.schema) for table in trial.job.tables}
    return {
        "job": trial.job.name,
        "branch": trial.branch,
        "live": trial.live,
        "share": trial.share.share if trial.share else None,
        "events": trial.run.counts.events,
        "tables": {
            name: compared(table.summary(), masked_changes(table.first_rows(_SHOWN), private[name]))
            for name, table in trial.tables.items()
        },
        "not_compared": list(trial.not_compared),
    }
