"""Alerts: a sensor that tells of checks that fail, and of those that pass again. Dagster itself tells nobody.

It goes through the runs that have ended since its last tick, in whatever way, and tells by its log and, where the
environment variable KEYFOLD_ALERT_WEBHOOK has a URL, by one POST of JSON however many checks there are:

    {"text": "1 check failed …", "failed": [{"check", "asset", "severity", "blocking", "description", "run", …}],
     "recovered": [{"check", "asset", "run", …}]}

- A check is told of when it begins to fail, or to fail as an ERROR after a WARN, and when it passes again; while it goes
  on failing it is not told of again.
- When the webhook cannot be had, all waits for the next tick; nothing is lost. Nothing is told twice either, unless an
  answer is lost on its way back: who must know can go by `run` and `check`.
- The URL is a secret: it is in no log, reason or cursor. Samples of rows are not sent.
- The first tick only takes its place; earlier failures are in Dagster's pages. A check that could not be run at all is
  a failed run, for which Dagster has run failure sensors.
"""

import json
import os
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import dagster as dg

WEBHOOK = "KEYFOLD_ALERT_WEBHOOK"

_ENDS = {
    "success": dg.DagsterEventType.RUN_SUCCESS,
    "failure": dg.DagsterEventType.RUN_FAILURE,
    "canceled": dg.DagsterEventType.RUN_CANCELED,
}
_PAGE = 200
_LINES = 20
_SECONDS = 10


@dataclass(frozen=True)
class Evaluation:
    """One evaluation of a check.

    Attributes:
        check, asset: names.
        passed: whether it passed.
        severity: ERROR or WARN.
        blocking: whether it holds back what is downstream.
        description: what was found.
        run, job: where it was evaluated.
        end: position of the run's end among the ends of all runs.
    """

    check: str
    asset: str
    passed: bool
    severity: str
    blocking: bool
    description: str
    run: str
    job: str
    end: int

    @property
    def name(self) -> str:
        """The check and its asset in one word."""
        return f"{self.asset}: {self.check}"


@dataclass(frozen=True)
class Notice:
    """Something to tell."""

    kind: Literal["failed", "recovered"]
    of: Evaluation


def changes(evaluations: Iterable[Evaluation], failing: Mapping[str, str]) -> tuple[tuple[Notice, ...], dict[str, str]]:
    """What is to be told of evaluations in their order, and the checks that fail after them, with their severities."""
    after, notices = dict(failing), list[Notice]()
    for evaluation in evaluations:
        before = after.pop(evaluation.name, None)
        if evaluation.passed:
            if before is not None:
                notices.append(Notice("recovered", evaluation))
            continue
        after[evaluation.name] = evaluation.severity
        if before is None or (before == "WARN" and evaluation.severity == "ERROR"):
            notices.append(Notice("failed", evaluation))
    return tuple(notices), after


def message(notices: Iterable[Notice]) -> dict[str, Any]:
    """One message of all notices; its text, which chat services show, names the first twenty."""
    told = tuple(notices)
    failed, recovered = ([notice for notice in told if notice.kind == kind] for kind in ("failed", "recovered"))
    head = ", ".join(
        f"{len(some)} {'check' if len(some) == 1 else 'checks'} {kind}"
        for kind, some in (("failed", failed), ("recovered", recovered))
        if some
    )
    lines = [line(notice) for notice in (*failed, *recovered)]
    more = [f"and {len(lines) - _LINES} more"] if len(lines) > _LINES else []
    return {
        "text": "\n".join((head, *lines[:_LINES], *more)),
        "failed": [_content(notice) for notice in failed],
        "recovered": [_content(notice) for notice in recovered],
    }


def line(notice: Notice) -> str:
    """A notice in one line."""
    of = notice.of
    where = f"run {of.run[:8]} of {of.job}"
    if notice.kind == "recovered":
        return f"recovered: {of.name} ({where})"
    severity = f"{of.severity}, blocks what is downstream" if of.blocking and of.severity == "ERROR" else of.severity
    return f"failed: {of.name} [{severity}] {of.description or 'no description'} ({where})"


class WebhookError(Exception):
    """A message could not be delivered; says why without the URL."""


def post(url: str, content: Mapping[str, Any]) -> None:
    """Send JSON to a webhook.

    Raises:
        WebhookError: it was not accepted.
    """
    if not url.startswith(("http://", "https://")):
        raise WebhookError(f"{WEBHOOK} is no http or https URL")
    try:
        request = urllib.request.Request(  # noqa: S310 - http and https alone
            url, json.dumps(content).encode(), {"Content-Type": "application/json"}, method="POST"
        )
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=_SECONDS):
            return
    except urllib.error.HTTPError as error:
        error.close()
        reason = f"it answered {error.code}"
    except urllib.error.URLError as error:
        reason = getattr(error.reason, "strerror", None) or type(error.reason).__name__
    except Exception as error:  # some of http.client's have the URL in their message
        reason = type(error).__name__
    raise WebhookError(f"the webhook of {WEBHOOK} cannot be had: {reason}") from None


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
        return _told("begins here: checks that fail from now on are told of", places, {}, 0)
    cursor = json.loads(context.cursor)
    evaluations, places = _evaluations(context.instance, cursor["places"])
    notices, failing = changes(evaluations, cursor["failing"])
    logged = max((evaluation.end for evaluation in evaluations), default=cursor["logged"])
    for notice in notices:
        if notice.of.end > cursor["logged"]:
            is_grave = notice.kind == "failed" and notice.of.severity == "ERROR"
            (context.log.error if is_grave else context.log.warning)(line(notice))
    url = os.environ.get(WEBHOOK)
    if notices and url:
        try:
            post(url, message(notices))
        except WebhookError as error:
            waiting = f"{error}; {len(notices)} notices wait for the next tick"
            return _told(waiting, cursor["places"], cursor["failing"], max(logged, cursor["logged"]))
    if not notices:
        return _told(f"nothing new; {len(failing)} checks fail", places, failing, logged)
    return _told(message(notices)["text"].splitlines()[0], places, failing, logged)


def _told(reason: str, places: Mapping[str, str], failing: Mapping[str, str], logged: int) -> dg.SensorResult:
    """The cursor: the place among ends of runs up to which all was told, what failed there, and what was logged."""
    return dg.SensorResult(
        skip_reason=reason, cursor=json.dumps({"places": places, "failing": failing, "logged": logged})
    )


def _evaluations(instance: dg.DagsterInstance, places: Mapping[str, str]) -> tuple[list[Evaluation], dict[str, str]]:
    """The evaluations of all runs that ended since, in the order of their ends, and the new places."""
    ends: list[tuple[int, str, str]] = []
    after = dict(places)
    for name, kind in _ENDS.items():
        more = True
        while more:
            found = instance.fetch_run_status_changes(kind, limit=_PAGE, cursor=after[name], ascending=True)
            ends += [
                (record.storage_id, record.run_id, record.event_log_entry.job_name or "") for record in found.records
            ]
            after[name], more = found.cursor, found.has_more
    return [one for end, run, job in sorted(ends) for one in _of_run(instance, run, job, end)], after


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


def _content(notice: Notice) -> dict[str, Any]:
    return {name: value for name, value in asdict(notice.of).items() if name not in ("passed", "end")}


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would turn the POST into a GET, and might lead anywhere: it counts as a refusal."""

    def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: Any) -> None:
        return None
