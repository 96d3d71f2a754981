"""Do the work of planned batches of a keyed job: each is one exchange of a runner, and a commit record.

After each batch the driver writes the commit record, and commits the job's tables from it.
"""

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from keyfold.errors import KeyfoldError, StepFailed, error_in
from keyfold.journal.planned_batches import run_batches
from keyfold.journal.records import Progress, written_after
from keyfold.keyed.execution.blobs import BLOBS, Handover, handover_for
from keyfold.keyed.execution.commit import commit, forget, remove_strays, write_changes
from keyfold.keyed.execution.damage import BatchFailedError
from keyfold.keyed.execution.operator import PartitionOperator, StepError
from keyfold.keyed.execution.read import read_slices
from keyfold.keyed.execution.work import WORKED, BatchResult, read_reports, work_on_partitions
from keyfold.keyed.generation.batch_records import Counts, KeyedDone, KeyedPlan, Span
from keyfold.keyed.generation.generations import RETAINED_BATCHES, Generation
from keyfold.keyed.generation.manifests import by_file, files_of, write_manifests
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.plans.input_tables import input_tables
from keyfold.keyed.state_parts.manifest import NEVER
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.data_files import WrittenFile
from keyfold.lakehouse.fail_points import fail_point
from keyfold.runners import Runners
from keyfold.runners.runner import OnBatches
from keyfold.times import from_micros

_ARRIVALS_KEPT = 20
OnBatch = Callable[[Progress, Counts], None]
Tasks = Callable[[KeyedPlan, Mapping[int, str], Handover], tuple[OnBatches, OnBatches]]
"""Makes what the tasks of a batch do before and after the shuffle (`Runner.exchange`).

It is given the plan, the file of each state partition's manifest by label, and how rows are handed over.
"""


@dataclass(frozen=True)
class Replacement:
    """What a batch replaces in the tables, which no task has made.

    Attributes:
        span: the span of the rows that go.
        files: the files with the rows in their place, by table.
    """

    span: Span
    files: Mapping[str, list[WrittenFile]]


class Batches:
    """Runs the batches that a generation's journal has planned: the work of keyed jobs (`BatchWork`).

    Args:
        runners, lakehouse, job: as in `run_job`.
        on_batch: is called after each batch.
        tasks: what the tasks of a batch do, where it is not to read events and call the job's step (`writing_state`).
        edited: what a batch of these tasks changes, if it is an edit.
        replacement: what it replaces in the tables.

    Attributes:
        seconds: duration of each batch.
        runner: which runner the last batch had, and why; None without a batch.
    """

    unit = "rows"

    def __init__(
        self,
        runners: Runners,
        lakehouse: Lakehouse,
        job: KeyedJob,
        generation: Generation,
        on_batch: OnBatch | None = None,
        tasks: Tasks | None = None,
        edited: str = "",
        replacement: Replacement | None = None,
    ) -> None:
        self._replacement = replacement
        self._runners, self._lakehouse, self._job, self._generation = runners, lakehouse, job, generation
        self._on_batch, self._tasks, self._edited = on_batch, tasks or self._step, edited
        self._journal = generation.journal
        self._began, self._has_strays = time.monotonic(), False
        self.seconds: list[float] = []
        self.runner: str | None = None

    def run_planned(self, *, of_earlier_run: bool = False) -> None:
        """Run the batches that are planned and not done. After an interrupt, the next run continues with the same batch.

        Args:
            of_earlier_run: whether an earlier run has planned them, which may have begun the first.

        Raises:
            KeyfoldError: a batch failed. None of its rows were committed, and the next run begins with it.
        """
        self._has_strays = of_earlier_run
        try:
            run_batches(self._journal, self._journal.pending(), self, self._report)
        except Exception as error:
            explained = readable(self._job, error)
            if explained is error:
                raise  # with its own cause, such as the error of a step
            raise explained from error

    def work(self, plan: KeyedPlan, before: KeyedDone | None) -> KeyedDone:
        """Exchange the rows of a batch, write its changes and manifests, and return its commit record."""
        job, generation = self._job, self._generation
        self._began = began = time.monotonic()
        fail_point("work: before")
        worked = self._exchange(plan, files_of(before))
        fail_point("work: after")
        replaced = self._replacement
        worked.files = write_changes(job, generation, plan, dict(replaced.files) if replaced else worked.files)
        changed = {label: manifest for label, manifest in worked.manifests.items() if manifest is not None}
        manifests = write_manifests(generation.manifests, plan.batch, changed) if changed else ""
        fail_point("state: manifests written")
        self.runner = self._runners.reason(plan.bytes)
        seconds = time.monotonic() - began
        changed = {"edited": self._edited, "replaced": replaced and replaced.span}
        return make_done(job, before, plan, worked, manifests, **changed, runner=self.runner, seconds=seconds)

    def commit(self, record: KeyedDone) -> None:
        """Commit the tables of a batch, and remove what no later batch needs."""
        commit(self._runners, self._job, self._generation, record)
        forget(self._job, self._generation, record.batch, RETAINED_BATCHES)
        self._journal.compact(self._generation.archive_clocks)
        if self._has_strays:
            remove_strays(self._generation, record)
            self._has_strays = False
        self.seconds.append(time.monotonic() - self._began)

    def _exchange(self, plan: KeyedPlan, manifests: Mapping[int, str]) -> BatchResult:
        runner, partitions, splits = (
            self._runners.for_bytes(plan.bytes),
            self._generation.partitions,
            self._generation.splits,
        )
        runner.check_shared(self._lakehouse.home)
        read, work = self._tasks(plan, manifests, handover_for(runner))
        numbers = range(plan.batch * splits, (plan.batch + 1) * splits)
        # The result is bounded: one row for each written file, each changed state partition and each task.
        return read_reports(runner.exchange(read, numbers, BLOBS, partitions, work, WORKED).to_pylist())

    def _step(self, plan: KeyedPlan, manifests: Mapping[int, str], handover: Handover) -> tuple[OnBatches, OnBatches]:
        job, generation, tables = self._job, self._generation, input_tables(self._lakehouse, self._job)
        operator = PartitionOperator(job, generation.responses, generation.parts, handover)
        return (
            read_slices(job, self._journal.folder, tables, generation.partitions, generation.splits, handover),
            work_on_partitions(job, generation, manifests, operator.call),
        )

    def _report(self, progress: Progress, record: KeyedDone) -> None:
        if self._on_batch is not None:
            self._on_batch(progress, record.counts)


