"""Alerts of runs and their checks: what is reported, once, and through a webhook that is not always there."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.asset_checks.asset_check_evaluation import AssetCheckEvaluation
from dagster._core.events import StepMaterializationData
from dagster._core.execution.plan.objects import StepFailureData
from dagster._utils.error import SerializableErrorInfo

from keyfold.dagster.alerts import outbox, runs
from keyfold.dagster.alerts.settings import WEBHOOK, AlertSettings
from keyfold.dagster.alerts.state import State
from keyfold.dagster.alerts.watch import Watch
from keyfold.errors import KeyfoldError
from keyfold.lakehouse import Lakehouse
from tests.keyfold.dagster.alerts.scripted_webhook import ScriptedWebhook, answer


@pytest.fixture
def webhook(monkeypatch) -> Iterator[ScriptedWebhook]:
    webhook = ScriptedWebhook()
    # Every look tries again: when it may is the outbox's business.
    monkeypatch.setattr(outbox, "FIRST_PAUSE", 0)
    yield webhook
    webhook.close()


@dg.asset
def events() -> None:
    raise KeyfoldError("sales is already running: wait, or see http://host/?token=SECRET")


CHECKS = {"rows_add_up": dg.AssetCheckSeverity.ERROR, "fare": dg.AssetCheckSeverity.WARN}


@dg.asset
def written() -> None: ...


@dg.asset_check(asset=written, blocking=True)
def adds_up():
    return dg.AssetCheckResult(passed=False, description="3 rows lack")


DEFINITIONS = dg.Definitions(
    assets=[events, written], asset_checks=[adds_up], jobs=[dg.define_asset_job("rides", selection="events")]
)
JOB = DEFINITIONS.resolve_job_def("rides")
ALREADY_RUNS = SerializableErrorInfo("keyfold.errors.KeyfoldError: sales is already running\n", [], "KeyfoldError")


@dataclass
class Story:
    """An instance, and what looks at it."""

    instance: dg.DagsterInstance
    watch: Watch
    logged: list[str] = field(default_factory=list)

    def run(self, *faults: str, **tags: str) -> None:
        """Report what a run of the job reports: its failed step or its checks, and its end."""
        run = self.instance.create_run_for_job(
            JOB, status=dg.DagsterRunStatus.STARTED, tags={name.replace("__", "/"): tag for name, tag in tags.items()}
        )
        if "run" in faults:
            self.report(run, dg.DagsterEventType.STEP_FAILURE, StepFailureData(ALREADY_RUNS, None))
            self.instance.report_run_failed(run)
            return
        written = StepMaterializationData(dg.AssetMaterialization("events"))
        self.report(run, dg.DagsterEventType.ASSET_MATERIALIZATION, written)
        for check, severity in CHECKS.items():
            kind = dg.DagsterEventType.ASSET_CHECK_EVALUATION
            found = AssetCheckEvaluation(
                dg.AssetKey("events"),
                check,
                check not in faults,
                {"sample": dg.MetadataValue.text("x")},
                severity=severity,
                description="3 rows lack",
                blocking=severity is dg.AssetCheckSeverity.ERROR,
            )
            self.report(run, kind, found)
        self.report(run, dg.DagsterEventType.RUN_SUCCESS)

    def report(self, run: dg.DagsterRun, kind: dg.DagsterEventType, data: Any = None) -> None:
        step = "events" if kind is dg.DagsterEventType.STEP_FAILURE else None
        event = dg.DagsterEvent(kind.value, run.job_name, event_specific_data=data, step_key=step)
        self.instance.report_dagster_event(event, run.run_id)

    def look(self) -> list[str]:
        return [f"{change.state} {change.condition.name}" for change in self.watch.look()]

    def restart(self) -> None:
        """As a new process does."""
        self.watch = Watch(
            self.instance, self.watch.lakehouse, (), self.watch.settings, self.logged.append, self.watch.began
        )


@pytest.fixture(scope="module")
def instance(tmp_path_factory) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.local_temp(str(tmp_path_factory.mktemp("dagster"))) as instance:
        yield instance


@pytest.fixture
def story(instance, tmp_path, webhook) -> Iterator[Story]:
    State().save(instance)
    settings = AlertSettings.from_environment({WEBHOOK: webhook.url, "KEYFOLD_ALERT_DISK_PERCENT": "0.0001"})
    logged = list[str]()
    story = Story(instance, Watch(instance, Lakehouse(tmp_path / "home"), (), settings, logged.append), logged)
    story.run("rows_add_up")
    story.run("run")
    assert story.look() == [], "the first look only takes its place"
    yield story
    assert "SECRET" not in json.dumps(webhook.got) + str(story.logged)


def reported(webhook: ScriptedWebhook) -> list[tuple[str, str]]:
    return [(one["state"], one["condition"]) for got in webhook.got for one in (*got["raised"], *got["cleared"])]


def test_a_failed_run_is_reported_once_with_its_reason_and_remedy_and_when_the_job_succeeds(story, webhook):
    story.run("run")
    assert story.look() == ["raised job rides"]
    (one,) = webhook.got[0]["raised"]
    assert one["what"].endswith("of rides failed at events: sales is already running")
    assert "start it again" in one["remedy"]
    story.run("run")
    assert story.look() == []
    story.run()
    assert story.look() == ["cleared job rides"]
    assert story.look() == []
    assert reported(webhook) == [("raised", "job rides"), ("cleared", "job rides")]


def test_a_run_that_dagster_retries_is_reported_when_the_retries_are_exhausted(story):
    story.run("run", dagster__will_retry="true")
    assert story.look() == []
    story.run("run", dagster__will_retry="false", dagster__retry_number="2")
    assert story.look() == ["raised job rides"]
    assert "after 2 retries" in story.watch.state.raised["runs"]["job rides"].what


def test_that_a_sensor_asks_for_no_further_run_is_reported_by_itself(story):
    story.run("run", keyfold__attempt="5")
    assert story.look() == ["raised job rides"]
    story.run("run", keyfold__attempt="6")
    assert story.look() == ["raised retries of job rides"]
    story.run()
    assert story.look() == ["cleared job rides", "cleared retries of job rides"]


def executed(story: Story, asset: str) -> None:
    job = DEFINITIONS.resolve_implicit_global_asset_job_def().get_subset(asset_selection={dg.AssetKey(asset)})
    job.execute_in_process(instance=story.instance, raise_on_error=False, asset_selection=[dg.AssetKey(asset)])


def test_a_failed_run_of_single_assets_is_over_when_any_run_writes_them(story, webhook):
    executed(story, "events")
    assert story.look() == ["raised asset events"]
    (one,) = webhook.got[0]["raised"]
    assert "failed at events: sales is already running: wait, or see http://…" in one["what"]
    story.run()
    assert story.look() == ["cleared asset events"]


def test_a_run_that_failed_by_a_blocking_check_alone_is_reported_as_the_check(story):
    job = DEFINITIONS.resolve_implicit_global_asset_job_def()
    job.get_subset(asset_selection={dg.AssetKey("written")}).execute_in_process(
        instance=story.instance, raise_on_error=False
    )
    assert story.look() == ["raised check written: adds_up"]


def test_all_that_fails_in_a_look_goes_out_in_one_message_once(story, webhook):
    story.run("rows_add_up")
    story.run("rows_add_up", "fare")
    assert story.look() == ["raised check events: rows_add_up", "raised check events: fare"]
    (got,) = webhook.got
    assert [(one["check"], one["severity"], one["blocking"]) for one in got["raised"]] == [
        ("rows_add_up", "error", "yes"),
        ("fare", "warning", "no"),
    ]
    assert "sample" not in json.dumps(got)
    story.run("rows_add_up", "fare")
    assert story.look() == []
    story.run("rows_add_up")
    assert story.look() == ["cleared check events: fare"]


def test_while_the_webhook_is_away_nothing_is_lost_and_later_alerts_arrive_with_it_after_a_restart_too(story, webhook):
    webhook.script = [answer(503), answer(404)]
    story.run("rows_add_up")
    story.look()
    story.restart()
    story.run("fare")
    story.look()
    story.restart()
    assert story.look() == []
    assert reported(webhook) == [
        ("raised", "check events: rows_add_up"),
        ("raised", "check events: fare"),
        ("cleared", "check events: rows_add_up"),
    ]
    assert webhook.tried == 3


def test_no_run_is_read_again_and_more_than_a_page_of_them_are_read_in_their_order(story, monkeypatch):
    monkeypatch.setattr(runs, "_PAGE", 3)
    read, read_one = list[str](), runs._of_run

    def reading(instance: Any, run: str, *more: Any) -> Any:
        read.append(run)
        return read_one(instance, run, *more)

    monkeypatch.setattr(runs, "_of_run", reading)
    # Ends of different kinds, across the pages' ends.
    for faults in (["fare"], ["run"], [], ["fare", "run"], ["run"], ["fare"], [], ["fare"]):
        story.run(*faults)
    fare, job = "check events: fare", "job rides"
    assert story.look() == [
        *(f"raised {fare}", f"raised {job}", f"cleared {fare}", f"cleared {job}"),
        *(f"raised {job}", f"raised {fare}", f"cleared {job}", f"cleared {fare}", f"raised {fare}"),
    ]
    assert story.look() == []
    assert len(read) == len(set(read)) == 8


def test_a_check_in_a_run_that_is_not_over_is_reported_when_it_is_and_cancelling_is_no_failure(story):
    run = story.instance.create_run_for_job(JOB, status=dg.DagsterRunStatus.STARTED)
    failed = AssetCheckEvaluation(dg.AssetKey("events"), "fare", passed=False, metadata={})
    story.report(run, dg.DagsterEventType.ASSET_CHECK_EVALUATION, failed)
    assert story.look() == []
    story.instance.report_run_canceled(run)
    assert story.look() == ["raised check events: fare"]


def test_what_cannot_be_looked_at_is_reported_and_leaves_what_was_raised(story, monkeypatch):
    story.run("fare")
    story.look()

    def fails(*_: Any) -> None:
        raise RuntimeError("postgresql://u:SECRET@host")

    monkeypatch.setattr("keyfold.dagster.alerts.watch.read_ends", fails)
    assert story.look() == ["raised alerts on runs"]
    assert story.look() == []
    monkeypatch.undo()
    assert story.look() == ["cleared alerts on runs"]
    assert set(story.watch.state.raised["runs"]) == {"check events: fare"}


def test_an_alert_goes_out_while_dagster_s_database_keeps_nothing_and_is_kept_once_it_does(story, webhook, monkeypatch):
    def full(*_: Any) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(State, "save", full)
    story.run("fare")
    assert story.look() == ["raised check events: fare"]
    assert len(webhook.got) == 1
    assert "the state of alerts cannot be saved in Dagster's database: OSError" in story.logged
    monkeypatch.undo()
    assert story.look() == []
    assert set(State.load(story.instance).raised["runs"]) == {"check events: fare"}
