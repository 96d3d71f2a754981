"""The runner: one bounded (or continuous) run of a keyed job over what is new in its event table."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from pyspark.sql import SparkSession

from keyfold.errors import Damaged, NotFound
from keyfold.journal.agreement import check_tables
from keyfold.journal.clock import LOOK_EVERY, read_clock
from keyfold.keyed.generation.batch_records import ClockRecord, Counts, KeyedPlan
from keyfold.keyed.generation.checkpoint import check_checkpoint, finished_batch
from keyfold.keyed.generation.fingerprint import check_generation
from keyfold.keyed.generation.generations import Generation, go_live, live_generation
from keyfold.keyed.generation.run_mode import FullRefresh, Incremental, ModeName, Replay, RunMode
from keyfold.keyed.generation.together import settle_pointer
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.lookups import KeptLookups
from keyfold.keyed.plans.inputs import REMEDY, check_inputs, input_tables, produced_until
from keyfold.keyed.plans.lookout import LastPlanned, wait_for_news
from keyfold.keyed.plans.planning import PlannedRun, RunBounds, plan_run
from keyfold.keyed.running.batches import OnBatch, batches_on
from keyfold.keyed.running.commit import commit
from keyfold.keyed.running.damage import damage_told
from keyfold.keyed.running.new_generation import new_branch, new_generation
from keyfold.lakehouse import Lakehouse, exclusive, is_table
from keyfold.session.gateway import check_java
from keyfold.times import in_utc

_WHAT_IS_NEW = Incremental()


@dataclass(frozen=True)
class RunOptions:
    """How a run goes about its work; none of these changes a result.

    Attributes:
        max_bytes_per_batch: of event files in a batch.
        on_batch: called after each batch with how far the run has come and the batch's counts.
    """

    max_bytes_per_batch: int = 128 << 20
    on_batch: OnBatch | None = None


@dataclass(frozen=True)
class RunSummary:
    """What one run of a job did.

    Attributes:
        job, generation, mode: what ran.
        counts: of this run.
        totals: of the generation so far; its `open_events` are those open now.
        watermark: event time reached, None before any event.
        batch_seconds: duration of each batch.
        seconds: duration of the whole run.
        warnings: what people should know of: a clock that jumps, an `idle_after` that is too short.
    """

    job: str
    generation: str
    mode: ModeName
    counts: Counts
    totals: Counts
    watermark: datetime | None
    batch_seconds: tuple[float, ...]
    seconds: float
    warnings: tuple[str, ...] = ()


def run_job(
    spark: SparkSession,
    lakehouse: Lakehouse,
    job: KeyedJob,
    mode: RunMode = _WHAT_IS_NEW,
    *,
    options: RunOptions | None = None,
) -> RunSummary:
    """Process all that is new, let time go on, and end.

    Args:
        spark: the session.
        lakehouse: where the event table and the job's own tables are.
        job: what runs.
        mode: what is asked for: `Incremental`, `FullRefresh` or `Replay`.
        options: how the run goes about it.

    Raises:
        KeyfoldError: nothing was ingested yet, another run holds the job, a setting does not fit the generation, what
            is on disk is of different times, or the step raised. The next run resumes where a failed one broke off.
    """
    options = options or RunOptions()
    span = (mode.since, mode.until) if isinstance(mode, Replay) else (None, None)
    advance_to = None if mode.advance_to is None else in_utc(mode.advance_to)
    with _opened(spark, lakehouse, job, mode, options) as run:
        run.to_the_end(RunBounds(options.max_bytes_per_batch, *span, advance_to))
        if isinstance(mode, FullRefresh):
            # Only now: until all is read, readers keep the tables that they have.
            go_live(lakehouse, run.generation)
        return run.summary()


def fill_beside(
    spark: SparkSession, lakehouse: Lakehouse, job: KeyedJob, mode: FullRefresh, options: RunOptions
) -> tuple[Generation, RunSummary]:
    """Read all events into a new generation, which is not live yet; call it under the job's lock.

    Raises:
        KeyfoldError: as `run_job`; what is live stays so.
    """
    with damage_told(lakehouse, job):
        _check_tables_are_there(lakehouse, job)
        with _at_work(spark, lakehouse, job, mode, options) as run:
            run.to_the_end(
                RunBounds(options.max_bytes_per_batch, advance_to=mode.advance_to and in_utc(mode.advance_to))
            )
            return run.generation, run.summary()


def run_continuously(
    spark: SparkSession,
    lakehouse: Lakehouse,
    job: KeyedJob,
    *,
    every: timedelta = LOOK_EVERY,
    stop: threading.Event | None = None,
    options: RunOptions | None = None,
) -> RunSummary:
    """Process events as they come until told to stop; time goes on too, and timers of processing time fire when due.

    Args:
        spark, lakehouse, job: as of `run_job`.
        every: from one look at the event table to the next.
        stop: set to end the run, which then finishes the batch that it is at.
        options: how the run goes about it.

    Raises:
        KeyfoldError: as `run_job`; or Spark's Java process has ended, which is noticed while nothing comes too.
    """
    options = options or RunOptions()
    with _opened(spark, lakehouse, job, _WHAT_IS_NEW, options) as run:
        run.until(stop or threading.Event(), every, RunBounds(options.max_bytes_per_batch))
        return run.summary()


@contextmanager
def _opened(
    spark: SparkSession, lakehouse: Lakehouse, job: KeyedJob, mode: RunMode, options: RunOptions
) -> Iterator["_Run"]:
    """Hold the job, find or make its generation, and see that all that hangs on its journal agrees with it."""
    with damage_told(lakehouse, job):
        _check_tables_are_there(lakehouse, job)
        with (
            exclusive(lakehouse.job(job.name), f"job {job.name}"),
            _at_work(spark, lakehouse, job, mode, options) as run,
        ):
            yield run


@contextmanager
def _at_work(
    spark: SparkSession, lakehouse: Lakehouse, job: KeyedJob, mode: RunMode, options: RunOptions
) -> Iterator["_Run"]:
    settle_pointer(lakehouse, job.name)
    if isinstance(mode, Replay):
        generation = new_branch(spark, lakehouse, job, mode.branch, (mode.since, mode.until))
    elif isinstance(mode, FullRefresh):
        generation = new_generation(spark, lakehouse, job)
    # The first generation goes live at once: there are no tables yet that readers could be spared.
    elif (live := live_generation(lakehouse, job.name)) is None:
        generation = new_generation(spark, lakehouse, job)
        go_live(lakehouse, generation)
    else:
        generation = live
        # Before anything is written to it: a run that does not fit leaves no trace.
        check_generation(generation, job)
        _check_agreement(lakehouse, job, generation)
        # A crash may lie between the last commit record and its commits; those made already are passed over.
        if (done := generation.journal.last_done()) is not None:
            commit(spark, job, generation, done)
    done = generation.journal.last_done()
    yield _Run(spark, lakehouse, job, generation, mode.name, options, done.totals if done else Counts())
    generation.record_checksums()


def _check_tables_are_there(lakehouse: Lakehouse, job: KeyedJob) -> None:
    for name in job.producers:
        if (live := live_generation(lakehouse, name)) is None or live.journal.last_done() is None:
            raise NotFound(
                f"job {job.name} reads a table of job {name}, which has not run in {lakehouse.home} yet; run "
                f"`{lakehouse.command('run', name)}` first"
            )
    for stream in job.streams:
        events = lakehouse.events(stream.name)
        if is_table(events):
            continue
        if (lakehouse.ingest(stream.name) / "ingest.json").exists():
            raise Damaged(
                f"job {job.name} reads events.{stream.name}, which is gone from {events} although files were ingested; restore "
                f"it, or run `{lakehouse.command('ingest', stream.name, '--rebuild')}`, and then this job with --full-refresh"
            )
        raise NotFound(
            f"job {job.name} reads events.{stream.name}, which is not in {lakehouse.home} yet; "
            f"run `keyfold ingest {stream.name} --from DIR` first"
        )


def _check_agreement(lakehouse: Lakehouse, job: KeyedJob, generation: Generation) -> None:
    where = f"job {job.name}, {generation.name}"
    check_inputs(lakehouse, generation, where)
    tables = {table.name: generation.table(table.name) for table in job.tables}
    check_tables(generation.journal, tables, generation.record["table_ids"], generation.identity, where, REMEDY)
    check_checkpoint(generation, where)


class _Run:
    """One run of a job on one generation."""

    def __init__(
        self,
        spark: SparkSession,
        lakehouse: Lakehouse,
        job: KeyedJob,
        generation: Generation,
        mode: ModeName,
        options: RunOptions,
        before: Counts,
    ) -> None:
        self.generation = generation
        self._spark, self._lakehouse, self._job = spark, lakehouse, job
        self._mode: ModeName = mode
        self._options = options
        self._journal = generation.journal
        self._began = time.monotonic()
        self._before = before
        # A dictionary, for each text once and in order: a continuous run plans every few seconds.
        self._warnings: dict[str, None] = {}
        self._batch_seconds: list[float] = []
        self._clock: ClockRecord | None = None
        self._lookups = KeptLookups(f"job {job.name}", job.lookups, lakehouse.home, generation.folder)

    def to_the_end(self, wanted: RunBounds) -> None:
        """Work on what an earlier run left, then on what is new, and let time go on."""
        planned: PlannedRun | None = None

        def next_plan() -> KeyedPlan | None:
            nonlocal planned
            if planned is None:
                planned = self._plan(wanted)
                # Only the first: the journal has the others, and each batch looks there before it asks.
                return planned.plans[0] if planned.plans else None
            return None

        if self._is_behind() or next_plan() is not None:
            self._work(next_plan)
        assert planned is not None  # noqa: S101 - the query ends only when it has asked for the next plan
        self.generation.write_clock(planned.clock)

    def until(self, stop: threading.Event, every: timedelta, wanted: RunBounds) -> None:
        """Work on what is new as it comes, until told to stop."""
        tables = input_tables(self._lakehouse, self._job)
        last: LastPlanned | None = None

        def next_plan() -> KeyedPlan | None:
            nonlocal last
            done = self._journal.last_done()
            while wait_for_news(tables, done, stop, every, last):
                # On a silent stream nothing else would be asked of it.
                check_java()
                began, planned = time.monotonic(), self._plan(wanted)
                last = LastPlanned(began, planned.clock.processing_time)
                if planned.plans:
                    return planned.plans[0]
                self.generation.write_clock(planned.clock)
            return None

        try:
            if self._is_behind() or next_plan() is not None:
                self._work(next_plan)
        except KeyboardInterrupt:
            stop.set()

    def summary(self) -> RunSummary:
        """What came of the run."""
        done = self._journal.last_done()
        totals = done.totals if done else Counts(rows={table.name: 0 for table in self._job.tables})
        return RunSummary(
            job=self._job.name,
            generation=self.generation.name,
            mode=self._mode,
            counts=totals - self._before,
            totals=totals,
            watermark=watermark(self.generation),
            batch_seconds=tuple(self._batch_seconds),
            seconds=time.monotonic() - self._began,
            warnings=tuple(self._warnings),
        )

    def _is_behind(self) -> bool:
        """Whether an earlier run left a batch that is planned and not finished."""
        done = self._journal.last_done()
        return bool(self._journal.pending()) or (
            done is not None and finished_batch(self.generation.checkpoint) != done.batch
        )

    def _plan(self, wanted: RunBounds) -> PlannedRun:
        """Plan what is new, and write the plans down."""
        tables = input_tables(self._lakehouse, self._job)
        # Before the tables are looked at.
        produced = produced_until(self._lakehouse, self._job)
        done, lookups = self._journal.last_done(), self._lookups.plan()
        # Where events come without a pause no clock is written: what the last plan read is known here alone.
        clock = self._clock or self.generation.clock()
        planned = plan_run(self._job, tables, done, clock, read_clock(), wanted, lookups, produced)
        self._clock = planned.clock
        self._warnings |= dict.fromkeys(planned.warnings)
        if planned.plans:
            self._journal.write_plans(planned.plans)
        return planned

    def _work(self, next_plan: Callable[[], KeyedPlan | None]) -> None:
        batches = batches_on(
            self._spark, self._lakehouse, self._job, self.generation, next_plan, self._options.on_batch
        )
        try:
            batches.work()
        finally:
            self._batch_seconds += batches.seconds


def watermark(generation: Generation) -> datetime | None:
    """The event time that a generation has reached, None before any event."""
    done = generation.journal.last_done()
    if done is None:
        return None
    clock = generation.clock()
    return max(done.watermark, clock.watermark) if clock else done.watermark
