"""Full scans: all checks of a group, and nothing else, with the tag that asks for all rows."""

import dagster as dg

from keyfold.dagster.automation.starts import full_scan

SEEN: list[str] = []


@dg.asset(group_name="rides")
def events() -> None:
    SEEN.append("events")


@dg.asset(group_name="weather")
def readings() -> None: ...


@dg.asset_check(asset=events, blocking=True)
def rows_add_up(context: dg.AssetCheckExecutionContext):
    SEEN.append(f"rows_add_up {context.run.tags['gx/scope']}")
    return dg.AssetCheckResult(passed=True)


@dg.asset_check(asset=readings)
def plausible():
    SEEN.append("plausible")
    return dg.AssetCheckResult(passed=True)


SCHEDULE = full_scan("rides")
DEFINITIONS = dg.Definitions(assets=[events, readings], asset_checks=[rows_add_up, plausible], schedules=[SCHEDULE])


def test_the_checks_of_the_group_run_over_all_rows_and_nothing_is_written():
    SEEN.clear()
    assert DEFINITIONS.resolve_job_def("check_rides").execute_in_process().success
    assert SEEN == ["rows_add_up full"]


def test_the_schedule_is_off_until_it_is_switched_on_and_waits_for_its_last_run():
    assert SCHEDULE.default_status is dg.DefaultScheduleStatus.STOPPED
    job = DEFINITIONS.resolve_job_def("check_rides")
    # A context that is not left keeps its storage as that of all definitions that are loaded later.
    with dg.DagsterInstance.local_temp() as instance, dg.build_schedule_context(instance=instance) as context:
        request = SCHEDULE(context)
        assert isinstance(request, dg.RunRequest)
        assert request.tags["gx/scope"] == "full"
        waiting = instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED)
        assert waiting.run_id in str(SCHEDULE(context))
