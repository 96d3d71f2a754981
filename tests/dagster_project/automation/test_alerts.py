"""Alerts of failed checks: what is told, once, and through a webhook that is not always there."""

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.asset_checks.asset_check_evaluation import AssetCheckEvaluation

from dagster_project.automation.alerts import (
    WEBHOOK,
    Evaluation,
    Notice,
    WebhookError,
    changes,
    failed_checks,
    line,
    message,
    post,
)

ROWS = Evaluation("rows_add_up", "events", False, "ERROR", True, "3 rows lack", "run-1", "rides", 1)
PASSED = replace(ROWS, passed=True, run="run-2")
ODD = replace(ROWS, check="fare", severity="WARN", blocking=False, description="")


def kinds(evaluations: list[Evaluation], failing: dict[str, str] | None = None) -> list[tuple[str, str]]:
    return [(notice.kind, notice.of.check) for notice in changes(evaluations, failing or {})[0]]


def test_a_check_is_told_of_when_it_begins_to_fail_and_not_while_it_goes_on():
    notices, failing = changes([ROWS, ROWS], {})
    assert [notice.kind for notice in notices] == ["failed"]
    assert failing == {"events: rows_add_up": "ERROR"}
    assert kinds([ROWS], failing) == []


def test_a_check_that_passes_again_is_told_of_once():
    assert kinds([PASSED, PASSED], {"events: rows_add_up": "ERROR"}) == [("recovered", "rows_add_up")]
    assert kinds([PASSED]) == []


def test_what_fails_and_recovers_between_two_ticks_is_told_both_ways():
    assert kinds([ROWS, PASSED, ROWS]) == [(kind, "rows_add_up") for kind in ("failed", "recovered", "failed")]


def test_a_warning_that_becomes_an_error_is_told_of_anew():
    assert kinds([replace(ODD, severity="ERROR")], {"events: fare": "WARN"}) == [("failed", "fare")]
    assert kinds([ODD], {"events: fare": "ERROR"}) == []


def test_checks_of_one_name_on_two_assets_are_two():
    assert len(kinds([ROWS, replace(ROWS, asset="summaries")])) == 2


def test_a_line_says_what_failed_how_badly_and_where():
    assert line(Notice("failed", ROWS)) == (
        "failed: events: rows_add_up [ERROR, blocks what is downstream] 3 rows lack (run run-1 of rides)"
    )
    assert line(Notice("failed", ODD)) == "failed: events: fare [WARN] no description (run run-1 of rides)"
    assert line(Notice("recovered", PASSED)) == "recovered: events: rows_add_up (run run-2 of rides)"


def test_many_failures_are_one_message_that_names_twenty_and_holds_all():
    notices = [Notice("failed", replace(ROWS, check=f"check_{number}")) for number in range(50)]
    content = message([*notices, Notice("recovered", PASSED)])
    lines = content["text"].splitlines()
    assert lines[0] == "50 checks failed, 1 check recovered"
    assert (len(lines), lines[-1]) == (22, "and 31 more")
    assert (len(content["failed"]), len(content["recovered"])) == (50, 1)
    assert content["failed"][0] == {
        "check": "check_0",
        "asset": "events",
        "severity": "ERROR",
        "blocking": True,
        "description": "3 rows lack",
        "run": "run-1",
        "job": "rides",
    }


@dataclass
class Webhook:
    """A real server, which answers as it is told to."""

    status: int = 200
    got: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""


@pytest.fixture
def webhook(monkeypatch) -> Iterator[Webhook]:
    webhook = Webhook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if webhook.status == 200:
                webhook.got.append(content)
            self.send_response(webhook.status)
            if webhook.status == 302:
                self.send_header("Location", "/elsewhere")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    webhook.url = f"http://127.0.0.1:{server.server_port}/services/SECRET"
    monkeypatch.setenv(WEBHOOK, webhook.url)
    yield webhook
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("status", [302, 404, 500, 503])
def test_an_answer_other_than_yes_is_an_error_without_the_url(webhook, status):
    webhook.status = status
    with pytest.raises(WebhookError, match=f"it answered {status}") as raised:
        post(webhook.url, {})
    assert "SECRET" not in str(raised.value)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:1/SECRET",
        "http://no.such.host.invalid/SECRET",
        "http://[/SECRET",
        "http://a b/SECRET",
        "ftp://SECRET",
    ],
)
def test_a_url_that_leads_nowhere_is_an_error_that_does_not_show_it(url):
    with pytest.raises(WebhookError) as raised:
        post(url, {})
    assert "SECRET" not in str(raised.value)
    assert raised.value.__cause__ is None


FAULTS: set[str] = set()


@dg.asset
def events() -> None: ...


@dg.asset_check(asset=events, blocking=True)
def rows_add_up():
    return dg.AssetCheckResult(passed="rows_add_up" not in FAULTS, description="3 rows lack", metadata={"sample": "x"})


@dg.asset_check(asset=events)
def fare():
    return dg.AssetCheckResult(passed="fare" not in FAULTS, severity=dg.AssetCheckSeverity.WARN)


@dg.asset_check(asset=events)
def crashes():
    if "crashes" in FAULTS:
        raise RuntimeError("cannot be run")
    return dg.AssetCheckResult(passed=True)


