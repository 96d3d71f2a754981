"""Two sensors that send alerts: on failed runs, and on failed checks and stale assets. They start no runs.

A sensor's cursor has what each destination was told. It changes only when the destination has taken the message: otherwise the
next tick sends it, together with what happened since.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import dagster as dg

from keyfold.dagster.failures import ERROR
from keyfold.errors import Misconfigured, is_keyfold_error

SECONDS = 20.0
"""Time limit for loading Apprise and delivering a message; Dagster gives a sensor's tick a minute."""

_ADDRESSES, _PAGES = "KEYFOLD_ALERTS", "KEYFOLD_UI_URL"
_MOST_RUNS, _LINES, _LONGEST = 1_000, 20, 400
_OVER = "over: "

# A process of its own, since one that hangs can be killed. Of its output, which may have the address, only a status is read.
_APPRISE = """
import json, logging, sys, apprise
logging.basicConfig()
order = json.load(sys.stdin)
services = apprise.Apprise(asset=apprise.AppriseAsset(app_id="Keyfold", async_mode=False, http_redirects=False))
known = services.add(order.pop("url"))
sys.exit(0 if known and services.notify(**order, body_format="text") else 1 if known else 2)
"""

Look = Callable[[dg.SensorEvaluationContext, Any, str], tuple[list[str], Any]]
"""Takes what a destination was told, and the address of Dagster's pages; returns new alerts, and what it is told with them."""


def alert_sensors(environment: Mapping[str, str] = os.environ) -> list[dg.SensorDefinition]:
    """Build the sensors, on by default; none where KEYFOLD_ALERTS is not set.

    Raises:
        KeyfoldError: KEYFOLD_ALERTS has a wrong address.
    """
    if not _destinations(environment):
        return []
    begins = "Sends an alert when a check begins to fail or an asset becomes stale, and when that is over."
    return [
        _sensor("alert_on_failed_runs", "Sends an alert for each failed run.", failed_runs, environment),
        _sensor("alert_on_failed_checks_and_stale_assets", begins, failed_checks_and_stale_assets, environment),
    ]


def failed_runs(context: dg.SensorEvaluationContext, told: int | None, pages: str) -> tuple[list[str], int]:
    """Find runs that failed since the last one told, but for those that Dagster retries and those of failed checks alone."""
    kind, instance = dg.DagsterEventType.RUN_FAILURE, context.instance
    if told is None:
        # Earlier failures are on Dagster's pages.
        newest = instance.fetch_run_status_changes(kind, limit=1).records
        return [], newest[0].storage_id if newest else 0
    since = dg.RunStatusChangeRecordsFilter(kind, after_storage_id=told)
    records = instance.fetch_run_status_changes(since, limit=_MOST_RUNS, ascending=True).records
    runs = [run for record in records if (run := instance.get_run_by_id(record.run_id)) is not None]
    lines = [
        f"error: {_plain(failure)}. Remedy: see its log, fix the last error, start it again: {pages}/runs/{run.run_id}"
        for run in runs
        if run.tags.get("dagster/will_retry") != "true" and (failure := _failure(instance, run))
    ]
    return lines, records[-1].storage_id if records else told


def failed_checks_and_stale_assets(
    context: dg.SensorEvaluationContext, told: list[str] | None, pages: str
) -> tuple[list[str], list[str]]:
    """Find checks that fail and assets that are stale and were not before, and those that were and are no more."""
    graph = context.repository_def.asset_graph  # pyright: ignore[reportOptionalMemberAccess]
    faults, running = dict[str, str](), set[str]()
    latest = context.instance.event_log_storage.get_latest_asset_check_execution_by_key(list(graph.asset_check_keys))
    for key, record in latest.items():
        name, event = f"check {key.asset_key.to_user_string()}: {key.name}", record.event and record.event.dagster_event
        if record.status.value == "PLANNED":
            running.add(name)
        elif record.status.value == "FAILED" and event is not None:
            evaluation = event.asset_check_evaluation_data
            severity = "warning" if evaluation.severity is dg.AssetCheckSeverity.WARN else "error"
            failure = _plain(f"{name}: {evaluation.description or 'it failed'}")
            remedy = "fix the data or the job, then run the check again"
            faults[name] = f"{severity}: {failure}. Remedy: {remedy}: {pages}/runs/{record.run_id}"
    for key, state in context.instance.get_freshness_state_records(list(graph.get_all_asset_keys())).items():
        if severity := {"FAIL": "error", "WARN": "warning"}.get(state.freshness_state.value):
            name = f"stale asset {key.to_user_string()} ({severity})"
            remedy = f"see that its sensor or schedule is on and data arrives: {pages}/assets/{'/'.join(key.path)}"
            faults[name] = f"{severity}: {name}: it was last written too long ago. Remedy: {remedy}"
    before = set(told or [])
    # What a check says that is running is not known yet.
    now = {*faults, *(before & running)}
    raised = [line for name, line in faults.items() if name not in before]
    return [*(f"{_OVER}{name}" for name in sorted(before - now)), *raised], sorted(now)


