"""Define when Dagster runs jobs by itself: schedules, the automation condition of a job, and when its tables are stale.

The schedule of a group advances the clocks of jobs, and by night reads and checks everything, and maintains the tables.

A landing sensor starts one run of ingest and jobs, with their checks. The condition starts, in a separate run, what such a run
did not do: a job that a failed blocking check held back, once the check passes (after an ingest by hand, or a run of the check);
a job whose run failed or was cancelled, once; a job whose events were ingested without it. Dagster's sensor for conditions,
`default_automation_condition_sensor`, evaluates it when it is switched on.

Both can be on. The condition does not start a job that is part of an unfinished run, nor one that was written after its events
were. Events that are ingested while a job runs may come too late for its read and still before its write; they wait until
the job is started next.
"""

from collections.abc import Sequence
from datetime import time, timedelta
from functools import reduce
from operator import or_

import dagster as dg

from keyfold.dagster.automation.sensors import unfinished_run
from keyfold.dagster.maintenance import MAINTAIN_TAG
from keyfold.dagster.quality.asset_checks import SCOPE_TAG, Scope
from keyfold.dagster.translator import DEFAULT, JOB_TAG, KeyfoldTranslator
from keyfold.keyed.job.contract import KeyedJob
from keyfold.maintenance import RETENTION

NIGHT = time(2, 30)
"""When a group is read, checked and maintained as a whole, in UTC."""


def group_schedule(
    name: str,
    *jobs: KeyedJob,
    target: dg.AssetSelection | None = None,
    cron: str = "*/10 * * * *",
    night: time | None = NIGHT,
    retention: timedelta = RETENTION,
    translator: KeyfoldTranslator = DEFAULT,
) -> dg.ScheduleDefinition:
    """Build the schedule of a group, stopped by default: it advances the clocks of jobs, and once a day sees to everything.

    Every run advances a job's clock. On a silent stream no file lands, so no sensor starts a run, and only these ticks fire
    due timers. A stream whose files keep landing needs no ticks. A job whose input has a failed blocking check is left out.

    The run of the night reads what is new, checks all rows of all tables, compacts the tables and deletes files that are no longer
    needed.

    Args:
        name: the schedule's name.
        jobs: the jobs; one run advances them all.
        target: the assets of the night, such as `AssetSelection.groups("rides")`; by default those of the jobs.
        cron: when clocks are advanced, in UTC.
        night: when everything is seen to, in UTC; None for never.
        retention: how long files that a table has replaced are kept; a day or more.
        translator: names the assets.

    Example:
        >>> from spark_jobs.jobs.ride_summaries import RIDE_SUMMARIES
        >>> group_schedule("rides_schedule", RIDE_SUMMARIES).cron_schedule
        ['*/10 * * * *', '30 2 * * *']
    """
    at_night = {SCOPE_TAG: Scope.FULL.value, MAINTAIN_TAG: f"{retention / timedelta(days=1):g}"}
    advanced = f"Every tick of {cron} advances the clock of {', '.join(job.name for job in jobs)}, and fires due timers, even if the stream is silent."
    nightly = (
        f"At {night:%H:%M} UTC it reads what is new, checks all rows, compacts the tables and deletes old files."
        if night
        else ""
    )

    @dg.schedule(
        name=name,
        target=target or reduce(or_, (dg.AssetSelection.tag(JOB_TAG, job.name) for job in jobs)),
        cron_schedule=[*([cron] if jobs else []), *([f"{night.minute} {night.hour} * * *"] if night else [])],
        default_status=dg.DefaultScheduleStatus.STOPPED,
        description=" ".join((*([advanced] if jobs else []), nightly)),
    )
    def tick(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        at = context.scheduled_execution_time
        is_night = night is not None and (not jobs or (at.hour, at.minute) == (night.hour, night.minute))
        # Otherwise runs would queue up whenever one takes longer than the interval. The night's run waits for no other one.
        of_schedule = {"dagster/schedule_name": name, **(at_night if is_night else {})}
        if waiting := unfinished_run(context.instance, of_schedule):
            return dg.SkipReason(f"run {waiting} of {name} has not finished")
        return dg.RunRequest(tags=at_night) if is_night else _advance(context, jobs, translator)

    return tick


def _advance(
    context: dg.ScheduleEvaluationContext, jobs: Sequence[KeyedJob], translator: KeyfoldTranslator
) -> dg.RunRequest | dg.SkipReason:
    """Request a run of the jobs whose inputs have no failed blocking check, and of their checks."""
    repository = context.repository_def
    assert repository is not None  # noqa: S101 - Dagster evaluates a schedule of a repository
    failed_of = {
        job.name: failed_checks_before(context.instance, repository, translator.get_asset_key(job.name)) for job in jobs
    }
    ready = {name for name, failed in failed_of.items() if not failed}
    if not ready:
        failed = sorted({check for checks in failed_of.values() for check in checks})
        return dg.SkipReason(f"held back by failed checks: {', '.join(failed)}")
    graph = repository.asset_graph
    selection = [key for key in graph.executable_asset_keys if graph.get(key).tags.get(JOB_TAG) in ready]
    return dg.RunRequest(asset_selection=selection)


def failed_checks_before(
    instance: dg.DagsterInstance, repository: dg.RepositoryDefinition, asset: dg.AssetKey
) -> list[str]:
    """Return the blocking checks of an asset's inputs whose last evaluation failed, as `asset: check`.

    For schedules, which evaluate no conditions: a failed check blocks downstream assets of the same run, but a clock tick is
    a run of the job only.
    """
    graph = repository.asset_graph
    checks = [
        key
        for key in sorted(graph.get_check_keys_for_assets(graph.get(asset).parent_keys))
        if graph.get_check_spec(key).blocking
    ]
    latest = ((key, instance.get_latest_asset_check_evaluation_record(key)) for key in checks)
    return [
        f"{key.asset_key.to_user_string()}: {key.name}"
        for key, record in latest
        if record is not None and record.status.value == "FAILED"
    ]


FRESH = dg.FreshnessPolicy.time_window(fail_window=timedelta(hours=26), warn_window=timedelta(hours=13))
"""Freshness policy of every job's main table: landing files or clock ticks write it at least twice a day."""


def on_checked_events() -> dg.AutomationCondition:
    """Start a keyed job when its events are newer than its tables and their blocking checks have passed.

    Passed means: evaluated on the newest events, in any run, and not failed. Maintenance does not make events newer, since it
    reports observations; nor do the job's clock ticks, which write only the job's tables. A table with partitions is newer when one
    of them is complete or has changed.
    """
    # Not `any_deps_updated`: it ignores updates by runs that also select the job, and a failed check cuts off just those.
    updated = dg.AutomationCondition.any_deps_match(
        dg.AutomationCondition.newly_updated() | dg.AutomationCondition.will_be_requested()
    )
    return (
        updated.since_last_handled().with_label("events_are_newer")
        & dg.AutomationCondition.all_deps_blocking_checks_passed()
        # Not `any_deps_missing`: of a table with partitions, those that are not complete are missing.
        & dg.AutomationCondition.all_deps_match(~dg.AutomationCondition.missing())
        & ~dg.AutomationCondition.any_deps_in_progress()
        & ~dg.AutomationCondition.in_progress()
    ).with_label("on_checked_events")
