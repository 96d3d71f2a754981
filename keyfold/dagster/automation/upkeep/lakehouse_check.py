"""Build the job that verifies the whole lakehouse, as `keyfold check` does; see `keyfold.maintenance.checking`."""

import dagster as dg

from keyfold.dagster.automation.starting.schedules import schedule_of
from keyfold.lakehouse import Lakehouse
from keyfold.maintenance.checking import check

_SHOWN = 20


def lakehouse_check() -> tuple[dg.JobDefinition, dg.ScheduleDefinition]:
    """Build the job `check_lakehouse` and its schedule, stopped by default; times are UTC."""

    @dg.op(out=dg.Out(dg.Nothing))
    def verify_every_file(context: dg.OpExecutionContext, lakehouse: dg.ResourceParam[Lakehouse]) -> None:
        found = check(lakehouse)
        *faults, summary = found.describe()
        for fault in faults:
            context.log.warning(fault)
        context.log.info(summary)
        if not found.is_whole:
            raise dg.Failure(
                description="; ".join([summary, *faults[:_SHOWN]]),
                metadata={"damaged": [one.path for one in found.findings if one.is_damage]},
                allow_retries=False,
            )

    @dg.job(name="check_lakehouse", description="Reads every file of the lakehouse and reports damaged ones.")
    def check_lakehouse() -> None:
        verify_every_file()

    return check_lakehouse, schedule_of(check_lakehouse, "30 5 * * 0")
