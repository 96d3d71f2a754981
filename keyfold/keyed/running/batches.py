"""Run the streaming query: one Spark batch for each plan of the journal, in order.

After each batch the driver writes the commit record, and commits the job's tables from it.
"""

import logging
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from keyfold.errors import Damaged, KeyfoldError, StepFailed, error_in
from keyfold.journal.checksums import NOW_AND_THEN
from keyfold.journal.records import Progress, seconds_left
from keyfold.keyed.generation.batch_records import Counts, KeyedDone, KeyedPlan
from keyfold.keyed.generation.checkpoint import clear_unfinished_checkpoint, names_attempts
from keyfold.keyed.generation.generations import RETAINED_BATCHES, Generation
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.parts.manifest import NEVER
from keyfold.keyed.plans.inputs import input_tables
from keyfold.keyed.running.blobs import BLOBS
from keyfold.keyed.running.commit import commit, forget
from keyfold.keyed.running.damage import BatchFailedError
from keyfold.keyed.running.operator import StepError
from keyfold.keyed.running.processor import EMITTED, PartitionProcessor
from keyfold.keyed.running.read import read_slices
from keyfold.keyed.running.upsert_changes import write_changes
from keyfold.keyed.running.write import WORKED, BatchResult, read_reports, write_tables
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.commits import digest_of
from keyfold.lakehouse.data_files import WrittenFile
from keyfold.lakehouse.fail_points import reached
from keyfold.session.workers import check_shared
from keyfold.times import from_micros

_POLL_SECONDS = 1
_ARRIVALS_KEPT = 20
OnBatch = Callable[[Progress, Counts], None]


def batches_of(spark: SparkSession) -> type["Batches"]:
    """Return the class of a session's batches; the stand-in for a session in `keyfold.testing` brings its own."""
    return getattr(spark, "batches", Batches)


