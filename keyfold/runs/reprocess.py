"""Compute the rows of a span of event time again from the event table, with today's code, and replace them in one version of each table.

1. The events of the span, and those around it that its rows depend on, are read into a branch: all that the job has read, also events
   that came too late. The rows of the span are compared with the live ones.
2. With `yes`, a record in `rewrites/` names the jobs that have read rows which change, and a batch of the job's journal replaces the
   rows (`state.changing.recomputing`).
3. These jobs read all again into new generations, which go live in one step, as after a correction of events.

A call that was cut off before its batch has changed no row. After it, the same call or the next run of each job does what is left.
"""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from keyfold.errors import KeyfoldError, Misconfigured, NotFound
from keyfold.ingestion.event_rewrites import EventRewrite, decide, rewrites
from keyfold.journal.audit import Author, record_edit
from keyfold.keyed.execution.opening import continued
from keyfold.keyed.generation.batch_records import KeyedDone
from keyfold.keyed.generation.configured import configured_job
from keyfold.keyed.generation.continuing import check_generation, complete_batch, declared_anew, with_last_declaration
from keyfold.keyed.generation.declaration_changes import compare
from keyfold.keyed.generation.generation_record import RECORD, read_record
from keyfold.keyed.generation.generations import Generation, all_generations, live_generation
from keyfold.keyed.generation.going_live import finish_going_live, go_live
from keyfold.keyed.generation.run_mode import NEW_EVENTS
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job_run import RunOptions
from keyfold.keyed.plans.input_tables import has_read, input_tables
from keyfold.lakehouse import Lakehouse
from keyfold.privacy import masked_changes
from keyfold.runners import Runners
from keyfold.runs.chains import consumers_of, downstream_of, fill_together, held, published_runs
from keyfold.runs.changed_events import TableChange
from keyfold.runs.jobs import JobRun
from keyfold.runs.unfinished_changes import end_finished, jobs_behind, mode_of_run
from keyfold.sinks.publisher import Publisher
from keyfold.state.changing.recomputing import RecomputedSpan, check_has_row_times, computed_again
from keyfold.times import in_utc, to_iso


@dataclass(frozen=True)
class Reprocessed:
    """The rows of a span that were replaced, or without `yes` would be.

    Attributes:
        job: the job.
        since, until: the span of the times of rows; None for no bound.
        tables: how each table differs in the span from what it was, also the late table and `state`: counts and the first keys.
        batch: the batch of the job's journal that replaced the rows; None without `yes`, and if no row differs.
        consumers: the jobs that are computed again, since they have read rows that change.
        runs: their refreshes; none without `yes`.
        warnings: rows that do not reach their topics yet.
    """

    job: str
    since: datetime | None
    until: datetime | None
    tables: Mapping[str, TableChange]
    batch: int | None = None
    consumers: tuple[str, ...] = ()
    runs: tuple[JobRun, ...] = ()
    warnings: tuple[str, ...] = field(default=())


def reprocess(
    lakehouse: Lakehouse,
    job: KeyedJob,
    since: datetime | None,
    until: datetime | None = None,
    *,
    author: Author,
    jobs: Iterable[KeyedJob] = (),
    yes: bool = False,
    options: RunOptions | None = None,
    runners: Runners | None = None,
) -> Reprocessed:
    """Compute the rows of a span of time again, with today's code, and replace them; without `yes`, only compare them.

    Only jobs can be reprocessed whose rows depend on the events around a time: windows, tops, joins, and steps of one's own with
    `row_times`. Rows outside of the span stay as they are, and so does state, but for open rows of the span. All events count that the
    job has read, also those that were late: their rows leave the late table.

    Args:
        lakehouse, options, runners: as in `keyfold.run`.
        job: the job. It has the parameters of its live generation.
        since, until: the span of the times of rows, such as the beginnings of windows: the first inclusive, the second exclusive, in UTC
            without a zone; None for no bound.
        author: who does it, and why.
        jobs: the jobs of the project, among which are those that read the job's tables.
        yes: replace them.

    Raises:
        KeyfoldError: rows of the job depend on all of a key's past, the job declares otherwise than its live generation, the rows would
            stand for other events, a job reads a table and is not among `jobs`, or a run has locked a job; nothing is changed.

    Example:
        >>> from keyfold.journal.audit import Author
        >>> day, mend = datetime(2026, 1, 30, tzinfo=UTC), Author("ann", "speeds were in miles")
        >>> reprocess(lakehouse, job, day, author=mend).tables[job.name].counts.changed  # doctest: +SKIP
        17
    """
    since, until = (
        None if time is None else in_utc(time if time.tzinfo else time.replace(tzinfo=UTC)) for time in (since, until)
    )
    if since is not None and until is not None and since >= until:
        raise Misconfigured(f"reprocess: since, {to_iso(since)}, is not before until, {to_iso(until)}")
    job, options, runners = (
        configured_job(lakehouse, job),
        options or RunOptions(),
        runners or Runners.from_environment(),
    )
    check_has_row_times(lakehouse, job)
    if live_generation(lakehouse, job.name) is None:
        raise NotFound(f"job {job.name} has never run, and has no rows: `{lakehouse.command('run', job.name)}`")
    if mode_of_run(lakehouse, job, NEW_EVENTS) != NEW_EVENTS:
        run = lakehouse.command("run", job.name)
        raise KeyfoldError(
            f"job {job.name} reads all events again in its next run, since events were changed; run it first: `{run}`"
        )
    consumers = consumers_of(lakehouse, job.name, {other.name: other for other in jobs})
    record: KeyedDone | None = None
    with held(lakehouse, [job.name, *(consumer.name for consumer in consumers if yes)]):
        live, last, code = _opened(lakehouse, job, runners, yes=yes)
        with computed_again(lakehouse, job, live, last, (since, until), options, runners) as span:
            tables = _shown(job, span)
            is_changed = span.declaration is not None or any(not counts.is_equal for counts in span.counts.values())
            if is_changed:
                span.check()
            again = _behind(lakehouse, span, consumers)
            if yes and is_changed:
                _decide(lakehouse, again)
                record = span.replace(runners, _what(author, since, until), code)
                with_last_declaration(Generation(live.folder, read_record(live.folder / RECORD)))
        generations, summaries = fill_together(lakehouse, again, options, runners) if yes else ((), ())
        go_live(lakehouse, *generations)
    runs = published_runs(lakehouse, again, summaries) if yes else []
    publisher = Publisher(lakehouse, job)
    if yes:
        publisher.publish(at_last=True)
        end_finished(lakehouse)
    if record is not None:
        keys = {"since": "" if since is None else to_iso(since), "until": "" if until is None else to_iso(until)}
        record_edit(lakehouse, author, "reprocessed", job.name, keys, record.rows, live.name)
    names = tuple(consumer.name for consumer in again)
    return Reprocessed(job.name, since, until, tables, record and record.batch, names, tuple(runs), publisher.warnings)


