"""Alerts of failed checks: what is told, once, and through a webhook that is not always there."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass

import dagster as dg
import pytest
from dagster._core.definitions.asset_checks.asset_check_evaluation import AssetCheckEvaluation

from dagster_project.automation import alerts, outbox
from dagster_project.automation.alerts import failed_checks
from dagster_project.automation.outbox import Outbox
from dagster_project.automation.webhook import WEBHOOK
from tests.dagster_project.automation.scripted_webhook import ScriptedWebhook, answer, drip, hang


@pytest.fixture
def webhook(monkeypatch) -> Iterator[ScriptedWebhook]:
    webhook = ScriptedWebhook()
    monkeypatch.setenv(WEBHOOK, webhook.url)
    # Every tick tries again: when it may is the outbox's business.
    monkeypatch.setattr(outbox, "FIRST_PAUSE", 0)
    yield webhook
    webhook.close()


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


def reads(monkeypatch) -> list[str]:
    """The runs whose evaluations are read, from now on."""
    read, read_one = list[str](), alerts._of_run
    monkeypatch.setattr(
        alerts, "_of_run", lambda instance, run, *more: read.append(run) or read_one(instance, run, *more)
    )
    return read


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


def test_while_the_webhook_is_down_nothing_is_lost_and_later_alerts_arrive_in_order(sensor, webhook):
    webhook.script = [answer(503), answer(503), answer(503)]
    sensor.run("rows_add_up")
    assert sensor.tick() == "1 check failed; 1 message waits, tried again in 0 s"
    sensor.run("fare")
    assert sensor.tick().startswith("1 check failed, 1 check recovered; 2 messages wait")
    assert sensor.tick().startswith("nothing new; 1 checks fail; 2 messages wait")
    sensor.run()
    assert sensor.tick() == "1 check recovered"
    told = [(len(one["failed"]), len(one["recovered"])) for one in webhook.got]
    assert told == [(1, 0), (1, 1), (0, 1)]
    assert [one["check"] for content in webhook.got for one in content["failed"]] == ["rows_add_up", "fare"]
    assert sensor.tick() == "nothing new; 0 checks fail"
    assert len(webhook.got) == 3


def test_while_the_webhook_is_down_no_run_is_read_again(sensor, webhook, monkeypatch):
    webhook.script = [answer(500)] * 5
    sensor.run("rows_add_up")
    sensor.run("rows_add_up")
    read = reads(monkeypatch)
    for _ in range(5):
        assert "1 message waits" in sensor.tick()
    assert len(read) == len(set(read)) == 2
    assert len(sensor.cursor or "") < 500


def test_a_tick_goes_through_a_bounded_page_of_runs_and_the_next_ones_do_the_rest_in_order(
    sensor, webhook, monkeypatch
):
    monkeypatch.setattr(alerts, "_PAGE", 3)
    read = reads(monkeypatch)
    # Ends of different kinds, across the pages' ends: a crash fails its run.
    faults = [["fare"], ["crashes"], [], ["fare", "crashes"], ["crashes"], ["fare"], [], ["fare"]]
    for some in faults:
        sensor.run(*some)
    for seen in (3, 6):
        assert "more runs have ended" in sensor.tick()
        assert len(read) == seen
    assert "more runs" not in sensor.tick()
    assert len(read) == len(set(read)) == 8
    told = {
        (kind, one["run"])
        for content in webhook.got
        for kind in ("failed", "recovered")
        for one in content[kind]
        if one["check"] == "fare"
    }
    changed = zip(read, [[], *faults[:-1]], faults, strict=True)
    assert told == {
        ("failed" if "fare" in now else "recovered", run)
        for run, before, now in changed
        if ("fare" in before) != ("fare" in now)
    }


def test_a_tick_that_is_slow_to_read_goes_through_one_run_at_least(sensor, webhook, monkeypatch):
    monkeypatch.setattr(alerts, "_SECONDS_FOR_READING", -1)
    read = reads(monkeypatch)
    for _ in range(3):
        sensor.run("fare")
    assert "1 check failed; more runs have ended" in sensor.tick()
    assert "more" in sensor.tick()
    assert sensor.tick() == "nothing new; 1 checks fail"
    assert len(read) == len(set(read)) == 3


@pytest.mark.parametrize("act", [hang(), drip()], ids=["hangs", "drips"])
def test_a_webhook_that_hangs_does_not_stall_the_sensor(sensor, webhook, monkeypatch, act):
    monkeypatch.setattr("dagster_project.automation.webhook.post.__defaults__", (0.5,))
    webhook.script = [act]
    sensor.run("rows_add_up")
    began = time.monotonic()
    assert "1 message waits" in sensor.tick()
    assert time.monotonic() - began < 10
    assert sensor.tick() == "nothing new; 1 checks fail"
    assert len(webhook.got) == 1


def test_what_the_webhook_refuses_is_logged_and_does_not_hold_up_what_comes_after(sensor, webhook):
    webhook.script = [answer(400)]
    sensor.run("rows_add_up")
    assert sensor.tick() == "1 check failed; 0 messages wait; 1 message dropped"
    sensor.run()
    assert sensor.tick() == "1 check recovered"
    (content,) = webhook.got
    assert content["lost_messages"] == 1
    assert "1 message before this one could not be delivered and is lost" in content["text"]


def test_a_tick_that_is_cut_off_before_its_cursor_is_kept_tells_nothing_twice(sensor, webhook):
    before = sensor.cursor
    sensor.run("rows_add_up")
    sensor.tick()
    sensor.cursor = before
    sensor.run("rows_add_up", "fare")
    assert sensor.tick() == "1 check failed"
    assert [[one["check"] for one in content["failed"]] for content in webhook.got] == [["rows_add_up"], ["fare"]]
    assert Outbox.load(sensor.instance).messages == []


def test_each_notice_is_logged_once_though_it_is_sent_later(sensor, webhook, monkeypatch):
    logged: list[str] = []
    monkeypatch.setattr(alerts, "line", lambda notice: logged.append(notice.of.check) or "a line")
    webhook.script = [answer(503)] * 3
    sensor.run("rows_add_up")
    for _ in range(4):
        sensor.tick()
    assert logged == ["rows_add_up"]
    assert len(webhook.got) == 1


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
