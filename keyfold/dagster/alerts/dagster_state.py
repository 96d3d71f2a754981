"""Find faults of Dagster's instance: a dead daemon, failing ticks, stale assets."""

from collections.abc import Collection, Iterator
from datetime import timedelta
from typing import Literal

import dagster as dg
from dagster._core.definitions.freshness import FreshnessState
from dagster._core.scheduler.instigation import InstigatorType, SensorInstigatorData, TickStatus

from keyfold.dagster.alerts.condition import Condition

SILENCE = timedelta(minutes=2)
"""No heartbeat for this long means that the daemon is dead; its parts write one every half minute."""

HANGS = timedelta(minutes=30)
"""No heartbeat of one part for this long means that it hangs, as in Dagster's own pages; a part may be busy for long."""

_FINISHED = (TickStatus.SUCCESS, TickStatus.FAILURE, TickStatus.SKIPPED)
_NO_TICK = timedelta(minutes=15)
_REMEDY_OF_DAEMON = "start the daemon again (make ui, or its service); it starts the runs that are due since then"


def daemon(
    instance: dg.DagsterInstance, now: float, since: float, raised: Collection[str] = (), silence: timedelta = SILENCE
) -> Iterator[Condition]:
    """Check by its heartbeats whether the daemon is alive.

    Args:
        now: the clock, in seconds since 1970.
        since: when this process started; a daemon that starts at the same time gets time to write its first heartbeat.
        raised: conditions raised before; a daemon that was reported dead gets no such time.
        silence: time without a heartbeat after which the daemon counts as dead.
    """
    beats = instance.get_daemon_heartbeats()
    newest = max((beat.timestamp for beat in beats.values()), default=None)
    if now - max(newest or 0.0, 0.0 if "daemon" in raised else since) > silence.total_seconds():
        reason = f"no heartbeat for {_plain(now - newest)}" if newest else "it has never run"
        yield Condition(
            "daemon",
            "error",
            f"Dagster's daemon is dead: {reason}; no sensor, schedule or queued run starts",
            _REMEDY_OF_DAEMON,
        )
        return
    for kind in instance.get_required_daemon_types():
        beat = beats.get(kind)
        name = f"daemon {kind}"
        behind = now - max(beat.timestamp if beat else 0.0, 0.0 if name in raised else since)
        if behind > HANGS.total_seconds():
            what = f"{kind} of Dagster's daemon hangs: no heartbeat for {_plain(behind)}, while others have one"
            yield Condition(name, "error", what, _REMEDY_OF_DAEMON)


def ticks(instance: dg.DagsterInstance, now: float, since: float, raised: Collection[str] = ()) -> Iterator[Condition]:
    """Find running sensors and schedules whose newest tick failed, and sensors that have not ticked for long.

    A tick whose run has failed is not among them: the run has its own condition.
    """
    beats = instance.get_daemon_heartbeats().values()
    # A dead daemon is one condition of its own; otherwise every sensor would be reported as late.
    is_alive = any(now - beat.timestamp < SILENCE.total_seconds() for beat in beats)
    for state in instance.all_instigator_state():
        if not state.is_running:
            continue
        kind = "sensor" if state.instigator_type is InstigatorType.SENSOR else "schedule"
        name = f"{kind} {state.instigator_name}"
        newest = instance.get_ticks(state.instigator_origin_id, state.selector_id, limit=1, statuses=[*_FINISHED])
        if newest and newest[0].status is TickStatus.FAILURE:
            error = newest[0].error
            reason = (error.cls_name or "an error").rpartition(".")[2] if error else "an error"
            yield Condition(
                name,
                "error",
                f"its newest tick failed with {reason}: it starts no runs until a tick succeeds",
                f"see the tick's error in Dagster, Automation, {state.instigator_name}, and fix it",
            )
            continue
        data = state.instigator_data
        if is_alive and isinstance(data, SensorInstigatorData):
            seen = max(data.last_tick_timestamp or 0.0, data.last_sensor_start_timestamp or 0.0)
            seen = max(seen, 0.0 if name in raised else since)
            # A sensor may have a long interval of its own.
            late = max(_NO_TICK.total_seconds(), 5 * (data.min_interval or 30))
            if now - seen > late:
                yield Condition(
                    name,
                    "error",
                    f"it is on and has not ticked for {_plain(now - seen)}, although the daemon is alive",
                    "see in Dagster, Deployment, whether the code location loads; turn a deleted sensor off there",
                )


def stale_assets(instance: dg.DagsterInstance) -> Iterator[Condition]:
    """Find assets whose freshness policy fails or warns, as evaluated by the daemon."""
    states = instance.get_freshness_state_records(instance.all_asset_keys())
    for key, record in sorted(states.items(), key=lambda pair: pair[0].to_user_string()):
        severity = _STALE.get(record.freshness_state)
        if severity is not None:
            yield Condition(
                f"freshness of {key.to_user_string()}",
                severity,
                f"its freshness policy {'fails' if severity == 'error' else 'warns'}: it was last written too long ago",
                "check that its sensor or schedule is on and that data arrives, and see the log of its last run",
            )


_STALE: dict[FreshnessState, Literal["warning", "error"]] = {
    FreshnessState.FAIL: "error",
    FreshnessState.WARN: "warning",
}


def _plain(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
