"""Alerts: a sensor that tells of checks that fail, and of those that pass again. Dagster itself tells nobody.

It goes through the runs that have ended since its last tick, in whatever way, a page of them a tick, and tells by its
log and, where the environment variable KEYFOLD_ALERT_WEBHOOK has a URL, by one POST of JSON however many checks there are:

    {"text": "1 check failed …", "failed": [{"check", "asset", "severity", "blocking", "description", "run", …}],
     "recovered": [{"check", "asset", "run", …}]}

- A check is told of when it begins to fail, or to fail as an ERROR after a WARN, and when it passes again; while it goes
  on failing it is not told of again.
- When the webhook cannot be had, messages wait in the outbox (`outbox`), and arrive later in their order. Nothing is
  told twice, unless an answer is lost on its way back: who must know can go by `run` and `check`.
- The URL is a secret: it is in no log, reason or cursor. Samples of rows are not sent.
- The first tick only takes its place; earlier failures are in Dagster's pages. A check that could not be run at all is
  a failed run, for which Dagster has run failure sensors.
"""

import json
import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import dagster as dg

from dagster_project.automation.alert_messages import Evaluation, changes, line, message
from dagster_project.automation.outbox import Outbox, deliver
from dagster_project.automation.webhook import WEBHOOK, post

_ENDS = {
    "success": dg.DagsterEventType.RUN_SUCCESS,
    "failure": dg.DagsterEventType.RUN_FAILURE,
    "canceled": dg.DagsterEventType.RUN_CANCELED,
}
_PAGE = 100
"""Runs that a tick goes through at most; what is left, the next ones do."""

_SECONDS_FOR_READING = 20
"""Of a tick; one run is gone through however long it takes."""


@dg.sensor(
    name="failed_checks",
    minimum_interval_seconds=60,
    default_status=dg.DefaultSensorStatus.STOPPED,
    description=f"Tells of checks that fail or recover: in its log, and by the webhook of {WEBHOOK}.",
)
def failed_checks(context: dg.SensorEvaluationContext) -> dg.SensorResult:
    """Tell of what has changed since the last tick."""
    if context.cursor is None:
        places = {name: _latest(context.instance, kind) for name, kind in _ENDS.items()}
        return _told("begins here: checks that fail from now on are told of", places, {})
    cursor = json.loads(context.cursor)
    outbox = Outbox.load(context.instance)
    page = _page(context.instance, cursor["places"])
    notices, failing = changes(page.evaluations, cursor["failing"])
    new = [notice for notice in notices if not outbox.is_known(context.cursor, notice.of.end)]
    for notice in new:
        is_grave = notice.kind == "failed" and notice.of.severity == "ERROR"
        (context.log.error if is_grave else context.log.warning)(line(notice))
    if url := os.environ.get(WEBHOOK):
        if new:
            outbox = outbox.add(message(new), context.cursor, page.ends)
            # Before the cursor passes them, which Dagster keeps when the tick is over.
            outbox.save(context.instance)
        save = partial(Outbox.save, instance=context.instance)
        outbox = deliver(outbox, partial(post, url), save=save, log=context.log.error)
    told = [message(new)["text"].splitlines()[0] if new else f"nothing new; {len(failing)} checks fail"]
    told += [waiting] if (waiting := outbox.describe(time.time())) else []
    told += ["more runs have ended, which the next tick goes through"] if page.are_more else []
    return _told("; ".join(told), page.places, failing)


def _told(reason: str, places: Mapping[str, str], failing: Mapping[str, str]) -> dg.SensorResult:
    """The cursor: the place among ends of runs up to which all was gone through, and what failed there."""
    return dg.SensorResult(skip_reason=reason, cursor=json.dumps({"places": places, "failing": failing}))


def _page(instance: dg.DagsterInstance, places: Mapping[str, str]) -> "_Page":
    """Go through the next runs that have ended, in the order of their ends: so many, and for so long, at most."""
    found = {
        name: instance.fetch_run_status_changes(kind, limit=_PAGE, cursor=places[name], ascending=True)
        for name, kind in _ENDS.items()
    }
    # The first so many of all kinds are among the first so many of each.
    ends = sorted((record.storage_id, name, record) for name, some in found.items() for record in some.records)[:_PAGE]
    until = time.monotonic() + _SECONDS_FOR_READING
    evaluations, taken = list[Evaluation](), Counter[str]()
    for end, name, record in ends:
        evaluations += _of_run(instance, record.run_id, record.event_log_entry.job_name or "", end)
        taken[name] += 1
        if time.monotonic() > until:
            break
    after = dict(places)
    for name, kind in _ENDS.items():
        some = found[name]
        if 0 < taken[name] < len(some.records):
            # Asked again for just those that were gone through: Dagster gives the place behind a whole page alone.
            some = instance.fetch_run_status_changes(kind, limit=taken[name], cursor=places[name], ascending=True)
        if taken[name]:
            after[name] = some.cursor
    are_more = any(taken[name] < len(some.records) or some.has_more for name, some in found.items())
    return _Page([end for end, _, _ in ends[: taken.total()]], evaluations, after, are_more)


@dataclass(frozen=True)
class _Page:
    """What a tick went through: ends of runs, their evaluations, the places after them, and whether there are more."""

    ends: Sequence[int]
    evaluations: Sequence[Evaluation]
    places: Mapping[str, str]
    are_more: bool


def _of_run(instance: dg.DagsterInstance, run: str, job: str, end: int) -> list[Evaluation]:
    records = instance.get_records_for_run(run, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION).records
    events = [record.event_log_entry.dagster_event for record in records]
    return [
        Evaluation(
            check=data.check_name,
            asset=data.asset_key.to_user_string(),
            passed=data.passed,
            severity=data.severity.value,
            blocking=bool(data.blocking),
            description=data.description or "",
            run=run,
            job=job,
            end=end,
        )
        for data in (event.asset_check_evaluation_data for event in events if event is not None)
    ]


def _latest(instance: dg.DagsterInstance, kind: dg.DagsterEventType) -> str:
    return instance.fetch_run_status_changes(kind, limit=1).cursor
