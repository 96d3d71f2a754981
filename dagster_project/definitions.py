"""The definitions that Dagster loads: the groups in `assets/`, and what the whole project needs."""

import dagster as dg

from dagster_project.project import PROJECT
from keyfold import import_modules
from keyfold.dagster import KeyfoldResource, alert_sensors

EVERYTHING = dg.define_asset_job(
    "everything", dg.AssetSelection.all(), description="Reads what is new in all streams; runs and checks all jobs."
)

defs = dg.Definitions.merge(
    *(module.GROUP for module in import_modules(PROJECT.groups_in) if hasattr(module, "GROUP")),
    dg.Definitions(
        jobs=[EVERYTHING],
        sensors=alert_sensors(),
        resources={
            "keyfold": KeyfoldResource.from_environment(),
            # Dagster's default one takes a folder from a run's config. Keyfold's steps return nothing that it would keep.
            "io_manager": dg.mem_io_manager,
        },
        # The steps of a run share one Spark session, where they need one.
        executor=dg.in_process_executor,
    ),
)
