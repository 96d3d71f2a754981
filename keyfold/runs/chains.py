"""Chains of jobs that read tables of other jobs: refresh or promote a job together with its readers, in one atomic step."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from keyfold.keyed.generation.configured import configured_job
from keyfold.keyed.generation.generations import Generation
from keyfold.keyed.generation.going_live import finish_going_live, go_live
from keyfold.keyed.generation.live_record import live_generation_name
from keyfold.keyed.generation.run_mode import FullRefresh
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job_run import RunOptions, RunSummary, fill_beside
from keyfold.lakehouse import Lakehouse
from keyfold.runners import Runners
from keyfold.runs.jobs import JobRun, published
from keyfold.sinks.publisher import Publisher
from keyfold.state.changing.promoting import to_promote


def downstream_of(producers: Collection[str], jobs: Iterable[KeyedJob]) -> set[str]:
    """Return the names of the jobs that read tables of the producers, directly or through other jobs.

    Example:
        >>> downstream_of({"ride_summaries"}, [])
        set()
    """
    jobs, readers = list(jobs), set(producers)
    while more := {job.name for job in jobs if readers.intersection(job.producers)} - readers:
        readers |= more
    return readers - set(producers)


def in_order(jobs: Sequence[KeyedJob]) -> list[KeyedJob]:
    """Sort jobs so that each is after the jobs whose tables it reads.

    Example:
        >>> in_order([])
        []
    """
    waiting, ordered = list(jobs), list[KeyedJob]()
    while waiting:
        names = {job.name for job in waiting}
        # Jobs that read each other would loop here without end: take all of them.
        ready = [job for job in waiting if not names.intersection(job.producers)] or waiting
        ordered += ready
        waiting = [job for job in waiting if job not in ready]
    return ordered


def consumers_of(lakehouse: Lakehouse, producer: str, declared: Mapping[str, KeyedJob]) -> list[KeyedJob]:
    """Return the jobs that read a job's tables, directly or through other jobs, each after all jobs that it reads.

    They have the parameters of their live generations. Jobs that have never run are left out.

    Raises:
        KeyfoldError: a job cannot be built with the parameters of its live generation.
    """
    live = [name for name in declared if name != producer and live_generation_name(lakehouse, name) is not None]
    jobs = [configured_job(lakehouse, declared[name]) for name in live]
    names = downstream_of({producer}, jobs)
    return in_order([job for job in jobs if job.name in names])


def refresh_with_consumers(
    lakehouse: Lakehouse,
    job: KeyedJob,
    consumers: Sequence[KeyedJob],
    mode: FullRefresh | None = None,
    *,
    options: RunOptions | None = None,
    runners: Runners | None = None,
) -> list[JobRun]:
    """Read all events again into new generations of a job and of its consumers, which go live in one step.

    Args:
        lakehouse, options, runners: as in `run`.
        job: the producer.
        consumers: the result of `consumers_of`.
        mode: its `advance_to` applies to the producer; the consumers' event time follows.

    Raises:
        KeyfoldError: as `run`, for any of the jobs; all live generations stay as they are.
    """
    with held(lakehouse, [job.name, *(consumer.name for consumer in consumers)]):
        summaries = refresh_together(lakehouse, [job, *consumers], options, runners, mode)
    return published_runs(lakehouse, [job, *consumers], summaries)


def refresh_together(
    lakehouse: Lakehouse,
    jobs: Sequence[KeyedJob],
    options: RunOptions | None,
    runners: Runners | None,
    mode: FullRefresh | None = None,
) -> list[RunSummary]:
    """Read all events again into new generations of jobs, which go live in one step. The caller must hold their locks.

    Args:
        lakehouse, options, runners: as in `run`.
        jobs: the jobs, each after all jobs that it reads.
        mode: the mode of the first.

    Raises:
        KeyfoldError: as `run`, for any of the jobs; all live generations stay as they are.
    """
    generations, summaries = fill_together(lakehouse, jobs, options, runners, mode=mode)
    go_live(lakehouse, *generations)
    return summaries


def promote_with_consumers(
    lakehouse: Lakehouse,
    job: str,
    branch: str,
    consumers: Sequence[KeyedJob],
    *,
    options: RunOptions | None = None,
    runners: Runners | None = None,
) -> tuple[Generation, list[JobRun]]:
    """Make a branch of a job live, together with new generations of its consumers, which read the branch's tables.

    Raises:
        KeyfoldError: as `promote`, and as `refresh_with_consumers`.
    """
    with held(lakehouse, [job, *(consumer.name for consumer in consumers)]):
        generation = to_promote(lakehouse, job, branch)
        if generation.name == live_generation_name(lakehouse, job):
            # An earlier call was cut off after its decision: finish it.
            for consumer in consumers:
                finish_going_live(lakehouse, consumer.name)
            return generation, []
        generations, summaries = fill_together(lakehouse, consumers, options, runners, [generation])
        go_live(lakehouse, *generations)
    return generation, published_runs(lakehouse, consumers, summaries)


def published_runs(lakehouse: Lakehouse, jobs: Sequence[KeyedJob], summaries: Sequence[RunSummary]) -> list[JobRun]:
    """Send the new rows of jobs to the topics of their tables, after their runs and without their locks."""
    return [published(summary, Publisher(lakehouse, job)) for job, summary in zip(jobs, summaries, strict=True)]


def fill_together(
    lakehouse: Lakehouse,
    jobs: Sequence[KeyedJob],
    options: RunOptions | None,
    runners: Runners | None,
    filled: Sequence[Generation] = (),
    mode: FullRefresh | None = None,
) -> tuple[list[Generation], list[RunSummary]]:
    """Fill a new generation of each job from the new generations of its producers; returns `filled` and these, and their runs.

    None of them is live then. The caller must hold the jobs' locks.

    Raises:
        KeyfoldError: as `run`, for any of the jobs.
    """
    generations, summaries, runners = list(filled), list[RunSummary](), runners or Runners.from_environment()
    for job in jobs:
        # To this view of the lakehouse, the new generations are the live ones.
        ahead = lakehouse.seeing({generation.record.job: generation.name for generation in generations})
        of_first = mode if mode is not None and not generations else FullRefresh()
        generation, summary = fill_beside(ahead, job, of_first, options or RunOptions(), runners=runners)
        generations.append(generation)
        summaries.append(summary)
    return generations, summaries


@contextmanager
def held(lakehouse: Lakehouse, jobs: Iterable[str]) -> Iterator[None]:
    """Hold the locks of jobs.

    Raises:
        KeyfoldError: a run holds one of them.
    """
    with ExitStack() as locks:
        for job in jobs:
            locks.enter_context(lakehouse.job(job).exclusive(f"job {job}"))
        yield
