"""Check a job: no event is lost, few are late, the watermark keeps up, and the live generation is of the code that runs."""

from datetime import datetime, timedelta

import dagster as dg

from keyfold.dagster.assets.checks import ERROR, Check, Finding, asset_checks
from keyfold.dagster.assets.previews import late_metadata
from keyfold.dagster.assets.shown import JobAssets
from keyfold.dagster.quality.asset_checks import SuiteChecks
from keyfold.dagster.translator import DEFAULT, KeyfoldTranslator
from keyfold.errors import counted
from keyfold.keyed.conservation import Conservation, check_conservation, input_differences
from keyfold.keyed.generation.configured import configured_job
from keyfold.keyed.generation.continuing import code_of_generation
from keyfold.keyed.generation.generations import live_generation
from keyfold.keyed.job.contract import KeyedJob
from keyfold.lakehouse import Lakehouse
from keyfold.runs.health import age_text, health_of_job
from keyfold.state.changing.migrating import changes_to


def job_checks(
    shown: JobAssets, suite: SuiteChecks | None = None, translator: KeyfoldTranslator = DEFAULT
) -> dg.AssetChecksDefinition:
    """Build the checks of a job's main table; that no event is lost is blocking, the others of Keyfold only warn.

    Args:
        shown: the job.
        suite: the suite of its main table.
        translator: names the assets.
    """
    job = shown.job
    checks = [
        Check(
            "no_event_is_lost",
            "Events read (event table's log) = events in outputs + in open state + late (counted in the tables and the state) = events "
            "that reached a step (journal).",
            lambda lakehouse: balance(lakehouse, job),
            blocking=True,
        ),
        Check(
            "few_events_are_late",
            f"At most {shown.most_late:.0%} of the events of the last batches were late.",
            lambda lakehouse: find_late(lakehouse, job, shown.most_late),
        ),
        Check(
            "watermark_keeps_up",
            f"No run is interrupted or stalled, and the last run and the watermark are at most {age_text(shown.stale_after)} behind the clock.",
            lambda lakehouse: find_staleness(lakehouse, job.name, shown.stale_after),
        ),
        Check(
            "live_generation_is_of_this_code",
            "The live generation is of the code that runs: nothing that the job declares, and no function of it, was changed.",
            lambda lakehouse: find_changes(lakehouse, job),
        ),
    ]
    return asset_checks(translator.get_asset_key(job.name), checks, suite, pool=f"job_{job.name}")


def balance(lakehouse: Lakehouse, declared: KeyedJob) -> Finding:
    """Compare the events that a job has read with those in outputs, in open state, and late."""
    counts = check_conservation(lakehouse, configured_job(lakehouse, declared))
    return Finding(
        counts.balanced,
        _equation(counts),
        {
            "events_read": counts.events_read,
            "journalled": counts.journalled,
            "in_outputs": counts.in_outputs,
            "open_events": counts.open_events,
            "late": counts.late,
            **({"left_out": counts.left_out} if counts.left_out else {}),
            **{f"events of {name}": read for name, (read, _) in counts.by_input.items()},
        },
        ERROR,
    )


def _equation(counts: Conservation) -> str:
    if counts.is_empty:
        return "no events read yet"
    accounted = counts.in_outputs + counts.open_events + counts.late
    if not (counts.events_read or accounted or counts.journalled):
        # Inputs whose events may end without a row.
        return "; ".join(
            f"{counted(read, 'event')} of {name} read {'=' if read == stepped else '≠'} {stepped:,} that reached the step"
            for name, (read, stepped) in counts.by_input.items()
        )
    copies = "" if counts.rows_read is None else f" ({counts.rows_read:,} rows, each copied once per key)"
    copies += f" (beside {counted(counts.left_out, 'row')} that a condition leaves out)" if counts.left_out else ""
    return (
        f"{counted(counts.events_read, 'event')} read{copies} {'=' if counts.events_read == accounted else '≠'} "
        f"{counts.in_outputs:,} in outputs + "
        f"{counts.open_events:,} open + {counts.late:,} late {'=' if accounted == counts.journalled else '≠'} "
        f"{counts.journalled:,} in the journal{input_differences(counts)}"
    )


def find_late(lakehouse: Lakehouse, declared: KeyedJob, most: float) -> Finding:
    """Compare the late events of the last batches with all their events."""
    generation = live_generation(lakehouse, declared.name)
    batches = generation.journal.recent() if generation else []
    events = sum(batch.counts.events for batch in batches)
    late = sum(batch.counts.rows.get(declared.late_table, 0) for batch in batches)
    if not events:
        return Finding(True, "no events in the last batches")
    return Finding(
        late <= most * events,
        f"{late:,} of {events:,} events of the last {len(batches)} batches were late"
        + (f". See `keyfold show {declared.late_table}`" if late else ""),
        late_metadata(lakehouse, configured_job(lakehouse, declared)),
    )


def find_staleness(lakehouse: Lakehouse, job: str, stale_after: timedelta, now: datetime | None = None) -> Finding:
    """Show the health of a job (`keyfold health`)."""
    health = health_of_job(lakehouse, job, stale_after, now)
    if not health.is_well:
        return Finding(False, f"{health.state}: {health.detail}")
    if health.watermark is None or health.behind is None:
        return Finding(True, "no events yet")
    at = f"{health.watermark:%Y-%m-%d %H:%M} UTC"
    return Finding(True, f"the watermark is {at}, {age_text(health.behind)} behind the clock")


def find_changes(lakehouse: Lakehouse, declared: KeyedJob) -> Finding:
    """Compare what a job declares, and the code of its functions, with its live generation."""
    live = live_generation(lakehouse, declared.name)
    if live is None:
        return Finding(True, "the job has not run yet")
    changes = changes_to(configured_job(lakehouse, declared), live).settings
    if changes:
        command = lakehouse.command("plan", declared.name)
        return Finding(False, f"{'; '.join(map(str, changes))}. See `{command}`")
    code = code_of_generation(live)
    since = f"; since batch {code.since}: {code.change}" if code.change else ""
    return Finding(True, f"{live.name} is of this code{since}")
