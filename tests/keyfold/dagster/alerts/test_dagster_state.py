"""The daemon, ticks and freshness, as Dagster's instance has them."""

from collections.abc import Iterator
from datetime import timedelta

import dagster as dg
import pytest
from dagster._core.definitions.freshness import FreshnessState, FreshnessStateChange
from dagster._core.remote_origin import (
    InProcessCodeLocationOrigin,
    RemoteInstigatorOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.scheduler.instigation import (
    InstigatorState,
    InstigatorStatus,
    InstigatorType,
    SensorInstigatorData,
    TickData,
    TickStatus,
)
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._daemon.types import DaemonHeartbeat
from dagster._utils.error import SerializableErrorInfo

from keyfold.dagster.alerts.dagster_state import HANGS, daemon, stale_assets, ticks

NOW = 2_000_000_000.0
ERROR = SerializableErrorInfo("postgresql://u:SECRET@host", [], "OperationalError")
SILENCE = timedelta(seconds=60)


@pytest.fixture(scope="module")
def instance(tmp_path_factory) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.local_temp(str(tmp_path_factory.mktemp("dagster"))) as instance:
        yield instance


def beats(instance: dg.DagsterInstance, at: float, only: str | None = None) -> None:
    for kind in [only] if only else instance.get_required_daemon_types():
        instance.add_daemon_heartbeat(DaemonHeartbeat(at, kind, "an id", []))


def test_a_daemon_is_dead_without_heartbeats_but_gets_the_time_to_start(instance):
    (never,) = daemon(instance, NOW, NOW - 61, (), SILENCE)
    assert (never.name, never.severity) == ("daemon", "error")
    assert "it has never run" in never.what
    assert list(daemon(instance, NOW, NOW - 59, (), SILENCE)) == []
    beats(instance, NOW - 90)
    (dead,) = daemon(instance, NOW, 0, (), SILENCE)
    assert "no heartbeat for 0:01:30" in dead.what
    assert list(daemon(instance, NOW - 31, 0, (), SILENCE)) == []
    beats(instance, NOW)
    assert list(daemon(instance, NOW, 0, (), SILENCE)) == []


def test_a_process_that_starts_beside_a_dead_daemon_does_not_take_it_for_one_that_lives(instance):
    beats(instance, NOW - 90)
    assert list(daemon(instance, NOW, NOW, (), SILENCE)) == []
    (dead,) = daemon(instance, NOW, NOW, ["daemon"], SILENCE)
    assert dead.name == "daemon"


def test_a_part_of_the_daemon_that_hangs_is_named(instance):
    beats(instance, NOW)
    beats(instance, NOW - HANGS.total_seconds() - 1, "SENSOR")
    (one,) = daemon(instance, NOW, 0, (), SILENCE)
    assert (one.name, one.severity) == ("daemon SENSOR", "error")


def test_a_sensor_is_reported_while_its_newest_tick_failed_or_when_it_does_not_tick_and_only_while_it_is_on(instance):
    beats(instance, NOW)
    location = InProcessCodeLocationOrigin(LoadableTargetOrigin(python_file="none.py"), location_name="here")
    origin = RemoteInstigatorOrigin(RemoteRepositoryOrigin(location, "repository"), "rides_landed")
    data = SensorInstigatorData(last_tick_timestamp=NOW, min_interval=5)
    state = InstigatorState(origin, InstigatorType.SENSOR, InstigatorStatus.RUNNING, data)
    instance.add_instigator_state(state)
    found = lambda now=NOW: [(one.name, one.what) for one in ticks(instance, now, 0)]  # noqa: E731

    def tick(at: float, status: TickStatus) -> None:
        error = ERROR if status is TickStatus.FAILURE else None
        instance.create_tick(
            TickData(
                state.instigator_origin_id, "rides_landed", InstigatorType.SENSOR, status, at,
                error=error, selector_id=state.selector_id,
            )
        )  # fmt: skip

    assert found() == []
    tick(NOW, TickStatus.FAILURE)
    tick(NOW + 1, TickStatus.STARTED)
    ((name, what),) = found()
    assert name == "sensor rides_landed"
    assert "newest tick failed with OperationalError" in what
    tick(NOW + 2, TickStatus.SKIPPED)
    assert found() == []
    beats(instance, NOW + 3600)
    ((name, what),) = found(NOW + 3600)
    assert (name, "has not ticked for 1:00:00" in what) == ("sensor rides_landed", True)
    tick(NOW + 3, TickStatus.FAILURE)
    instance.update_instigator_state(state.with_status(InstigatorStatus.STOPPED))
    assert found() == []


@pytest.mark.parametrize(
    ("state", "severity"),
    [(FreshnessState.FAIL, "error"), (FreshnessState.WARN, "warning"), (FreshnessState.PASS, None)],
)
def test_an_asset_is_reported_as_its_freshness_policy_was_evaluated(instance, state, severity):
    instance.report_runless_asset_event(dg.AssetMaterialization("totals"))
    instance._report_runless_asset_event(
        FreshnessStateChange(
            key=dg.AssetKey("totals"),
            previous_state=FreshnessState.UNKNOWN,
            new_state=state,
            state_change_timestamp=NOW,
        )
    )
    found = {one.name: one.severity for one in stale_assets(instance)}
    assert found == ({"freshness of totals": severity} if severity else {})
