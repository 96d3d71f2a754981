"""Try a changed job over past events in a branch, of all keys or of a share of them, and compare its tables with the live ones.

Events that were late before are in time in a branch. Of a share, a branch has the same rows as one of all keys would have of these
keys: the slices and clocks of its batches are those of all events.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType

import polars as pl

from keyfold.errors import NotFound
from keyfold.keyed.generation.generation_record import RECORD, read_record
from keyfold.keyed.generation.generations import Generation, branch_folder, live_generation
from keyfold.keyed.generation.run_mode import Replay
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.inputs import Input
from keyfold.keyed.job.row_times import within
from keyfold.keyed.job.tables import OutputTable
from keyfold.keyed.job_run import RunOptions, RunSummary, run_job, watermark
from keyfold.keyed.rows.codec import polars_schema
from keyfold.keyed.rows.key_share import KeyShare
from keyfold.lakehouse import Lakehouse, is_table
from keyfold.lakehouse.reading import scan_table
from keyfold.runners import Runners
from keyfold.state.differences import Difference, diff_tables
from keyfold.storage.place import Place


@dataclass(frozen=True)
class Trial:
    """The results of a job in a branch, compared with the live generation.

    Attributes:
        job, branch: the job, and the name of the branch.
        live: the live generation.
        run: the summary of the replay.
        tables: how each table differs from the live one, by its name.
        share: the keys that were played; None for all.
        not_compared: what is not compared, and why.
    """

    job: KeyedJob
    branch: str
    live: str
    run: RunSummary
    tables: Mapping[str, Difference]
    share: KeyShare | None = None
    not_compared: tuple[str, ...] = ()


def try_job(
    lakehouse: Lakehouse,
    job: KeyedJob,
    branch: str,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    share: float | None = None,
    options: RunOptions | None = None,
    runners: Runners,
) -> Trial:
    """Run a job over past events into a branch, and compare its tables with the live ones.

    A run reads its events in order of event time, and only events behind the watermark at its start are late. So in a replay of
    all events none is late, except by a job's own rule. Of a span of events, only rows are compared that depend on no others
    (`KeyedJob.row_times`), or whose event time is in it.

    Args:
        lakehouse: the lakehouse of the branch. Events and live tables are those of its `source`, if it has one.
        job: the job.
        branch: the name of the branch.
        since, until: the span of event time that is read.
        share: the share of the keys that is played; None for all.

    Raises:
        KeyfoldError: the job has no live generation, the share is no share, or as `run_job`.
    """
    of_keys = None if share is None else KeyShare(job.key, share)
    return _tried(lakehouse, job, Replay(branch, since, until, share=of_keys), options, runners)


def try_with_consumers(
    lakehouse: Lakehouse,
    trial: Trial,
    consumers: Sequence[KeyedJob],
    *,
    options: RunOptions | None = None,
    runners: Runners,
) -> Iterator[Trial | str]:
    """Run the jobs that read the tables of a tried job over the rows of its branch, and compare theirs.

    Args:
        lakehouse, options, runners: as in `try_job`.
        trial: the result of `try_job`, of all times.
        consumers: the jobs that read the job's tables, each after all jobs that it reads.

    Yields:
        the trial of each; or why it is none: of a share, a job that is keyed otherwise gets a part of its events only.

    Raises:
        KeyfoldError: as `try_job`.
    """
    ahead, left = {trial.job.name: f"branches/{trial.branch}"}, set[str]()
    for consumer in consumers:
        if trial.share is not None and (reason := _other_keys(consumer, trial.share, left)):
            left.add(consumer.name)
            yield f"job {consumer.name}: {reason}"
            continue
        mode = Replay(trial.branch, share=trial.share)
        yield _tried(lakehouse.seeing(ahead), consumer, mode, options, runners)
        ahead[consumer.name] = f"branches/{trial.branch}"


def _other_keys(consumer: KeyedJob, share: KeyShare, left: set[str]) -> str:
    """Return why the events of a job are not whole for a share of the keys; empty if they are."""
    if skipped := sorted(left & {*consumer.producers}):
        return f"it reads {', '.join(skipped)}, which was not tried"
    if not set(share.key) <= {*consumer.key}:
        return (
            f"it is keyed by {', '.join(consumer.key)}, and the share is of {', '.join(share.key)}: its keys would have a part of "
            "their events only"
        )
    changed = [name for name, input_ in consumer.inputs.items() if _makes_key(input_, share.key)]
    if changed:
        return (
            f"its input {', '.join(changed)} computes {', '.join(share.key)} anew: its keys are not those of the share"
        )
    return ""


def _makes_key(input_: Input, key: Collection[str]) -> bool:
    exploded = input_.refined.exploded
    computed = {*input_.refined.derived, *input_.computed, *([exploded.column] if exploded else [])}
    return input_.producer is not None and not computed.isdisjoint(key)


def _tried(lakehouse: Lakehouse, job: KeyedJob, mode: Replay, options: RunOptions | None, runners: Runners) -> Trial:
    source = lakehouse.source or lakehouse
    live = live_generation(source, job.name)
    if live is None:
        run = source.command("run", job.name)
        raise NotFound(f"job {job.name} has never run, and there is nothing to compare with: `{run}`")
    summary = run_job(lakehouse, job, mode, options=options, runners=runners)
    folder = branch_folder(lakehouse, job.name, mode.branch)
    tried = Generation(folder, read_record(folder / RECORD))
    reasons = {table.name: _lacks_key(job, table, live, tried, mode.share) for table in job.tables}
    which = {table.name: rows for table in job.tables if (rows := _compared_rows(job, table, tried)) is not None}
    left_out = {name: reason for name, reason in reasons.items() if reason}
    compared = diff_generations(job, live, tried, which, left_out)
    not_compared = tuple(f"table {name}: {reason}" for name, reason in left_out.items())
    return Trial(job, mode.branch, live.name, summary, compared, mode.share, not_compared)


def _compared_rows(job: KeyedJob, table: OutputTable, tried: Generation) -> pl.Expr | None:
    """Return which rows of a table are compared; None for all."""
    of_events, share = _of_events(job, table, tried), tried.record.share
    if share is None:
        return of_events
    of_keys = share.condition(polars_schema(job.columns))
    return of_keys if of_events is None else of_keys & of_events


def _of_events(job: KeyedJob, table: OutputTable, tried: Generation) -> pl.Expr | None:
    """Return which rows of a table depend on the events of a branch alone, and are final in it; None for all, or if that is unknown."""
    (since, until), final_until = tried.record.span, watermark(tried)
    if since is None and until is None:
        return None
    times = job.row_times
    if times is not None and (time := times.of_table(table)) is not None:
        return times.rows_of(since, until if until is None or final_until is None else min(until, final_until), time)
    return within(pl.col(job.event_time), since, until) if job.event_time in table.schema.names else None


def _lacks_key(job: KeyedJob, table: OutputTable, live: Generation, tried: Generation, share: KeyShare | None) -> str:
    """Return why rows of some keys cannot be told from others in a table; empty if they can be."""
    if share is None:
        return ""
    for place in (live.table(table.name), tried.table(table.name)):
        lacking = set(share.key) - set(scan_table(place).collect_schema()) if is_table(place) else set()
        if lacking:
            return f"it has no column {', '.join(sorted(lacking))}, by which rows of the share are told from others"
    if _has_others(tried.table(table.name), share.condition(polars_schema(job.columns))):
        return f"its {', '.join(share.key)} is not the key of the events: rows of the share cannot be told from others"
    return ""


def _has_others(table: Place, condition: pl.Expr) -> bool:
    """Whether a table that was made of a share has rows with keys that are not in it."""
    return is_table(table) and scan_table(table).filter(~condition).select(pl.len()).collect().item() > 0


def diff_generations(
    job: KeyedJob,
    before: Generation,
    after: Generation,
    which: Mapping[str, pl.Expr] = MappingProxyType({}),
    left_out: Collection[str] = (),
) -> dict[str, Difference]:
    """Compare the tables of two generations of a job; returns the comparisons by name of the table.

    Args:
        job: the job.
        before, after: the generations.
        which: by table, which rows are compared; all of the others.
        left_out: tables that are not compared.
    """
    return {
        table.name: diff_tables(
            before.table(table.name), after.table(table.name), _compared_by(job, table), which.get(table.name)
        )
        for table in job.tables
        if table.name not in left_out
    }


def _compared_by(job: KeyedJob, table: OutputTable) -> tuple[str, ...]:
    """Return the columns by which rows of a table are compared; several may have the same values."""
    time = job.row_times and job.row_times.of_table(table)
    times = (job.event_time,) if time is None else time.meta.root_names()
    return table.key or tuple(dict.fromkeys((*job.key, *times)))