class Batches:
    """Run a generation's plans as batches of a streaming query, until no plan is left.

    Args:
        spark, lakehouse, job: as in `run_job`.
        next_plan: plans more batches and returns the first of them; None if there is nothing more to do.
        on_batch: is called after each batch.
        is_single: whether exactly one batch is planned, and none was left by an earlier run.

    Attributes:
        seconds: duration of each batch.
    """

    def __init__(
        self,
        spark: SparkSession,
        lakehouse: Lakehouse,
        job: KeyedJob,
        generation: Generation,
        next_plan: Callable[[], KeyedPlan | None],
        on_batch: OnBatch | None,
        *,
        is_single: bool = False,
    ) -> None:
        self._spark, self._lakehouse, self._job, self._generation = spark, lakehouse, job, generation
        self._next_plan, self._on_batch, self._is_single = next_plan, on_batch, is_single
        self._journal = generation.journal
        self._raised: BaseException | None = None
        self._run_began: dict[int, tuple[float, int]] = {}
        self.seconds: list[float] = []

    def work(self) -> None:
        """Run the query until `next_plan` returns None. After an interrupt, the next run continues with the same batch.

        Raises:
            KeyfoldError: a batch failed. None of its rows were committed, and the next run begins with it.
        """
        query = self._start()
        try:
            while not query.awaitTermination(_POLL_SECONDS):
                pass
        except StreamingQueryException as error:
            if not isinstance(self._raised, NoneLeft):
                raise readable(self._job, self._raised or error) from (self._raised or error)
        finally:
            query.stop()
        if self._is_single and (done := self._journal.last_done()) is not None:
            # Spark has finished it, and begins no further batch in which this would be done.
            forget(self._job, self._generation, done.batch, RETAINED_BATCHES)

    def _start(self) -> StreamingQuery:
        job, generation = self._job, self._generation
        check_shared(self._spark, self._lakehouse.home)
        clear_unfinished_checkpoint(self._spark, generation.checkpoint)
        # A session of its own: the number of partitions is the generation's, and not that of the caller's session.
        spark = self._spark.newSession()
        spark.conf.set("spark.sql.shuffle.partitions", generation.partitions)
        # Spark would add batches without input. Each batch needs a plan, which has its clock.
        spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
        # The session's setting is version 2, which a checkpoint of version 1 does not take.
        if not names_attempts(generation.checkpoint):
            spark.conf.set("spark.sql.streaming.stateStore.checkpointFormatVersion", "1")
        # Rows are few and large blobs: an Arrow batch of them must stay below the 2 GiB that a binary array can hold.
        spark.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", str(256 << 20))
        # The source only counts. The plan defines the input of a batch, so that a repeated batch reads the same files.
        source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", generation.splits)
        numbers = source.option("numPartitions", spark.sparkContext.defaultParallelism).load().select("value")
        reader = read_slices(
            job, self._journal.folder, input_tables(self._lakehouse, job), generation.partitions, generation.splits
        )
        blobs = numbers.mapInArrow(reader, BLOBS)
        processor = PartitionProcessor(job, generation.answers, generation.parts)
        # Time mode "None": Spark would drop late rows silently, by a watermark that depends on batch boundaries.
        emitted = blobs.groupBy("partition").transformWithState(processor, EMITTED, "Append", "None")
        folders = {table.name: generation.table(table.name) for table in job.tables}
        worked = emitted.mapInArrow(write_tables(job, folders), WORKED)
        writer = worked.writeStream.queryName(job.name).option("checkpointLocation", str(generation.checkpoint))
        writer = writer.foreachBatch(self._on_trigger)
        if self._is_single:
            return writer.trigger(once=True).start()
        # `NoneLeft` ends the query, after Spark has planned one more batch. A single batch would take a third longer by it.
        return writer.trigger(processingTime="0 seconds").start()

    def _on_trigger(self, rows: DataFrame, batch: int) -> None:
        """Work on the batch that Spark has begun. Spark repeats a batch that was begun and not finished."""
        try:
            # Spark begins a batch after it has committed the one before to its checkpoint: only now is that one finished.
            if batch:
                forget(self._job, self._generation, batch - 1, RETAINED_BATCHES)
                # A continuous run does not come to the record at the end of a run.
                self._generation.record_checksums(NOW_AND_THEN)
            plan = self._journal.planned(batch) or self._next_plan()
            if plan is None:
                raise NoneLeft  # noqa: TRY301 - it ends the query as any failure does
            self._work_on(plan, rows, batch)
        except BaseException as error:
            # Java returns an exception as text only: keep the exception itself.
            self._raised = error
            raise

    def _work_on(self, plan: KeyedPlan, rows: DataFrame, batch: int) -> None:
        if plan.batch != batch:
            raise Damaged(
                f"job {self._job.name}: Spark is at batch {batch}, and the journal at batch {plan.batch}; "
                "start a new generation with --full-refresh"
            )
        began = time.monotonic()
        done = self._journal.done(batch)
        reached("work: before")
        # This collect runs the tasks. It is bounded: one row for each written file and each task. It also runs for a batch
        # that has a commit record already, since Spark needs the new version of its state.
        worked = read_reports(rows.collect())
        reached("work: after")
        # A commit record is final. If the batch has one, the files of this attempt are never committed.
        if done is None:
            worked.files = write_changes(self._job, self._generation, plan, worked.files)
            done = make_done(self._job, self._journal.last_done(), plan, worked, time.monotonic() - began)
            self._journal.write_done(done)
        commit(self._spark, self._job, self._generation, done)
        self._journal.compact()
        self.seconds.append(time.monotonic() - began)
        self._report_progress(plan, done)

    def _report_progress(self, plan: KeyedPlan, done: KeyedDone) -> None:
        if self._on_batch is None:
            return
        now, ready = time.monotonic(), plan.rows_before + plan.rows
        # Per run: a batch that an earlier run planned belongs to that run's total of rows.
        began, before = self._run_began.setdefault(plan.run, (now - self.seconds[-1], plan.rows_before))
        left = seconds_left(ready - before, plan.rows_of_run - before, now - began)
        number = plan.batch - plan.run + 1
        self._on_batch(Progress(number, plan.batches, ready, plan.rows_of_run, "rows", left), done.counts)


