"""Run a job over past events in a branch, and compare the results. Events that were late before are in time there."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from keyfold.errors import NotFound
from keyfold.keyed.generation.generations import RECORD, Generation, branch_folder, live_generation
from keyfold.keyed.generation.run_mode import Replay
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.runner import RunOptions, RunSummary, run_job
from keyfold.lakehouse import Lakehouse, read_json
from keyfold.runners import Runners
from keyfold.state.differences import Difference, diff_tables


@dataclass(frozen=True)
class Trial:
    """The results of a job in a branch, compared with the live generation.

    Attributes:
        job, branch: names of the job and the branch.
        live: the live generation.
        run: the summary of the replay.
        tables: how each table differs from the live one, by its name.
    """

    job: str
    branch: str
    live: str
    run: RunSummary
    tables: Mapping[str, Difference]


def try_job(
    lakehouse: Lakehouse,
    job: KeyedJob,
    branch: str,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    options: RunOptions | None = None,
    runners: Runners,
) -> Trial:
    """Run a job over past events into a branch, and compare its tables with the live ones.

    A run reads its events in order of event time, and only events behind the watermark at its start are late. So in a replay of
    all events none is late, except by a job's own rule.

    Raises:
        KeyfoldError: the job has no live generation, or as `run_job`.
    """
    live = live_generation(lakehouse, job.name)
    if live is None:
        raise NotFound(f"job {job.name} has never run, and there is nothing to compare with: `keyfold run {job.name}`")
    run = run_job(lakehouse, job, Replay(branch, since, until), options=options, runners=runners)
    folder = branch_folder(lakehouse, job.name, branch)
    tried = Generation(folder, read_json(folder / RECORD))
    return Trial(job.name, branch, live.name, run, diff_generations(job, live, tried))


def diff_generations(job: KeyedJob, before: Generation, after: Generation) -> dict[str, Difference]:
    """Compare the tables of two generations of a job; returns the comparisons by name of the table."""
    keys = {table.name: table.key or (*job.key, job.event_time) for table in job.tables}
    return {name: diff_tables(before.table(name), after.table(name), key) for name, key in keys.items()}