def make_done(
    job: KeyedJob,
    before: KeyedDone | None,
    plan: KeyedPlan,
    worked: BatchResult,
    manifests: str,
    *,
    edited: str = "",
    replaced: Span | None = None,
    runner: str,
    seconds: float,
) -> KeyedDone:
    """Make the commit record of a batch from its tasks' reports and the previous commit record.

    Args:
        manifests: the file with the manifests of changed state partitions.
        edited: what an edit changed; empty for any other batch, and for one that was cut off.
        replaced: the span whose rows it replaces.
        runner: which runner the batch had, and why.
        seconds: how long it took.
    """
    # By the events that conservation counts, which the seed has too; `by_input` below has all.
    totals = Counts(before.total_events, before.total_rows, before.open_events) if before else Counts()
    arrivals = before.arrivals if before else ()
    if plan.seed is not None:
        totals, arrivals = Counts(plan.seed.events, plan.seed.rows), plan.seed.arrivals
    tables: dict[str, tuple[WrittenFile, ...]] = {
        table.name: tuple(worked.files[table.name]) for table in job.tables if table.name in worked.files
    }
    gone = replaced.tables if replaced else {}
    # Of an upsert table, the rows that were written count.
    rows = {
        table.name: sum(file.rows for file in tables.get(table.name, ()))
        - (gone.get(table.name, 0) if table.mode == "append" else 0)
        for table in job.tables
    }
    # Totals come from the previous record, and not from the tables: a repeated batch counts the same.
    totals += Counts(worked.report.events, rows, worked.report.open_change)
    # Events that a replacement takes out of rows, or puts into them, are in the state before or after it.
    edited_events = worked.report.open_change if edited and replaced is None else 0
    counted = worked.report.by_input or [0] * len(job.inputs)
    by_input = dict(zip(job.inputs, counted, strict=True)) if job.counts_inputs else {}
    written_before = before.written_events if before else plan.seed.written_events if plan.seed else 0
    totals_before = before.total_by_input if before else plan.seed.by_input if plan.seed else {}
    is_last = plan.batch == plan.run + plan.batches - 1
    # One arrival per run: `idle_timeout` is compared with gaps between deliveries, and a delivery may take several batches.
    if is_last and any(one.files for one in plan.inputs):
        arrivals = (*arrivals, plan.clock.processing_time)[-_ARRIVALS_KEPT:]
    last_written, last_files = written_after(before, plan.batch, tables)
    return KeyedDone(
        batch=plan.batch,
        run=plan.run,
        finished_at=datetime.now(UTC),
        seconds=seconds,
        tables=tables,
        last_written=last_written,
        last_files=last_files,
        # The slices of a run share files, which are read completely after the last slice only. If positions advanced
        # earlier, the next plan would skip the rest of these files.
        positions={one.table: one.position for one in plan.inputs} if is_last else (before.positions if before else {}),
        watermark=plan.clock.watermark,
        state_bytes=worked.report.state_bytes,
        manifests=by_file(_manifests_after(before, worked.manifests, manifests)),
        dropped_parts=tuple(sorted(worked.dropped)),
        times=plan.times,
        arrivals=arrivals,
        events=worked.report.events,
        by_input=by_input,
        rows=rows,
        open_change=worked.report.open_change,
        edited=edited or ("nothing, since it was cut off" if plan.edit else ""),
        replaced=replaced,
        edited_events=(before.edited_events if before else 0) + edited_events,
        written_events=written_before + worked.report.written_events,
        total_events=totals.events + edited_events,
        total_by_input={name: totals_before.get(name, 0) + count for name, count in by_input.items()},
        total_rows=totals.rows,
        open_events=totals.open_events,
        next_deadline=None if worked.report.deadline == NEVER else from_micros(worked.report.deadline),
        next_processing_deadline=None
        if worked.report.processing_deadline == NEVER
        else from_micros(worked.report.processing_deadline),
        processing_time=plan.clock.processing_time,
        runner=runner,
    )


def _manifests_after(before: KeyedDone | None, changed: Mapping[int, bytes | None], file: str) -> dict[int, str]:
    """Return the file of each partition's manifest after a batch."""
    files = files_of(before)
    for label, manifest in changed.items():
        files.pop(label, None)
        if manifest is not None:
            files[label] = file
    return files


def readable(job: KeyedJob, error: BaseException) -> BaseException:
    """Turn an error of a runner into one that says why: find the worker's error in the traceback that Spark quotes."""
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