DEFINITIONS = dg.Definitions(
    assets=[events], asset_checks=[rows_add_up, fare, crashes], jobs=[dg.define_asset_job("rides", selection="*")]
)


@dataclass
class Sensor:
    """The sensor, and the cursor that Dagster keeps for it."""

    instance: dg.DagsterInstance
    cursor: str | None = None

    def run(self, *faults: str) -> None:
        FAULTS.clear()
        FAULTS.update(faults)
        DEFINITIONS.resolve_job_def("rides").execute_in_process(instance=self.instance, raise_on_error=False)

    def tick(self) -> str:
        told = failed_checks(dg.build_sensor_context(instance=self.instance, cursor=self.cursor))
        assert isinstance(told, dg.SensorResult)
        self.cursor = told.cursor
        assert "SECRET" not in str(told)
        return str(told.skip_reason.skip_message if told.skip_reason else "")


@pytest.fixture
def sensor(tmp_path) -> Iterator[Sensor]:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        sensor = Sensor(instance)
        sensor.run("rows_add_up")
        assert sensor.tick().startswith("begins here")
        yield sensor


def test_all_failures_of_many_runs_go_out_in_one_message_once(sensor, webhook):
    sensor.run("rows_add_up")
    sensor.run("rows_add_up", "fare")
    assert sensor.tick() == "2 checks failed"
    (content,) = webhook.got
    assert [(one["check"], one["severity"], one["blocking"]) for one in content["failed"]] == [
        ("rows_add_up", "ERROR", True),
        ("fare", "WARN", False),
    ]
    assert "sample" not in json.dumps(content)
    assert sensor.tick() == "nothing new; 2 checks fail"
    sensor.run("rows_add_up", "fare")
    assert sensor.tick() == "nothing new; 2 checks fail"
    assert len(webhook.got) == 1


def test_recovered_checks_are_told_of(sensor, webhook):
    sensor.run("fare")
    sensor.tick()
    sensor.run()
    assert sensor.tick() == "1 check recovered"
    assert [one["check"] for one in webhook.got[-1]["recovered"]] == ["fare"]
    assert sensor.tick() == "nothing new; 0 checks fail"


def test_while_the_webhook_is_down_nothing_is_lost_and_nothing_is_said_twice(sensor, webhook, monkeypatch, caplog):
    webhook.status = 503
    sensor.run("rows_add_up")
    assert "it answered 503; 1 notices wait for the next tick" in sensor.tick()
    sensor.run("fare")
    assert "it answered 503; 3 notices wait" in sensor.tick()
    assert sensor.tick().endswith("3 notices wait for the next tick")
    webhook.status = 200
    assert sensor.tick() == "2 checks failed, 1 check recovered"
    (content,) = webhook.got
    assert [one["check"] for one in content["failed"]] == ["rows_add_up", "fare"]
    assert [one["check"] for one in content["recovered"]] == ["rows_add_up"]
    assert "nothing new" in sensor.tick()
    assert len(webhook.got) == 1


def test_each_notice_is_logged_once_though_it_is_sent_later(sensor, webhook, monkeypatch):
    logged: list[str] = []
    monkeypatch.setattr(
        "dagster_project.automation.alerts.line", lambda notice: logged.append(notice.of.check) or "a line"
    )
    webhook.status = 503
    sensor.run("rows_add_up")
    sensor.tick()
    assert logged.count("rows_add_up") == 1 + 0 + 1, "in the log, and in the message that was not taken"
    sensor.tick()
    assert logged.count("rows_add_up") == 3, "in the message alone"


def test_without_a_webhook_the_log_is_told_and_nothing_waits(sensor, monkeypatch):
    monkeypatch.delenv(WEBHOOK, raising=False)
    sensor.run("rows_add_up")
    assert sensor.tick() == "1 check failed"
    assert sensor.tick() == "nothing new; 1 checks fail"


def test_a_run_that_failed_otherwise_and_one_that_was_cancelled_are_gone_through_as_well(sensor, webhook):
    sensor.run("crashes", "rows_add_up")
    run = sensor.instance.create_run_for_job(DEFINITIONS.resolve_job_def("rides"), status=dg.DagsterRunStatus.STARTED)
    sensor.instance.report_run_canceled(run)
    assert sensor.tick() == "1 check failed"


def test_a_check_in_a_run_that_is_not_over_is_told_of_when_it_is(sensor, webhook):
    job = DEFINITIONS.resolve_job_def("rides")
    run = sensor.instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED)
    failed = AssetCheckEvaluation(dg.AssetKey("events"), "fare", passed=False, metadata={})
    kind = dg.DagsterEventType.ASSET_CHECK_EVALUATION.value
    sensor.instance.report_dagster_event(dg.DagsterEvent(kind, "rides", event_specific_data=failed), run.run_id)
    assert "nothing new" in sensor.tick()
    sensor.instance.report_run_canceled(run)
    assert sensor.tick() == "1 check failed"


def test_the_cursor_holds_places_and_what_fails_and_no_more(sensor, webhook):
    for _ in range(2):
        sensor.run("fare")
    sensor.tick()
    assert len(sensor.cursor or "") < 500
    assert json.loads(sensor.cursor or "")["failing"] == {"events: fare": "WARN"}


def test_the_sensor_is_off_until_somebody_switches_it_on():
    assert failed_checks.default_status is dg.DefaultSensorStatus.STOPPED
