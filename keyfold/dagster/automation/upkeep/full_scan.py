"""Build schedules that run a group's checks over all rows of its tables."""

import dagster as dg

from keyfold.dagster.automation.starting.schedules import schedule_of
from keyfold.dagster.quality.checks import SCOPE_TAG, Scope


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
