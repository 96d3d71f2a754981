"""Which jobs a change of events computes again, whether they can be, and how their tables differ then."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

import polars as pl

from keyfold.errors import KeyfoldError
from keyfold.keyed.generation.generations import Generation, live_generation, next_folder
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.plans.input_tables import has_read, input_tables
from keyfold.lakehouse import Lakehouse, carrying
from keyfold.lakehouse.file_changes import files_of
from keyfold.runs.chains import downstream_of, in_order
from keyfold.runs.changed_events import TableChange
from keyfold.runs.deciding_changes import SHOWN
from keyfold.state.changing.trying import diff_generations
from keyfold.stream import Stream


def readers_of(lakehouse: Lakehouse, streams: Sequence[Stream], jobs: Sequence[KeyedJob]) -> list[KeyedJob]:
    """Return the jobs with a live generation that read streams, directly or through others, each after those it reads."""
    live = [job for job in jobs if live_generation(lakehouse, job.name) is not None]
    tables = {f"events.{stream.name}" for stream in streams}
    direct = {job.name for job in live if not tables.isdisjoint(input_tables(lakehouse, job))}
    names = direct | downstream_of(direct, live)
    return in_order([job for job in live if job.name in names])


def live_of(lakehouse: Lakehouse, job: KeyedJob) -> Generation:
    """Return the live generation of a job that has one."""
    live = live_generation(lakehouse, job.name)
    assert live is not None  # noqa: S101 - `readers_of` gives jobs with a live generation
    return live


def check_can_be_replayed(lakehouse: Lakehouse, jobs: Sequence[KeyedJob]) -> None:
    """Check that a refresh of jobs loses nothing that is not in their inputs."""
    for job in jobs:
        origin = live_of(lakehouse, job).origin
        if origin is not None and (origin.how == "seed" or origin.events_skipped):
            raise KeyfoldError(
                f"job {job.name} began with state from {origin.what}, which a refresh does not have. Take the rows out of that "
                f"source, give the seed up with `{lakehouse.command('run', job.name, '--full-refresh')}`, repeat this command, "
                "and then seed the job again with `keyfold state seed`"
            )


def jobs_that_have_read(
    lakehouse: Lakehouse, readers: Sequence[KeyedJob], rows: Mapping[str, pl.DataFrame]
) -> list[KeyedJob]:
    """Return the jobs that have read one of the rows, by stream, and those that read their tables."""
    files = {f"events.{stream}": files_of(changed) for stream, changed in rows.items()}
    direct = {
        job.name
        for job in readers
        for input_ in job.inputs.values()
        if files.get(input_.table)
        and has_read(live_of(lakehouse, job), input_, input_tables(lakehouse, job)[input_.table], files[input_.table])
    }
    names = direct | downstream_of(direct, readers)
    return [job for job in readers if job.name in names]


def table_changes(
    lakehouse: Lakehouse, jobs: Sequence[KeyedJob], generations: Collection[Generation]
) -> dict[str, TableChange]:
    """Compare the tables of new generations with the live ones."""
    changes: dict[str, TableChange] = {}
    for job, generation in zip(jobs, generations, strict=True):
        for name, difference in diff_generations(job, live_of(lakehouse, job), generation).items():
            rows = difference.first_rows(0 if job.private else SHOWN)
            changes[name] = TableChange(difference.summary(), rows)
    return changes


@contextmanager
def corrected_view(lakehouse: Lakehouse, stream: Stream, jobs: Sequence[KeyedJob]) -> Iterator[Lakehouse]:
    """Yield a view of the lakehouse with a second event table of the same files, and remove what was made beside the live ones."""
    aside = lakehouse.home / "aside" / f"{stream.name}-corrected"
    # Of a call that only showed, and was cut off.
    aside.remove_tree(missing_ok=True)
    try:
        carrying.replace_rows(lakehouse.events(stream.name), aside, {}, None)
        yield lakehouse.seeing({}, {stream.name: aside})
    finally:
        for job in jobs:
            next_folder(lakehouse, job.name)  # removes generations that are not live
        aside.remove_tree(missing_ok=True)
