"""Jobs, and what starts them."""

import dagster as dg

from assets.metadata import table_key
from assets.rides import GROUP
from dagster_project.sensors import landing_sensor, unfinished_run
from spark_jobs.jobs.ride_summaries import RIDE_SUMMARIES
from spark_jobs.keyed.contract import JobTemplate
from spark_jobs.streams import RIDE_POINTS


def tick_schedule(template: JobTemplate, cron: str) -> dg.ScheduleDefinition:
    """A schedule that runs a keyed job on whatever its event table holds, new events or none.

    Every run ticks the job's clock: on a silent stream, where no file lands and so no sensor fires, this is what
    closes what is due. Skips while an earlier tick has not ended. Stopped by default: a run costs a Spark session, and
    a stream whose files keep coming needs no ticks.
    """
    job = dg.define_asset_job(
        f"tick_{template.name}",
        # The job writes all its tables in one step: one of them stands for all.
        selection=dg.AssetSelection.assets(table_key(template.name)).required_multi_asset_neighbors(),
        description=f"Advances the clock of {template.name} and closes what is due.",
    )

    @dg.schedule(
        name=f"tick_{template.name}",
        job=job,
        cron_schedule=cron,
        default_status=dg.DefaultScheduleStatus.STOPPED,
        description=f"Closes what is due in {template.name} on a silent stream.",
    )
    def tick(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        if waiting := unfinished_run(context.instance, job.name):
            return dg.SkipReason(f"run {waiting} of {job.name} is not over")
        return dg.RunRequest()

    return tick


rides_job = dg.define_asset_job(
    GROUP,
    selection=dg.AssetSelection.groups(GROUP),
    description="Landing files to events to ride summaries, with every check.",
)

SENSORS = [landing_sensor(RIDE_POINTS, rides_job.name)]
SCHEDULES = [tick_schedule(RIDE_SUMMARIES, "*/10 * * * *")]
