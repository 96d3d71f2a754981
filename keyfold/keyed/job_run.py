"""Run a keyed job over the new events of its input tables: once (`run_job`), or until it is stopped (`run_continuously`).

A run locks the job, opens its generation, checks that journal, state and tables agree, finishes what an earlier run left,
and then plans and processes new events. `keyed/execution` has the work of a batch.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from keyfold.journal.clock import LOOK_EVERY, read_clock
from keyfold.keyed.execution.batches import Batches, OnBatch
from keyfold.keyed.execution.damage import damage_diagnosed
from keyfold.keyed.execution.filling import fill
from keyfold.keyed.execution.generation_sources import Events
from keyfold.keyed.execution.opening import OpenedGeneration, check_inputs_exist, generation_of_run
from keyfold.keyed.generation.batch_records import ClockRecord, Counts
from keyfold.keyed.generation.generations import Generation
from keyfold.keyed.generation.going_live import go_live
from keyfold.keyed.generation.run_mode import NEW_EVENTS, FullRefresh, ModeName, Replay, RunMode
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.lookups import KeptLookups
from keyfold.keyed.plans.input_tables import LastPlanned, input_tables, produced_until, wait_for_news
from keyfold.keyed.plans.planning import PlannedRun, RunBounds, plan_run
from keyfold.lakehouse import Lakehouse
from keyfold.runners import Runners
from keyfold.times import in_utc


@dataclass(frozen=True)
class RunOptions:
    """Options of a run that change no result.

    Attributes:
        max_bytes_per_batch: bytes of event files in a batch, at most.
        on_batch: called after each batch with the progress of the run and the counts of the batch.
    """

    max_bytes_per_batch: int = 128 << 20
    on_batch: OnBatch | None = None


@dataclass(frozen=True)
class RunSummary:
    """Summary of one run of a job.

    Attributes:
        job, generation, mode: what ran.
        counts: counts of this run.
        totals: counts of the generation so far; `open_events` is the number of events in open state now.
        watermark: the watermark after the run; None before any event.
        runner: which runner the last batch of the run had, and why; None without a batch.
        batch_seconds: duration of each batch.
        seconds: duration of the whole run.
        warnings: problems that do not fail the run, such as a clock jump or an `idle_timeout` that is too short.
    """

    job: str
    generation: str
    mode: ModeName
    counts: Counts
    totals: Counts
    watermark: datetime | None
    runner: str | None
    batch_seconds: tuple[float, ...]
    seconds: float
    warnings: tuple[str, ...] = ()


def run_job(
    lakehouse: Lakehouse,
    job: KeyedJob,
    mode: RunMode = NEW_EVENTS,
    *,
    options: RunOptions | None = None,
    runners: Runners | None = None,
) -> RunSummary:
    """Process all new events, advance time, and return; `keyfold.run` also sends the new rows to their topics.

    Raises:
        KeyfoldError: nothing was ingested yet, another run has locked the job, a setting does not fit the generation, journal,
            state and tables do not agree, or the step raised. The next run resumes where a failed one stopped.
    """
    options = options or RunOptions()
    span = (mode.since, mode.until) if isinstance(mode, Replay) else (None, None)
    share = mode.share if isinstance(mode, Replay) else None
    advance_to = None if mode.advance_to is None else in_utc(mode.advance_to)
    with _opened(runners or Runners.from_environment(), lakehouse, job, mode, options) as run:
        run.to_the_end(RunBounds(options.max_bytes_per_batch, *span, advance_to, share=share))
        if isinstance(mode, FullRefresh):
            # Readers see the old tables until the new generation has read all events.
            go_live(lakehouse, run.generation)
        return run.summary()


def fill_beside(
    lakehouse: Lakehouse, job: KeyedJob, mode: FullRefresh, options: RunOptions, *, runners: Runners
) -> tuple[Generation, RunSummary]:
    """Read all events into a new generation that is not live yet; the caller holds the job's lock.

    Raises:
        KeyfoldError: as `run_job`; the live generation stays as it is.
    """
    with damage_diagnosed(lakehouse, job):
        check_inputs_exist(lakehouse, job)
        run = _Run(runners, lakehouse, job, generation_of_run(runners, lakehouse, job, mode), mode.name, options)
        run.to_the_end(RunBounds(options.max_bytes_per_batch, advance_to=mode.advance_to and in_utc(mode.advance_to)))
        return run.generation, run.summary()


def fill_span(
    lakehouse: Lakehouse,
    job: KeyedJob,
    live: Generation,
    branch: str,
    span: tuple[datetime | None, datetime | None],
    options: RunOptions,
    *,
    runners: Runners,
) -> Generation:
    """Read a span of the events that the live generation has read into a branch, up to its watermark; the caller holds the job's lock.

    Raises:
        KeyfoldError: as `run_job`.
    """
    with damage_diagnosed(lakehouse, job):
        source = Events(span)
        filled = fill(runners, lakehouse, job, source, branch=branch, partitions=live.partitions).generation
        run = _Run(runners, lakehouse, job, OpenedGeneration(filled), Replay.name, options)
        as_of = live.journal.last_done()
        run.to_the_end(RunBounds(options.max_bytes_per_batch, *span, watermark(live), as_of))
        return filled


def run_continuously(
    lakehouse: Lakehouse,
    job: KeyedJob,
    *,
    every: timedelta = LOOK_EVERY,
    stop: threading.Event | None = None,
    options: RunOptions | None = None,
    runners: Runners | None = None,
) -> RunSummary:
    """Process events as they arrive, until `stop` is set. Time advances and timers fire without events too.

    Args:
        every: interval between two looks at the input tables.
        stop: ends the run when it is set; the batch in progress is finished first.

    Raises:
        KeyfoldError: as `run_job`; or Spark's Java process has ended.
    """
    options = options or RunOptions()
    with _opened(runners or Runners.from_environment(), lakehouse, job, NEW_EVENTS, options) as run:
        run.until(stop or threading.Event(), every, RunBounds(options.max_bytes_per_batch))
        return run.summary()


@contextmanager
def _opened(
    runners: Runners, lakehouse: Lakehouse, job: KeyedJob, mode: RunMode, options: RunOptions
) -> Iterator["_Run"]:
    """Lock the job and open its generation."""
    with damage_diagnosed(lakehouse, job):
        # Before the lock is taken, which creates the job's folder.
        check_inputs_exist(lakehouse, job)
        with lakehouse.job(job.name).exclusive(f"job {job.name}"):
            yield _Run(runners, lakehouse, job, generation_of_run(runners, lakehouse, job, mode), mode.name, options)


@dataclass
class _Run:
    """One run of a job on one generation."""

    runners: Runners
    lakehouse: Lakehouse
    job: KeyedJob
    opened: OpenedGeneration
    mode: ModeName
    options: RunOptions

    def __post_init__(self) -> None:
        self.generation = self.opened.generation
        self._journal = self.generation.journal
        self._began = time.monotonic()
        self._before = self._totals()
        # An ordered set: a continuous run plans every few seconds, and repeats its warnings.
        self._warnings: dict[str, None] = {}
        self._clock: ClockRecord | None = None
        self._new_code = self.opened.new_code
        self._batches = Batches(self.runners, self.lakehouse, self.job, self.generation, self.options.on_batch)
        self._lookups = KeptLookups(
            f"job {self.job.name}", self.job.lookups, self.lakehouse.source_of().home, self.generation.folder
        )

    def to_the_end(self, bounds: RunBounds) -> None:
        """Finish the batches that an earlier run left, process all new events, and advance time."""
        self._batches.run_planned(of_earlier_run=True)
        planned = self._plan(bounds)
        # Without a batch, nothing is asked of the runner: such a run takes milliseconds.
        self._batches.run_planned()
        # After the batches. If a crash comes first, the next run continues from the clock of the last commit record.
        self.generation.write_clock(planned.clock)

    def until(self, stop: threading.Event, every: timedelta, bounds: RunBounds) -> None:
        """Process new events as they arrive, until `stop` is set."""
        tables = input_tables(self.lakehouse, self.job)
        last: LastPlanned | None = None
        try:
            self._batches.run_planned(of_earlier_run=True)
            while wait_for_news(tables, self._journal.last_done(), stop, every, last):
                # On a silent stream no other call would notice that Java has ended.
                self.runners.check_alive()
                began, planned = time.monotonic(), self._plan(bounds)
                last = LastPlanned(began, planned.clock.processing_time, planned.positions)
                if planned.plans:
                    self._batches.run_planned()
                else:
                    self.generation.write_clock(planned.clock)
        except KeyboardInterrupt:
            # The usual end of a continuous run in a terminal is no error; the next run repeats an interrupted batch.
            stop.set()

    def summary(self) -> RunSummary:
        """Summarize the run so far."""
        totals = self._totals()
        return RunSummary(
            job=self.job.name,
            generation=self.generation.name,
            mode=self.mode,
            counts=totals - self._before,
            totals=totals,
            watermark=watermark(self.generation),
            runner=self._batches.runner,
            batch_seconds=tuple(self._batches.seconds),
            seconds=time.monotonic() - self._began,
            warnings=tuple(self._warnings),
        )

    def _totals(self) -> Counts:
        """Return the counts of the generation so far."""
        last = self._journal.last_done()
        return last.totals if last else Counts(rows={table.name: 0 for table in self.job.tables})

    def _plan(self, bounds: RunBounds) -> PlannedRun:
        """Plan the new events, and write the plans to the journal."""
        tables = input_tables(self.lakehouse, self.job)
        # Before the tables: rows that are committed in between would otherwise be late.
        produced = produced_until(self.lakehouse, self.job)
        # Earlier plans are finished when a run plans again, so their lookups may be deleted.
        last, lookups = self._journal.last_done(), self._lookups.plan()
        # A continuous run writes the clock file only when there is nothing to plan: the last plan's clock may be newer.
        clock = self._clock or self.generation.clock()
        planned = plan_run(self.job, tables, last, clock, read_clock(), bounds, lookups, produced)
        self._clock = planned.clock
        self._warnings |= dict.fromkeys(planned.warnings)
        if planned.plans:
            if self._new_code:
                first = planned.plans[0].model_copy(update={"new_code": self._new_code})
                planned, self._new_code = replace(planned, plans=[first, *planned.plans[1:]]), ""
            self._journal.write_plans(planned.plans)
        return planned


def watermark(generation: Generation) -> datetime | None:
    """Return the watermark of a generation; None before any event."""
    last = generation.journal.last_done()
    if last is None:
        return None
    clock = generation.clock()
    # A run without batches advances the clock record only; a crash before it is written leaves it behind the commit record.
    return max(last.watermark, clock.watermark) if clock else last.watermark