def _sensor(name: str, description: str, look: Look, environment: Mapping[str, str]) -> dg.SensorDefinition:
    urls = _destinations(environment)
    pages = (environment.get(_PAGES) or "http://127.0.0.1:3000").rstrip("/")

    @dg.sensor(
        name=name,
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"{description} To: {', '.join(urls)}.",
    )
    def alert(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        told: dict[str, Any] = json.loads(context.cursor or "{}")
        seen = {to: look(context, told.get(to), pages) for to in urls}
        # All at once: one that hangs delays no other, and the tick ends in time.
        with ThreadPoolExecutor(len(urls)) as pool:
            failed = dict(zip(urls, pool.map(lambda to: _send(to, urls[to], seen[to][0]), urls), strict=True))
        context.update_cursor(json.dumps({to: told.get(to) if failed[to] else seen[to][1] for to in urls}))
        reasons = "; ".join(f"{reason}; its alerts wait for the next tick" for reason in failed.values() if reason)
        if reasons:
            context.log.warning(reasons)
        return dg.SkipReason(reasons or f"{max(len(lines) for lines, _ in seen.values())} alerts were sent")

    return alert


def _destinations(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the addresses of KEYFOLD_ALERTS, which are secret, by names that are not, such as `slack 1`."""
    urls = dict[str, str]()
    for number, url in enumerate(environment.get(_ADDRESSES, "").split(), start=1):
        service, separator, _ = url.partition("://")
        if not separator or not service.isalnum():
            raise Misconfigured(
                f"{_ADDRESSES}: address {number} does not have the form service://…; give Apprise addresses such as slack://…, "
                "mailtos://… and jsons://…, separated by blanks"
            )
        urls[f"{service} {number}"] = url
    return urls


def _send(name: str, url: str, lines: list[str]) -> str | None:
    """Send one message with the last twenty lines; return why it was not taken, or None."""
    if not lines:
        return None
    over = sum(line.startswith(_OVER) for line in lines)
    counts = ((len(lines) - over, "raised"), (over, "over"))
    more = [f"and {len(lines) - _LINES:,} more"] if len(lines) > _LINES else []
    order = {
        "url": url,
        "title": f"Keyfold: {', '.join(f'{count:,} {word}' for count, word in counts if count)}",
        "body": "\n".join([*lines[-_LINES:], *more]),
        "notify_type": "success" if over == len(lines) else "failure",
    }
    command = [sys.executable, "-c", _APPRISE]
    try:
        process = subprocess.run(
            command, input=json.dumps(order), capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return f"{name}: no answer within {SECONDS:g} s"
    if process.returncode == 2:
        return f"{name}: Apprise does not support this address: see its page of that service"
    status = re.search(r"\berror=(\d{3})\b", process.stderr)
    reason = f"it answered {status[1]}" if status else "it cannot be reached, or refuses the login"
    return f"{name}: {reason}" if process.returncode else None


def _plain(text: str) -> str:
    """Return a text that may quote anything as one line without addresses, links and mentions."""
    shown = re.sub(r"\b([A-Za-z][A-Za-z0-9+.-]*://)[^\s'\"]+", r"\1…", text).translate(str.maketrans("<>", "‹›"))
    shown = " ".join(
        "".join(character if character.isprintable() else " " for character in shown.replace("](", "] (")).split()
    )
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…"


def _failure(instance: dg.DagsterInstance, run: dg.DagsterRun) -> str | None:
    """Return where and why a run failed; None if only blocking checks failed, which have alerts of their own."""
    steps, reasons, are_checks = list[str](), list[str](), list[bool]()
    for record in instance.get_records_for_run(run.run_id, of_type=dg.DagsterEventType.STEP_FAILURE).records:
        event = record.event_log_entry.dagster_event
        if event is None or event.step_key is None:
            continue
        error, own = event.step_failure_data.error, event.step_failure_data.user_failure_data
        steps.append(event.step_key)
        are_checks.append(error is not None and (error.cls_name or "").endswith("AssetCheckFailedError"))
        if own is not None and ERROR in own.metadata:
            reasons.append(own.description or "an error")
            continue
        # Dagster wraps a step's error in its own; the innermost cause is the error itself.
        while error is not None and error.cause is not None:
            error = error.cause
        if error is not None:
            # Dagster stores the message with the class name before it. The text of other errors may quote rows or secrets.
            is_own = is_keyfold_error(error.cls_name or "")
            reasons.append((error.message.partition(": ")[2].strip() if is_own else error.cls_name) or "an error")
    if steps and all(are_checks):
        return None
    place = f" at {', '.join(steps[:3])}" if steps else " before its first step"
    return f"run {run.run_id[:8]} of {run.job_name} failed{place}{f': {reasons[0]}' if reasons else ''}"
