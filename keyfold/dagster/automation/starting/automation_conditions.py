"""When keyed jobs start by themselves, beside the landing sensors.

The landing sensor of a group starts one run of the whole group: ingest, its checks, the keyed jobs, their checks, in
one Spark session. What such a run leaves undone is what the condition here takes up, in a run of its own: a job that a
failed blocking check held back, once the check passes (after an ingest by hand, or a run of the check alone); a job
whose run failed or was cancelled, once; a job whose events were ingested without it. Where the group's run does its work there is
nothing left to take up, so both may be switched on: the condition never asks for a job that is part of a run that is
not over, nor for one that has been written since its events were. (What is ingested while a job runs may be behind what
the job read and before what it wrote: it waits for whatever starts the job next.)
"""

import dagster as dg


def on_checked_events() -> dg.AutomationCondition:
    """A table of a keyed job starts when its events are newer than it is and their blocking checks have passed.

    Passed means: evaluated on the newest events, in whichever run, and not failed. Events are not newer by
    maintenance, which reports observations, nor by the job's clock ticks, which write the job alone.
    """
    # Not `any_deps_updated`: it passes over updates by runs that were to write the job as well, which are just those
    # that a failed check cuts off.
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
    """The sensor that evaluates all conditions; stopped by default, since it starts Spark."""
    return dg.AutomationConditionSensorDefinition(
        "checked_events",
        target=dg.AssetSelection.all(),
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.STOPPED,
        description="Starts keyed jobs that have not seen their newest events, once the checks of these have passed.",
    )


def failed_checks_before(
    instance: dg.DagsterInstance, repository: dg.RepositoryDefinition, asset: dg.AssetKey
) -> list[str]:
    """The blocking checks of what an asset reads that failed when they were last evaluated, as `asset: check`.

    For schedules, which know no conditions: within a run a failed check holds back what comes after it, but a tick of
    the clock is a run of the job alone.
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
