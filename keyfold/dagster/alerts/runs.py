"""Find failed runs and failed checks in the runs that have ended. A later successful run, or a passed check, clears them.

- A run that Dagster retries is reported when its retries are exhausted; a run that a landing sensor retries, at once.
- A cancelled run is not reported, but its checks are.
- An alert contains no sample rows, and the text of an error only if it is Keyfold's own.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import dagster as dg

from keyfold.dagster.alerts.condition import Condition, Event, Raised
from keyfold.errors import is_keyfold_error

_ENDS = (
    dg.DagsterEventType.RUN_SUCCESS,
    dg.DagsterEventType.RUN_FAILURE,
    dg.DagsterEventType.RUN_CANCELED,
)
_PAGE = 100
"""Largest number of ended runs in one page."""

_RETRIED, _RETRY_NUMBER = "dagster/will_retry", "dagster/retry_number"
_ATTEMPT, _ATTEMPTS = "keyfold/attempt", 6
"""A landing sensor retries a run that reads nothing five times."""

_ASSETS = "__ASSET_JOB"
_STEPS_NAMED = 3


@dataclass(frozen=True)
class Page:
    """A page of ended runs.

    Attributes:
        events: the events, in the order in which the runs ended.
        place: storage id of the last end that was read.
        are_more: whether more runs have ended.
    """

    events: tuple[Event, ...]
    place: int
    are_more: bool


def newest_end(instance: dg.DagsterInstance) -> int:
    """Return the storage id of the newest end of a run, 0 if no run has ended."""
    found = (instance.fetch_run_status_changes(kind, limit=1).records for kind in _ENDS)
    return max((record.storage_id for records in found for record in records), default=0)


def read_ends(instance: dg.DagsterInstance, place: int, raised: Raised) -> Page:
    """Read the next page of ended runs, in the order in which they ended."""
    ends = [
        (record.storage_id, kind, record.run_id)
        for kind in _ENDS
        for record in instance.fetch_run_status_changes(
            dg.RunStatusChangeRecordsFilter(kind, after_storage_id=place), limit=_PAGE, ascending=True
        ).records
    ]
    # The first page of all kinds together is contained in the first pages of each kind.
    page = sorted(ends)[:_PAGE]
    events = list[Event]()
    there = set(raised)
    for _, kind, run_id in page:
        for name, condition in _of_run(instance, run_id, kind, there):
            (there.discard if condition is None else there.add)(name)
            events.append((name, condition))
    return Page(tuple(events), page[-1][0] if page else place, len(ends) > len(page))


def _of_run(
    instance: dg.DagsterInstance, run_id: str, kind: dg.DagsterEventType, raised: Iterable[str]
) -> Iterator[Event]:
    run = instance.get_run_by_id(run_id)
    if run is None:
        return  # deleted since
    # The checks of failed and cancelled runs too: they have been evaluated.
    for data in _data(instance, run_id, dg.DagsterEventType.ASSET_CHECK_EVALUATION, "asset_check_evaluation_data"):
        yield _check(data, run)
    if kind is dg.DagsterEventType.RUN_SUCCESS:
        yield from ((name, None) for name in _subjects(run))
        if any(name.startswith("asset ") for name in raised):
            # A run of a whole group writes the assets of a run that had failed alone.
            kind = dg.DagsterEventType.ASSET_MATERIALIZATION
            for data in _data(instance, run_id, kind, "step_materialization_data"):
                yield f"asset {data.materialization.asset_key.to_user_string()}", None
    if kind is dg.DagsterEventType.RUN_FAILURE and run.tags.get(_RETRIED) != "true":
        what = _failure(instance, run)
        if what is None:
            return  # only blocking checks failed, and they are reported themselves
        remedy = "see the run's log in Dagster, fix its last error, then start it again"
        for name in _subjects(run):
            yield name, Condition(name, "error", what, remedy, {"run": run_id})
        attempt = run.tags.get(_ATTEMPT, "")
        if attempt.isdecimal() and int(attempt) >= _ATTEMPTS:
            yield (
                _retries(run),
                Condition(
                    _retries(run),
                    "error",
                    f"{attempt} runs of {run.job_name} in a row have read nothing: its sensor starts further runs only for new "
                    "files",
                    "fix the last run's error, then start the job by hand",
                    {"run": run_id},
                ),
            )


def _subjects(run: dg.DagsterRun) -> list[str]:
    """Return the conditions' names of a run: its job, or its selected assets."""
    if run.job_name != _ASSETS:
        names = [f"job {run.job_name}"]
        return [*names, _retries(run)] if run.is_success else names
    assets = {key.to_user_string() for key in run.asset_selection or ()}
    checked = {key.asset_key.to_user_string() for key in run.asset_check_selection or ()} - assets
    return [*(f"asset {one}" for one in sorted(assets)), *(f"checks of {one}" for one in sorted(checked))]


def _retries(run: dg.DagsterRun) -> str:
    return f"retries of job {run.job_name}"


def _failure(instance: dg.DagsterInstance, run: dg.DagsterRun) -> str | None:
    """Return where and why a run failed; None if only blocking checks failed."""
    steps, reasons, are_checks = list[str](), list[str](), list[bool]()
    for record in instance.get_records_for_run(run.run_id, of_type=dg.DagsterEventType.STEP_FAILURE).records:
        event = record.event_log_entry.dagster_event
        if event is None or event.step_key is None:
            continue
        steps.append(event.step_key)
        error = event.step_failure_data.error
        are_checks.append(error is not None and (error.cls_name or "").endswith("AssetCheckFailedError"))
        # Dagster wraps a step's error in its own; the innermost cause is the error itself.
        while error is not None and error.cause is not None:
            error = error.cause
        if error is not None:
            is_known = is_keyfold_error(error.cls_name or "")
            # Dagster stores the message with the class name before it. The text of other errors may quote rows or secrets.
            reason = error.message.partition(": ")[2].strip() if is_known else error.cls_name
            reasons.append(reason or "an error")
    if steps and all(are_checks):
        return None
    more = f" and {len(steps) - _STEPS_NAMED} more" if len(steps) > _STEPS_NAMED else ""
    where = f" at {', '.join(steps[:_STEPS_NAMED])}{more}" if steps else " before its first step"
    why = f": {reasons[0]}" if reasons else ""
    retry, attempt = run.tags.get(_RETRY_NUMBER), run.tags.get(_ATTEMPT)
    tries = f", after {retry} retries" if retry else f", attempt {attempt} of {_ATTEMPTS}" if attempt else ""
    return f"run {run.run_id[:8]} of {run.job_name} failed{where}{tries}{why}"


def _check(data: Any, run: dg.DagsterRun) -> Event:
    asset, severity = data.asset_key.to_user_string(), data.severity.value
    name = f"check {asset}: {data.check_name}"
    if data.passed:
        return name, None
    blocks = bool(data.blocking) and severity == "ERROR"
    return name, Condition(
        name,
        "error" if severity == "ERROR" else "warning",
        f"{data.description or 'no description'} ({'blocks downstream assets, ' if blocks else ''}run {run.run_id[:8]})",
        "see the check in docs/reference/checks.md, fix the job or the data, then run the check again",
        {
            "check": data.check_name,
            "asset": asset,
            "blocking": "yes" if blocks else "no",
            "run": run.run_id,
            "job": run.job_name,
        },
    )


def _data(instance: dg.DagsterInstance, run: str, kind: dg.DagsterEventType, attribute: str) -> list[Any]:
    records = instance.get_records_for_run(run, of_type=kind).records
    events = (record.event_log_entry.dagster_event for record in records)
    return [getattr(event, attribute) for event in events if event is not None]
