"""Build the open-state assets of all jobs, and the job and schedule that materialize them."""

from collections.abc import Iterable

import dagster as dg

from keyfold.dagster.assets.groups import Group
from keyfold.dagster.assets.open_state import OPEN_STATE, open_state_asset
from keyfold.dagster.automation.starting.schedules import schedule_of

HOURLY = "7 * * * *"


def open_state_assets(groups: Iterable[Group]) -> list[dg.AssetsDefinition]:
    """Build an asset `open.<job>` for each job of the groups."""
    return [open_state_asset(template) for group in groups for template in group.jobs]


def open_state_job() -> tuple[object, dg.ScheduleDefinition]:
    """Build the job that materializes all of them, and its schedule, stopped by default."""
    job = dg.define_asset_job(
        OPEN_STATE,
        selection=dg.AssetSelection.groups(OPEN_STATE),
        description="Writes the open keys of every job to tables `open.<job>`.",
    )
    return job, schedule_of(job, HOURLY)
