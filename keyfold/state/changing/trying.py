"""Run a changed job over all events in a branch, and compare the results; redrive late events."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import polars as pl

from keyfold.errors import NotFound
from keyfold.keyed.generation.generations import Generation, branch_folder, live_generation
from keyfold.keyed.generation.run_mode import Replay
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.runner import RunOptions, RunSummary, run_job
from keyfold.lakehouse import Lakehouse, read_json
from keyfold.lakehouse.reading import scan_table
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


@dataclass(frozen=True)
class Redrive:
    """The results with late events in their place.

    Attributes:
        trial: the replay of all events, in order of event time.
        late_before: late events of the live generation, since the given time.
        late_after: events since that time that are still late, by the job's own rule.
    """

    trial: Trial
    late_before: int
    late_after: int


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

    Raises:
        KeyfoldError: the job has no live generation, or as `run_job`.
    """
    live = _live(lakehouse, job)
    run = run_job(lakehouse, job, Replay(branch, since, until), options=options, runners=runners)
    tried = _branch(lakehouse, job, branch)
    return Trial(job.name, branch, live.name, run, diff_generations(job, live, tried))


def diff_generations(job: KeyedJob, before: Generation, after: Generation) -> dict[str, Difference]:
    """Compare the tables of two generations of a job; returns the comparisons by name of the table."""
    keys = {table.name: table.key or (*job.key, job.event_time) for table in job.tables}
    return {name: diff_tables(before.table(name), after.table(name), key) for name, key in keys.items()}


def redrive(
    lakehouse: Lakehouse,
    job: KeyedJob,
    branch: str = "redrive",
    *,
    since: datetime | None = None,
    options: RunOptions | None = None,
    runners: Runners,
) -> Redrive:
    """Replay all events into a branch, where late events are in their place, and compare its tables with the live ones.

    A run reads its events in order of event time, and only events behind the watermark at its start are late. So in a replay of
    all events none is late, except by a job's own rule.

    Args:
        lakehouse, job, runners: as in `run_job`.
        branch: name of the branch.
        since: count late events from this event time on; None counts all.
        options: options of the replay.

    Raises:
        KeyfoldError: as `try_job`, or no event was late since then.
    """
    live = _live(lakehouse, job)
    before = _late(job, live, since)
    if not before:
        bound = f" since {since:%Y-%m-%d %H:%M:%S}" if since else ""
        raise NotFound(f"job {job.name}: no event was late{bound}; there is nothing to redrive")
    # Replay all events, also before `since`: the state that late events belong to depends on them.
    trial = try_job(lakehouse, job, branch, options=options, runners=runners)
    return Redrive(trial, before, _late(job, _branch(lakehouse, job, branch), since))


def _live(lakehouse: Lakehouse, job: KeyedJob) -> Generation:
    live = live_generation(lakehouse, job.name)
    if live is None:
        raise NotFound(f"job {job.name} has never run, and there is nothing to compare with: `keyfold run {job.name}`")
    return live


def _branch(lakehouse: Lakehouse, job: KeyedJob, branch: str) -> Generation:
    folder = branch_folder(lakehouse, job.name, branch)
    return Generation(folder, read_json(folder / "generation.json"))


def _late(job: KeyedJob, generation: Generation, since: datetime | None) -> int:
    rows = scan_table(generation.table(job.late_table))
    rows = rows if since is None else rows.filter(pl.col(job.event_time) >= since)
    return rows.select(pl.len()).collect().item()
