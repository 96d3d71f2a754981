"""Chains of jobs: which jobs are made of others' tables, and in what order."""

from collections.abc import Collection, Iterable, Sequence

from keyfold.keyed.job.contract import KeyedJob


def made_of(producers: Collection[str], jobs: Iterable[KeyedJob]) -> set[str]:
    """The names of the jobs that read tables of some, directly or by others; those themselves left out.

    Example:
        >>> made_of({"ride_summaries"}, [])
        set()
    """
    jobs, found = list(jobs), set(producers)
    while more := {job.name for job in jobs if found.intersection(job.producers)} - found:
        found |= more
    return found - set(producers)


def in_order(jobs: Sequence[KeyedJob]) -> list[KeyedJob]:
    """The jobs, each behind all of them that it reads.

    Example:
        >>> in_order([])
        []
    """
    waiting, found = list(jobs), list[KeyedJob]()
    while waiting:
        names = {job.name for job in waiting}
        # Jobs that read each other, which no sane project has, would go round for ever.
        ready = [job for job in waiting if not names.intersection(job.producers)] or waiting
        found += ready
        waiting = [job for job in waiting if job not in ready]
    return found
