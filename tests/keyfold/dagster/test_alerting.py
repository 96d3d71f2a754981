"""Alerts: what is sent, once, with its remedy, by Apprise to services that are not always there."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.freshness import FreshnessState, FreshnessStateChange
from pydantic import Field

from keyfold.dagster import alerting
from keyfold.dagster.alerting import alert_sensors
from keyfold.errors import KeyfoldError
from tests.hostile_server import HostileServer

ROOT = Path(__file__).parents[3]

SEVERITY = {"adds_up": dg.AssetCheckSeverity.ERROR, "fare": dg.AssetCheckSeverity.WARN}
RUNS, CHECKS = "alert_on_failed_runs", "alert_on_failed_checks_and_stale_assets"


class Fault(dg.Config):
    error: str = ""
    failed: list[str] = Field(default_factory=list)


@dg.asset(check_specs=[dg.AssetCheckSpec(name, asset="totals") for name in SEVERITY])
def totals(config: Fault) -> Iterator[Any]:
    if config.error == "own":
        raise KeyfoldError("sales is already running: wait, or see http://host/?token=SECRET <!all> [x](y)")
    if config.error:
        raise ValueError("SECRET of a row")
    yield dg.MaterializeResult()
    for name, severity in SEVERITY.items():
        found = name not in config.failed
        yield dg.AssetCheckResult(check_name=name, passed=found, severity=severity, description="3 rows lack")


@dg.asset
def written() -> None: ...


@dg.asset_check(asset=written, blocking=True)
def is_whole() -> dg.AssetCheckResult:
    return dg.AssetCheckResult(passed=False)


DEFINITIONS = dg.Definitions(
    assets=[totals, written],
    asset_checks=[is_whole],
    jobs=[dg.define_asset_job("rides", selection="totals"), dg.define_asset_job("checked", selection="written")],
)


def address(webhook: HostileServer) -> str:
    return f"{webhook.url}services/SECRET".replace("http://", "json://")


@dataclass
class Story:
    """An instance, and the two sensors with their cursors."""

    instance: dg.DagsterInstance
    addresses: str
    cursors: dict[str, str | None] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)

    def run(self, error: str = "", failed: tuple[str, ...] = (), **tags: str) -> str:
        config = {"ops": {"totals": {"config": {"error": error, "failed": list(failed)}}}}
        return self.execute("rides", run_config=config, tags=tags)

    def execute(self, job: str, **more: Any) -> str:
        definition = DEFINITIONS.resolve_job_def(job)
        return definition.execute_in_process(instance=self.instance, raise_on_error=False, **more).run_id

    def tick(self, *names: str) -> str:
        """Let sensors tick as the daemon does, which keeps their cursors; return what they say."""
        environment = {"KEYFOLD_ALERTS": self.addresses, "KEYFOLD_UI_URL": "https://pages.example"}
        sensors: dict[str, Any] = {one.name: one for one in alert_sensors(environment)}
        for name in names or sensors:
            context = dg.build_sensor_context(
                self.instance, cursor=self.cursors.get(name), repository_def=DEFINITIONS.get_repository_def()
            )
            reason = sensors[name](context)
            assert isinstance(reason, dg.SkipReason)
            self.said.append(reason.skip_message or "")
            self.cursors[name] = context.cursor
        return self.said[-1]


@pytest.fixture
def webhook() -> Iterator[HostileServer]:
    with HostileServer(lambda _: {}) as webhook:
        yield webhook


@pytest.fixture
def story(tmp_path, webhook) -> Iterator[Story]:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        story = Story(instance, address(webhook))
        story.run("own")
        story.tick()
        assert not webhook.tried, "the first tick only takes its place"
        yield story
    assert "SECRET" not in json.dumps(webhook.taken) + str(story.said) + str(story.cursors)


def lines(webhook: HostileServer) -> list[str]:
    return [line for got in webhook.taken for line in got["message"].splitlines()]


def test_a_failed_run_is_told_once_with_where_and_why_the_remedy_and_the_link(story, webhook):
    own, other = story.run("own"), story.run("other")
    story.tick()
    story.tick()
    (got,) = webhook.taken
    assert (got["title"], got["type"]) == ("Keyfold: 2 raised", "failure")
    remedy = "Remedy: see its log, fix the last error, start it again: https://pages.example/runs"
    assert got["message"].splitlines() == [
        f"error: run {own[:8]} of rides failed at totals: sales is already running: wait, or see http://… ‹!all› [x] (y). "
        f"{remedy}/{own}",
        f"error: run {other[:8]} of rides failed at totals: ValueError. {remedy}/{other}",
    ]


def test_a_run_that_dagster_retries_and_one_that_checks_alone_failed_are_not_told_as_runs(story, webhook):
    story.run("own", **{"dagster/will_retry": "true"})
    story.execute("checked")
    story.tick()
    (line,) = lines(webhook)
    assert line.startswith("error: check written: is_whole: it failed. Remedy: fix the data or the job")


def test_a_check_is_told_when_it_begins_to_fail_and_when_it_passes_again(story, webhook):
    first = story.run(failed=("adds_up", "fare"))
    story.tick()
    story.run(failed=("adds_up", "fare"))
    story.tick()
    remedy = (
        f"3 rows lack. Remedy: fix the data or the job, then run the check again: https://pages.example/runs/{first}"
    )
    assert sorted(lines(webhook)) == [
        f"error: check totals: adds_up: {remedy}",
        f"warning: check totals: fare: {remedy}",
    ]
    story.run(failed=("fare",))
    story.tick()
    assert [(got["title"], got["type"]) for got in webhook.taken] == [
        ("Keyfold: 2 raised", "failure"),
        ("Keyfold: 1 over", "success"),
    ]
    assert lines(webhook)[-1] == "over: check totals: adds_up"


def test_a_check_that_is_running_is_as_it_was(story, webhook):
    story.run(failed=("adds_up",))
    story.tick()
    # Its checks are planned, and not evaluated yet.
    story.instance.create_run_for_job(DEFINITIONS.resolve_job_def("rides"), status=dg.DagsterRunStatus.STARTED)
    story.tick()
    assert len(webhook.taken) == 1


def test_a_stale_asset_is_told_as_it_grows_worse_and_when_it_is_fresh(story, webhook):
    def is_now(state: FreshnessState) -> None:
        story.instance._report_runless_asset_event(
            FreshnessStateChange(
                key=dg.AssetKey("totals"),
                new_state=state,
                previous_state=FreshnessState.UNKNOWN,
                state_change_timestamp=time.time(),
            )
        )
        story.tick(CHECKS)

    is_now(FreshnessState.WARN)
    is_now(FreshnessState.FAIL)
    is_now(FreshnessState.FAIL)
    is_now(FreshnessState.PASS)
    text = "it was last written too long ago. Remedy: see that its sensor or schedule is on and data arrives"
    assert lines(webhook) == [
        f"warning: stale asset totals (warning): {text}: https://pages.example/assets/totals",
        "over: stale asset totals (warning)",
        f"error: stale asset totals (error): {text}: https://pages.example/assets/totals",
        "over: stale asset totals (error)",
    ]


def test_a_message_that_is_not_taken_is_sent_again_with_what_came_since_and_once(story, webhook):
    webhook.script = ["answers 503 and asks for a year's patience", "redirects to another host"]
    first = story.run("own")
    assert story.tick(RUNS) == "json 1: it answered 503; its alerts wait for the next tick"
    assert story.tick(RUNS) == "json 1: it answered 307; its alerts wait for the next tick"
    second = story.run("own")
    assert story.tick(RUNS) == "2 alerts were sent"
    assert story.tick(RUNS) == "0 alerts were sent"
    assert [line.rpartition("/")[2] for line in lines(webhook)] == [first, second]
    assert (webhook.tried, webhook.trapped) == (3, 0)


def test_a_service_that_drips_its_answer_is_left_in_time_and_delays_and_repeats_nothing_elsewhere(
    story, webhook, monkeypatch
):
    # Long enough that a busy machine sends the other message and sees Apprise end, too.
    monkeypatch.setattr(alerting, "SECONDS", 5.0)
    with HostileServer(lambda _: {}) as other:
        story.addresses = f"{address(webhook)} {address(other)}"
        story.tick()  # the second destination takes its place
        webhook.script = ["drips its answer"]
        story.run("own")
        began = time.monotonic()
        said = story.tick(RUNS)
        assert time.monotonic() - began < 15
        # On a busy machine Apprise may not be loaded in time for the other one either, which is then told in the next tick.
        assert said.startswith(
            ("json 1: no answer within 5 s; its", "json 1: it cannot be reached, or refuses the login; its")
        )
        story.tick(RUNS)
        assert (len(lines(webhook)), len(lines(other))) == (1, 1)


def test_after_a_long_outage_one_message_lists_twenty_and_counts_the_others(story, webhook, monkeypatch):
    monkeypatch.setattr(alerting, "_failure", lambda _, run: f"run {run.run_id} failed")
    job = DEFINITIONS.resolve_job_def("rides")
    runs = [story.instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED) for _ in range(25)]
    for run in runs:
        story.instance.report_run_failed(run)
    story.tick(RUNS)
    (got,) = webhook.taken
    assert got["title"] == "Keyfold: 25 raised"
    assert [line.rpartition("/")[2] for line in lines(webhook)] == [*(run.run_id for run in runs[-20:]), "and 5 more"]


@pytest.mark.parametrize("addresses", ["json://host SECRET", "json://host //SECRET", "json://host s-e://SECRET"])
def test_a_wrong_address_is_refused_when_definitions_load_without_being_quoted(addresses):
    with pytest.raises(KeyfoldError, match="KEYFOLD_ALERTS: address 2 does not have the form") as refused:
        alert_sensors({"KEYFOLD_ALERTS": addresses})
    assert "SECRET" not in str(refused.value)


def test_a_service_that_apprise_does_not_know_is_named_by_its_number(story):
    story.addresses = "nothing://SECRET"
    story.tick(RUNS)
    story.run("own")
    assert story.tick(RUNS).startswith("nothing 1: Apprise does not support this address")


def test_without_addresses_there_are_no_sensors_and_with_them_they_are_on():
    assert alert_sensors({}) == []
    found = alert_sensors({"KEYFOLD_ALERTS": "slack://SECRET"})
    assert {one.name: one.default_status for one in found} == dict.fromkeys(
        (RUNS, CHECKS), dg.DefaultSensorStatus.RUNNING
    )
    assert all("To: slack 1." in (one.description or "") for one in found)
