"""Define when Dagster starts a keyed job by itself, by its automation condition, and when its tables are stale.

A landing sensor starts one run of ingest and jobs, with their checks. The condition starts, in a separate run, what such a run
did not do: a job that a failed blocking check held back, once the check passes (after an ingest by hand, or a run of the check);
a job whose run failed or was cancelled, once; a job whose events were ingested without it. Dagster's sensor for conditions,
`default_automation_condition_sensor`, evaluates it when it is switched on.

Both can be on. The condition does not start a job that is part of an unfinished run, nor one that was written after its events
were. Events that are ingested while a job runs may come too late for its read and still before its write; they wait until
the job is started next.
"""

from datetime import timedelta

import dagster as dg

FRESH = dg.FreshnessPolicy.time_window(fail_window=timedelta(hours=26), warn_window=timedelta(hours=13))
"""Freshness policy of every job's main table: landing files or clock ticks write it at least twice a day."""


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
