"""Define when Dagster starts jobs by itself: by the automation condition, or by the clock; and when tables are stale.

The landing sensor of a group starts one run of the whole group: ingest, its checks, the keyed jobs and their checks, in one
process. The condition starts, in a separate run, what such a run did not do: a job that a failed blocking check held
back, once the check passes (after an ingest by hand, or a run of the check); a job whose run failed or was cancelled, once; a
job whose events were ingested without it.

Both can be on. The condition does not start a job that is part of an unfinished run, nor one that was written after its events
were. Events that are ingested while a job runs may come too late for its read and still before its write; they wait until
the job is started next.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import dagster as dg

from keyfold.dagster.assets.metadata import table_key
from keyfold.dagster.automation.sensors import unfinished_run
from keyfold.dagster.quality.checks import SCOPE_TAG, Scope
from keyfold.keyed.job.contract import KeyedJob

FRESH = dg.FreshnessPolicy.time_window(fail_window=timedelta(hours=26), warn_window=timedelta(hours=13))
"""Freshness policy of every job's main table: landing files or clock ticks write it at least twice a day."""


def automated(spec: dg.AssetSpec) -> dg.AssetSpec:
    """Add the automation condition to the spec of a job's table, and the freshness policy to the job's main table."""
    if "keyfold/job" not in spec.tags:
        return spec
    spec = spec.replace_attributes(automation_condition=on_checked_events())
    is_own = spec.key == table_key(spec.tags["keyfold/job"])
    return spec.replace_attributes(freshness_policy=FRESH) if is_own else spec


def on_checked_events() -> dg.AutomationCondition:
    """Start a keyed job when its events are newer than its tables and their blocking checks have passed.

    Passed means: evaluated on the newest events, in any run, and not failed. Maintenance does not make events newer, since it
    reports observations; nor do the job's clock ticks, which write only the job's tables.
    """
    # Not `any_deps_updated`: it ignores updates by runs that also select the job, and a failed check cuts off just those.
    updated = dg.AutomationCondition.any_deps_match(
        dg.AutomationCondition.newly_updated() | dg.AutomationCondition.will_be_requested()
    )
    return (
        updated.since_last_handled().with_label("events_are_newer")
        & dg.AutomationCondition.all_deps_blocking_checks_passed()
        & ~dg.AutomationCondition.any_deps_missing()
        & ~dg.AutomationCondition.any_deps_in_progress()
        & ~dg.AutomationCondition.in_progress()
    ).with_label("on_checked_events")


def automation_sensor() -> dg.AutomationConditionSensorDefinition:
    """Build the sensor that evaluates all conditions; stopped by default, since it starts runs."""
    return dg.AutomationConditionSensorDefinition(
        "checked_events",
        target=dg.AssetSelection.all(),
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.STOPPED,
        description="Starts keyed jobs that have not read their newest events, once the events' checks have passed.",
    )


def schedule_of(
    job: Any,
    cron: str,
    *,
    tags: Mapping[str, str] | None = None,
    held_back: Callable[[dg.ScheduleEvaluationContext], str | None] | None = None,
) -> dg.ScheduleDefinition:
    """Build a schedule with a job's name and description; stopped by default.

    Args:
        job: the job's definition, resolved or not.
        cron: the cron expression, in UTC.
        tags: tags of the runs.
        held_back: returns why no run may start now, or None.
    """

    @dg.schedule(
        name=job.name,
        job=job,
        cron_schedule=cron,
        default_status=dg.DefaultScheduleStatus.STOPPED,
        description=job.description,
    )
    def tick(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        # Otherwise runs would queue up whenever one takes longer than the interval.
        if waiting := unfinished_run(context.instance, job.name):
            return dg.SkipReason(f"run {waiting} of {job.name} has not finished")
        if held_back is not None and (reason := held_back(context)):
            return dg.SkipReason(reason)
        return dg.RunRequest(tags=tags)

    return tick


def full_scan(group: str) -> dg.ScheduleDefinition:
    """Build a schedule, stopped by default, that runs all checks of an asset group; times are UTC."""
    assets = dg.AssetSelection.groups(group)
    tags = {SCOPE_TAG: Scope.FULL.value}
    job = dg.define_asset_job(
        f"check_{group}",
        # Only the checks: the assets are not materialized.
        selection=assets - assets.without_checks(),
        tags=tags,
        description=f"Runs all checks of {group} over all rows of its tables.",
    )
    return schedule_of(job, "30 2 * * *", tags=tags)


def tick_schedule(declared: KeyedJob) -> dg.ScheduleDefinition:
    """Build a schedule that runs a keyed job every ten minutes, whether or not there are new events.

    Every run advances the job's clock. On a silent stream no file lands, so no sensor starts a run, and only these ticks fire
    due timers. A stream whose files keep landing needs no ticks.
    """
    job = dg.define_asset_job(
        f"tick_{declared.name}",
        # The job writes all its tables in one step, so selecting its main table is enough.
        selection=dg.AssetSelection.assets(table_key(declared.name)).required_multi_asset_neighbors(),
        description=f"Advances the clock of {declared.name} and fires due timers, even if the stream is silent.",
    )

    def held_back(context: dg.ScheduleEvaluationContext) -> str | None:
        failed = failed_checks_before(context.instance, context.repository_def, table_key(declared.name))
        return f"held back by failed checks: {', '.join(failed)}" if failed else None

    return schedule_of(job, "*/10 * * * *", held_back=held_back)


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