def make_done(
    job: KeyedJob, before: KeyedDone | None, plan: KeyedPlan, worked: BatchResult, seconds: float
) -> KeyedDone:
    """Make the commit record of a batch from its tasks' reports and the previous commit record."""
    totals = before.totals if before else Counts()
    arrivals = before.arrivals if before else ()
    if plan.seed is not None:
        totals, arrivals = Counts(plan.seed.events, plan.seed.rows), plan.seed.arrivals
    tables: dict[str, tuple[WrittenFile, ...]] = {
        table.name: tuple(worked.files[table.name]) for table in job.tables if table.name in worked.files
    }
    rows = {table.name: sum(file.rows for file in tables.get(table.name, ())) for table in job.tables}
    # Totals come from the previous record, and not from the tables: a repeated batch counts the same.
    totals += Counts(worked.report.events, rows, worked.report.open_change)
    by_input = dict(zip(job.inputs, worked.report.by_input or [0] * len(job.inputs), strict=True))
    totals_before = before.total_by_input if before else {}
    is_last = plan.batch == plan.run + plan.batches - 1
    # One arrival per run: `idle_after` is compared with gaps between deliveries, and a delivery may take several batches.
    if is_last and any(one.files for one in plan.inputs):
        arrivals = (*arrivals, plan.clock.processing_time)[-_ARRIVALS_KEPT:]
    return KeyedDone(
        batch=plan.batch,
        run=plan.run,
        finished_at=datetime.now(UTC),
        seconds=seconds,
        tables=tables,
        # A batch without rows makes no commit: the check that journal and tables agree needs each table's last batch.
        last_written={**(before.last_written if before else {}), **dict.fromkeys(tables, plan.batch)},
        last_files={
            **(before.last_files if before else {}),
            **{name: digest_of(files) for name, files in tables.items()},
        },
        # The slices of a run share files, which are read completely after the last slice only. If positions advanced
        # earlier, the next plan would skip the rest of these files.
        positions={one.table: one.position for one in plan.inputs} if is_last else (before.positions if before else {}),
        watermark=plan.clock.watermark,
        state_bytes=worked.report.state_bytes,
        dropped_parts=tuple(sorted(worked.dropped)),
        times=plan.times,
        arrivals=arrivals,
        events=worked.report.events,
        by_input=by_input,
        rows=rows,
        open_change=worked.report.open_change,
        total_events=totals.events,
        total_by_input={name: totals_before.get(name, 0) + count for name, count in by_input.items()},
        total_rows=totals.rows,
        open_events=totals.open_events,
        next_deadline=None if worked.report.deadline == NEVER else from_micros(worked.report.deadline),
        next_stale_at=None if worked.report.stale_at == NEVER else from_micros(worked.report.stale_at),
        processing_time=plan.clock.processing_time,
    )


def _is_error(record: logging.LogRecord) -> bool:
    """Whether py4j logs a real error: it logs every exception that passes through it, and `NoneLeft` ends each run."""
    return not (record.exc_info and isinstance(record.exc_info[1], NoneLeft))


logging.getLogger("py4j.clientserver").addFilter(_is_error)


class NoneLeft(Exception):
    """Ends the query when no plan is left. Spark has begun one more batch by then, which the next run takes over."""


def readable(job: KeyedJob, error: BaseException) -> BaseException:
    """Turn an error of the query into one that says why: find the worker's error in the traceback that Spark quotes."""
    if isinstance(error, KeyfoldError | OSError | KeyboardInterrupt):
        return error
    text = str(error)
    # A worker's error arrives as text within Python's and Java's tracebacks.
    if found := re.search(re.escape(StepError.MARK) + r".*", text):
        return StepFailed(
            f"{found.group()} (nothing of this batch was written; mend the step or the data and run again)"
        )
    if raised := error_in(text):
        return raised
    return BatchFailedError(
        f"job {job.name} failed: {text} (nothing of this batch was written; run it again, and where it fails there again, "
        "start a new generation with --full-refresh)"
    )
