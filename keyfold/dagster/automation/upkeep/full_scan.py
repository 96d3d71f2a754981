"""Full scans: every check of a group's tables over all their rows, without running anything else."""

import dagster as dg

from keyfold.dagster.automation.starting.schedules import schedule_of
from keyfold.dagster.quality.checks import SCOPE_TAG, Scope


def full_scan(group: str, cron: str = "30 2 * * *") -> dg.ScheduleDefinition:
    """A schedule, stopped by default, that runs all checks of a group of assets; times are UTC."""
    assets = dg.AssetSelection.groups(group)
    whole = {SCOPE_TAG: Scope.FULL.value}
    job = dg.define_asset_job(
        f"check_{group}",
        # The checks alone: their assets are not written again.
        selection=assets - assets.without_checks(),
        tags=whole,
        description=f"Every check of {group}, over all rows of its tables.",
    )
    return schedule_of(job, cron, tags=whole)
