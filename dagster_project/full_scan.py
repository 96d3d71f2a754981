"""Full scans: every check of a group's tables over all their rows, without running anything else.

The checks of an ordinary run may look at what that run wrote alone; the tag `gx/scope` asks them for all.
"""

import dagster as dg

from dagster_project.sensors import unfinished_run

FULL_SCOPE = {"gx/scope": "full"}


def full_scan(group: str, cron: str = "30 2 * * *") -> dg.ScheduleDefinition:
    """A schedule, stopped by default, that runs all checks of a group of assets; times are UTC."""
    assets = dg.AssetSelection.groups(group)
    job = dg.define_asset_job(
        f"check_{group}",
        selection=assets - assets.without_checks(),
        tags=FULL_SCOPE,
        description=f"Every check of {group}, over all rows of its tables.",
    )

    @dg.schedule(
        name=f"check_{group}",
        job=job,
        cron_schedule=cron,
        default_status=dg.DefaultScheduleStatus.STOPPED,
        description=f"Every check of {group}, over all rows of its tables.",
    )
    def nightly(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        if waiting := unfinished_run(context.instance, job.name):
            return dg.SkipReason(f"run {waiting} of {job.name} is not over")
        return dg.RunRequest(tags=FULL_SCOPE)

    return nightly
