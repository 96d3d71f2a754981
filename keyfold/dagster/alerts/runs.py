"""Runs that failed and checks that failed, by the ends of runs; once the run succeeds, or the check passes, it is over.

- A run that Dagster retries is reported when its retries are exhausted, and one that a landing sensor asks for again at once.
- A run that was cancelled was cancelled by somebody; its checks count.
- Samples of rows are not part of an alert, and of errors only those are whose text Keyfold wrote.
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
"""Ends of runs that a look reads at most; what is left, the next ones do."""

_RETRIED, _RETRY_NUMBER = "dagster/will_retry", "dagster/retry_number"
_ATTEMPT, _ATTEMPTS = "keyfold/attempt", 6
"""A landing sensor asks five times more for a run that has read nothing."""

_ASSETS = "__ASSET_JOB"
_STEPS_NAMED = 3


@dataclass(frozen=True)
class Page:
    """What a look reads.

    Attributes:
        events: in the order of the runs' ends.
        place: storage id of the last end that was read.
        are_more: whether further runs have ended.
    """

    events: tuple[Event, ...]
    place: int
    are_more: bool


def newest_end(instance: dg.DagsterInstance) -> int:
    """The storage id of the newest end of a run, 0 where none has ended."""
    found = (instance.fetch_run_status_changes(kind, limit=1).records for kind in _ENDS)
    return max((record.storage_id for records in found for record in records), default=0)


def read_ends(instance: dg.DagsterInstance, place: int, raised: Raised) -> Page:
    """Read the next runs that have ended, in the order of their ends."""
    ends = [
        (record.storage_id, kind, record.run_id)
        for kind in _ENDS
        for record in instance.fetch_run_status_changes(
            dg.RunStatusChangeRecordsFilter(kind, after_storage_id=place), limit=_PAGE, ascending=True
        ).records
    ]
    # The first so many of all kinds are among the first so many of each.
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
            return  # of blocking checks alone, which are reported themselves
        remedy = "see the run's log in Dagster, mend what its last error names, then start it again"
        for name in _subjects(run):
            yield name, Condition(name, "error", what, remedy, {"run": run_id})
        attempt = run.tags.get(_ATTEMPT, "")
        if attempt.isdecimal() and int(attempt) >= _ATTEMPTS:
            yield (
                _retries(run),
                Condition(
                    _retries(run),
                    "error",
                    f"{attempt} runs of {run.job_name} in a row have read nothing: its sensor asks for no further one, but for new files",
                    "mend what the last run's error names, then start the job by hand",
                    {"run": run_id},
                ),
            )


def _subjects(run: dg.DagsterRun) -> list[str]:
    """What a run is of: its job, or the assets that it was asked for."""
    if run.job_name != _ASSETS:
        names = [f"job {run.job_name}"]
        return [*names, _retries(run)] if run.is_success else names
    assets = {key.to_user_string() for key in run.asset_selection or ()}
    checked = {key.asset_key.to_user_string() for key in run.asset_check_selection or ()} - assets
    return [*(f"asset {one}" for one in sorted(assets)), *(f"checks of {one}" for one in sorted(checked))]


def _retries(run: dg.DagsterRun) -> str:
    return f"retries of job {run.job_name}"


def _failure(instance: dg.DagsterInstance, run: dg.DagsterRun) -> str | None:
    """Where and why a run failed; None where nothing but blocking checks did."""
    steps, reasons, are_checks = list[str](), list[str](), list[bool]()
    for record in instance.get_records_for_run(run.run_id, of_type=dg.DagsterEventType.STEP_FAILURE).records:
        event = record.event_log_entry.dagster_event
        if event is None or event.step_key is None:
            continue
        steps.append(event.step_key)
        error = event.step_failure_data.error
        are_checks.append(error is not None and (error.cls_name or "").endswith("AssetCheckFailedError"))
        while error is not None and error.cause is not None:
            error = error.cause
        if error is not None:
            is_known = is_keyfold_error(error.cls_name or "")
            said = error.message.partition(": ")[2].strip() if is_known else error.cls_name
            reasons.append(said or "an error")
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
        f"{data.description or 'no description'} ({'blocks what is downstream, ' if blocks else ''}run {run.run_id[:8]})",
        "see what docs/reference/checks.md says of the check, mend the job or the data, then run the check again",
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
