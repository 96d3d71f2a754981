"""Run a job, once or continuously, publish its new rows to Kafka, and maintain the tables of a continuous run."""

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import Any

from keyfold.errors import KeyfoldError, Misconfigured, counted
from keyfold.journal.clock import LOOK_EVERY
from keyfold.journal.records import Progress
from keyfold.keyed import job_run
from keyfold.keyed.generation.batch_records import Counts
from keyfold.keyed.generation.configured import configured_job
from keyfold.keyed.generation.generations import live_generation
from keyfold.keyed.generation.run_mode import NEW_EVENTS, Replay, RunMode
from keyfold.keyed.job.building import build_job
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.parameters import is_path, parameter_text
from keyfold.keyed.job_run import RunOptions, RunSummary
from keyfold.lakehouse import Lakehouse
from keyfold.open_lineage import EVERY, Dataset, lineage_reported
from keyfold.runners import Runners
from keyfold.runs.health import health_of_job
from keyfold.runs.metrics import served
from keyfold.runs.reports_to_dagster import reported, written_by_job
from keyfold.runs.table_maintenance import TableMaintenance, tables_of_job
from keyfold.runs.unfinished_changes import end_finished, mode_of_run
from keyfold.schemas import require
from keyfold.sinks.publisher import Published, Publisher


def own_parameters(lakehouse: Lakehouse, job: KeyedJob) -> dict[str, tuple[str, str]]:
    """Return the parameters of a job's live generation that differ from the code's defaults, each with both values as text.

    Args:
        job: the job as the project declares it, or built with other parameters.

    Raises:
        KeyfoldError: the live generation is missing, an earlier version of Keyfold made it, or a value no longer fits.
    """
    live = live_generation(lakehouse, job.name)
    if live is None or job.model is None:
        return {}
    # A generation may be older than a parameter, or have one that the code no longer has.
    recorded = {name: value for name, value in live.record.parameters.items() if name in job.parameter_fields}
    now, default = job.model.model_validate(dict(build_job(job, recorded).parameters)), job.model()
    both = {name: (getattr(now, name), getattr(default, name)) for name in recorded}
    return {
        name: (parameter_text(value), parameter_text(other)) for name, (value, other) in both.items() if value != other
    }


def refuse_to_forget(lakehouse: Lakehouse, job: KeyedJob, named: Collection[str]) -> None:
    """Refuse a full refresh that would return a parameter of the live generation to the code's default unasked.

    Args:
        job: the job as the project declares it.
        named: the parameters that the refresh names. Paths of files need not be named: they are of the machine.

    Raises:
        Misconfigured: names each, with both values.
    """
    try:
        own = own_parameters(lakehouse, job)
    except KeyfoldError:
        return  # what is lost or damaged, or of an earlier version, is what a refresh makes anew
    lost = {
        name: values for name, values in own.items() if name not in named and not is_path(job.parameter_fields[name])
    }
    if lost:
        changed = "; ".join(
            f"{name} is {now} in the live generation and {default} by default: give {name}={now} or {name}={default}"
            for name, (now, default) in lost.items()
        )
        raise Misconfigured(f"job {job.name}: a full refresh takes the defaults for what is not given. {changed}")


@dataclass(frozen=True)
class JobRun(RunSummary):
    """The summary of a run, with what it published.

    Attributes:
        published: what was sent to topics, for each table.
    """

    published: tuple[Published, ...] = ()


def run(
    lakehouse: Lakehouse,
    job: KeyedJob,
    mode: RunMode = NEW_EVENTS,
    *,
    parameters: Mapping[str, Any] | None = None,
    options: RunOptions | None = None,
    runners: Runners | None = None,
) -> JobRun:
    """Run a job over its new events, and send its new rows to the topics of its tables (`KEYFOLD_KAFKA_SINKS`).

    Rows of a replay go to its branch only, and to no topic. If Kafka cannot be reached, the run warns and succeeds: the tables
    have the rows, and the next run sends them.

    Args:
        lakehouse: the lakehouse of the input tables and of the job's own tables.
        job: the job.
        mode: `Incremental`, `FullRefresh` or `Replay`.
        parameters: parameters of the job by name. Others are those of the live generation, or the defaults in a refresh.
        options: options that change no result.
        runners: choose where the work is done, by default as the environment says (`Runners.from_environment`).

    Raises:
        KeyfoldError: nothing was ingested yet, another run has locked the job, a setting does not fit the generation, journal
            and tables do not agree, or the step raised. The next run resumes where a failed one stopped.

    Example:
        >>> import keyfold
        >>> from spark_jobs.jobs.ride_summaries import RIDE_SUMMARIES
        >>> lakehouse = keyfold.Lakehouse("~/lakehouse")
        >>> keyfold.run(lakehouse, RIDE_SUMMARIES).counts.events  # doctest: +SKIP
        1200
    """
    require("run: the lakehouse", lakehouse, Lakehouse, "a Lakehouse, such as Lakehouse('lakehouse')")
    require("run: the job", job, KeyedJob, "a KeyedJob, and not its name")
    job = configured_job(lakehouse, job, mode, parameters)
    # With the parameters of the live generation, also if a change of events that was cut off has to be finished by a refresh.
    mode = mode_of_run(lakehouse, job, mode)
    if isinstance(mode, Replay):
        return JobRun(**vars(job_run.run_job(lakehouse, job, mode, options=options, runners=runners)))
    unreported: list[str] = []
    with lineage_reported(job.name, *_read_and_written(lakehouse, job), unreported.append):
        summary = job_run.run_job(lakehouse, job, mode, options=options, runners=runners)
        done = published(summary, Publisher(lakehouse, job))
    end_finished(lakehouse)
    return replace(done, warnings=(*done.warnings, *unreported))


