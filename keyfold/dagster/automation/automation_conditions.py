"""Define the automation condition that starts keyed jobs which the landing sensors' runs have not run.

The landing sensor of a group starts one run of the whole group: ingest, its checks, the keyed jobs and their checks, in one
Spark session. The condition starts, in a separate run, what such a run did not do: a job that a failed blocking check held
back, once the check passes (after an ingest by hand, or a run of the check); a job whose run failed or was cancelled, once; a
job whose events were ingested without it.

Both can be on. The condition does not start a job that is part of an unfinished run, nor one that was written after its events
were. Events that are ingested while a job runs may come too late for its read and still before its write; they wait until
the job is started next.
"""

import dagster as dg


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
    """Build the sensor that evaluates all conditions; stopped by default, since it starts Spark."""
    return dg.AutomationConditionSensorDefinition(
        "checked_events",
        target=dg.AssetSelection.all(),
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.STOPPED,
        description="Starts keyed jobs that have not read their newest events, once the events' checks have passed.",
    )


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
