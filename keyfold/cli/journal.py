"""`keyfold journal`: print the last batches of a job or of a stream's ingest."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from keyfold.cli.options import DEFAULT_HOME, AsJson, Home, require_known
from keyfold.cli.terminal import failures, report
from keyfold.ingestion import ingest_journal
from keyfold.journal import PastBatch
from keyfold.keyed.generation.generations import live_generation
from keyfold.lakehouse import Lakehouse
from keyfold.project import project_if_any
from keyfold.state.reading.reader import jobs_with_state
from keyfold.times import BEGINNING, from_iso


def journal(
    name: Annotated[str, typer.Argument(metavar="JOB|STREAM", help="The job or stream.")],
    last: Annotated[int, typer.Option(min=1, help="Number of batches.")] = 20,
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Print the last batches of a job or of a stream's ingest, one line each."""
    with failures():
        history = history_of(Lakehouse(home), name, last)
        report(history.as_json(), as_json, "\n".join(history.describe()))


@dataclass(frozen=True)
class History:
    """The last batches in a journal.

    Attributes:
        name: the job or stream.
        generation: the job's live generation; None for a stream, and for a job that has not run.
        batches: the last batches, oldest first.
        pending: how many batches are planned and not committed; the next run begins with them.
        looked_at: when a run of the job last looked for new events; None for a stream.
        watermark: the job's watermark at that time; None before its first event.
    """

    name: str
    generation: str | None
    batches: tuple[PastBatch, ...]
    pending: int
    looked_at: datetime | None = None
    watermark: datetime | None = None

    def describe(self) -> Iterator[str]:
        """Describe the history in lines for people, one line a batch."""
        where = f"{self.name}, {self.generation}" if self.generation else self.name
        if not self.batches:
            yield f"{where}: no batch yet"
        for one in self.batches:
            planned_at = from_iso(one.planned_at) if one.planned_at else None
            when = f"{planned_at:%Y-%m-%d %H:%M:%S}" if planned_at else "?"
            took = "       -" if one.seconds is None else f"{one.seconds:6.1f} s"
            # `!` marks a batch that is planned and not committed.
            mark = " " if one.finished_at else "!"
            yield f"{mark}{one.batch:>8}  {when}  {took}  {one.read}  ->  {one.made}"
        if self.pending:
            yield f"{where}: {self.pending} planned and not committed; the next run begins with them"
        if self.looked_at is not None and not self._has_batch_of_last_look():
            reached = f"the watermark is {_plain(self.watermark)}" if self.watermark else "no events yet"
            yield f"{where}: last run {_plain(self.looked_at)} found no new events and no due timers; {reached}"

    def as_json(self) -> dict[str, Any]:
        """Return the history as one JSON object."""
        return {**asdict(self), "batches": [asdict(one) for one in self.batches]}

    def _has_batch_of_last_look(self) -> bool:
        planned = [from_iso(one.planned_at) for one in self.batches if one.planned_at]
        return self.looked_at is not None and any(at >= self.looked_at for at in planned[-1:])


def history_of(lakehouse: Lakehouse, name: str, last: int) -> History:
    """Read the last batches of a job's live generation, or of a stream's ingest.

    Raises:
        typer.BadParameter: the project, or the lakehouse where there is none, has no such job or stream.
        KeyfoldError: the journal cannot be read.
    """
    project = project_if_any()
    if project is not None:
        jobs, streams = [*project.jobs], [*project.streams]
    else:
        jobs, streams = jobs_with_state(lakehouse), [folder.name for folder in lakehouse.home.glob("ingest/*")]
    if name in streams:
        journal = ingest_journal(lakehouse, name)
        return History(name, None, tuple(journal.history(last)), len(journal.pending()))
    require_known("job or stream", name, [*jobs, *streams])
    live = live_generation(lakehouse, name)
    if live is None:
        return History(name, None, (), 0)
    clock = live.clock()
    return History(
        name,
        live.name,
        tuple(live.journal.history(last)),
        len(live.journal.pending()),
        clock.reading.wall if clock else None,
        clock.watermark if clock and clock.watermark > BEGINNING else None,
    )


def _plain(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