def _read_and_written(lakehouse: Lakehouse, job: KeyedJob) -> tuple[list[Dataset], list[Dataset]]:
    read = [
        Dataset(
            lakehouse.live_table(input_.table) if input_.producer else lakehouse.events(input_.stream.name),
            input_.stream.event_schema,
        )
        for input_ in job.inputs.values()
    ]
    return read, [Dataset(lakehouse.live_table(table.name), table.schema) for table in job.own_tables]


def run_continuously(
    lakehouse: Lakehouse,
    job: KeyedJob,
    *,
    every: timedelta = LOOK_EVERY,
    stop: threading.Event | None = None,
    options: RunOptions | None = None,
    metrics: str | None = None,
    on_warning: Callable[[str], None] | None = None,
    runners: Runners | None = None,
) -> JobRun:
    """Run a job over events as they arrive, until `stop` is set; the batch in progress is finished first.

    The rows of each batch are sent to their topics. The small files of the job's tables are compacted regularly. If DAGSTER_HOME is
    set, Dagster shows what was written (`keyfold.runs.reports_to_dagster`).

    Args:
        lakehouse, job, options, runners: as in `run`.
        every: interval between two looks at the input tables.
        stop: ends the run when it is set; without it the run ends with the process, or by KeyboardInterrupt.
        metrics: where `/health` and `/metrics` are served: a port of 127.0.0.1, or ADDRESS:PORT; None serves nothing.
        on_warning: called when maintenance of a table or a report to Dagster or a catalog failed; the run continues.

    Raises:
        KeyfoldError: as `run`; or the address is taken, or Spark's Java process has ended.

    Example:
        >>> import signal, threading, keyfold
        >>> stop = threading.Event()
        >>> _ = signal.signal(signal.SIGTERM, lambda *_: stop.set())  # doctest: +SKIP
        >>> run_continuously(lakehouse, job, stop=stop, metrics="9100")  # doctest: +SKIP
    """
    options, job = options or RunOptions(), configured_job(lakehouse, job)
    if mode_of_run(lakehouse, job, NEW_EVENTS) != NEW_EVENTS:
        run(lakehouse, job, options=options, runners=runners)
    publisher = Publisher(lakehouse, job)
    maintenance = TableMaintenance(
        lakehouse,
        lambda: tables_of_job(lakehouse, job),
        on_warning=on_warning,
    )

    def on_batch(progress: Progress, counts: Counts) -> None:
        if options.on_batch is not None:
            options.on_batch(progress, counts)
        publisher.publish()
        maintenance.after_batch()

    with (
        maintenance,
        served(metrics, lambda: health_of_job(lakehouse, job.name)),
        reported(lambda: written_by_job(lakehouse, job.name), on_warning),
        lineage_reported(job.name, *_read_and_written(lakehouse, job), on_warning, every=EVERY),
    ):
        summary = job_run.run_continuously(
            lakehouse, job, every=every, stop=stop, options=replace(options, on_batch=on_batch), runners=runners
        )
    return published(summary, publisher)


def published(summary: RunSummary, publisher: Publisher) -> JobRun:
    """Send the remaining rows of a run, and add what was published to its summary."""
    publisher.publish(at_last=True)
    job_run = JobRun(**vars(summary), published=publisher.sent)
    return replace(job_run, warnings=(*summary.warnings, *publisher.warnings))


def run_summary(summary: JobRun) -> dict[str, Any]:
    """Return the summary of a run, as `--json` prints it."""
    return {
        "job": summary.job,
        "generation": summary.generation,
        "mode": summary.mode,
        **asdict(summary.counts),
        "totals": asdict(summary.totals),
        "watermark": summary.watermark,
        "runner": summary.runner,
        "batches": len(summary.batch_seconds),
        "seconds": round(summary.seconds, 3),
        "warnings": summary.warnings,
        "published": {sent.table: sent.rows for sent in summary.published},
    }


def run_text(summary: JobRun) -> str:
    """Return the summary of a run as a line for people."""
    rows = ", ".join(f"{count:,} {name}" for name, count in summary.counts.rows.items())
    published = "".join(
        f"; {counted(sent.rows, 'row')} of {sent.table} to topic {sent.topic}" for sent in summary.published
    )
    return (
        f"{summary.job} ({summary.generation}): {counted(summary.counts.events, 'event')} in {summary.seconds:.1f} s: {rows}; "
        f"{counted(summary.totals.open_events, 'event')} open; watermark {summary.watermark or 'not set'}{published}"
    )