def _what(author: Author, since: datetime | None, until: datetime | None) -> str:
    bounds = f"{f' since {to_iso(since)}' if since else ''}{f' until {to_iso(until)}' if until else ''}"
    return f"rows{bounds or ' of all times'} computed again by {author.who}: {author.why}"


def _opened(lakehouse: Lakehouse, job: KeyedJob, runners: Runners, *, yes: bool) -> tuple[Generation, KeyedDone, str]:
    """Return the live generation, its last commit record, and what differs in the job since its last batch, as text.

    Its tables may lack this batch, if a run was cut off: they are committed.
    """
    live, code = live_generation(lakehouse, job.name), ""
    assert live is not None  # noqa: S101 - the caller has looked
    if yes:
        finish_going_live(lakehouse, job.name)
        live = with_last_declaration(live)
    anew = declared_anew(live, job)
    if yes:
        code = continued(runners, lakehouse, job, anew).new_code
    else:
        check_generation(anew, job)
    changes = [] if anew is live else [*map(str, compare(live.record, job).settings)]
    return anew, complete_batch(anew), "; ".join([*changes, *([code] if code else [])])


def _shown(job: KeyedJob, span: RecomputedSpan) -> dict[str, TableChange]:
    """Return how each table differs, with private values masked."""
    schemas = {table.name: table.schema for table in job.tables}
    private = {name: job.private_of(schemas.get(name, job.state.schema)) for name in span.differences}
    return {
        name: TableChange(span.counts[name], masked_changes(span.first[name], private[name]))
        for name in span.differences
    }


def _behind(lakehouse: Lakehouse, span: RecomputedSpan, consumers: Sequence[KeyedJob]) -> list[KeyedJob]:
    """Return the jobs that have read rows which go, those that read their tables, and those that a call has left that was cut off.

    Raises:
        KeyfoldError: the declaration of a job that reads a table is missing.
    """
    cut_off = [rewrite for rewrite in rewrites(lakehouse) if rewrite.kind == "reprocessed"]
    job, left = span.job, {name for rewrite in cut_off for name in jobs_behind(lakehouse, rewrite)}
    files = {table.name: span.files_gone(table) for table in span.changed if table.mode == "append"}
    declared, direct = {consumer.name for consumer in consumers}, set[str]()
    for generation in all_generations(lakehouse):
        name = generation.record.job
        if (
            name not in declared
            and not files.keys().isdisjoint(generation.record.input_ids)
            and _is_live(lakehouse, generation)
        ):
            raise KeyfoldError(
                f"job {name} reads tables of {job.name}, and must read them again: give its declaration among `jobs`"
            )
    for consumer in consumers:
        live, tables = live_generation(lakehouse, consumer.name), input_tables(lakehouse, consumer)
        for input_ in consumer.inputs.values():
            gone = files.get(input_.table)
            if live is not None and gone and has_read(live, input_, tables[input_.table], gone):
                direct.add(consumer.name)
    names = direct | downstream_of(direct, consumers) | left
    return [consumer for consumer in consumers if consumer.name in names]


def _is_live(lakehouse: Lakehouse, generation: Generation) -> bool:
    live = live_generation(lakehouse, generation.record.job)
    return live is not None and live.name == generation.name and not generation.is_branch


def _decide(lakehouse: Lakehouse, again: Sequence[KeyedJob]) -> None:
    """Record which jobs are to read all again, whoever does it."""
    jobs = {
        job.name: tuple(generation.identity for generation in all_generations(lakehouse, job.name)) for job in again
    }
    if jobs:
        now = datetime.now(UTC)
        decide(
            lakehouse,
            EventRewrite(id=uuid.uuid4().hex, at=now, kind="reprocessed", audit=None, rows={}, streams={}, jobs=jobs),
        )
