"""Order jobs that read tables of other jobs, and find the readers of a job."""

from collections.abc import Collection, Iterable, Sequence

from keyfold.keyed.job.contract import KeyedJob


def downstream_of(producers: Collection[str], jobs: Iterable[KeyedJob]) -> set[str]:
    """Return the names of the jobs that read tables of the producers, directly or through other jobs.

    Example:
        >>> downstream_of({"ride_summaries"}, [])
        set()
    """
    jobs, reached = list(jobs), set(producers)
    while more := {job.name for job in jobs if reached.intersection(job.producers)} - reached:
        reached |= more
    return reached - set(producers)


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
