"""Definitions whose faults come and go with a file, and the processes of the test with the real daemon.

`daemon`: Dagster's own, with a heartbeat a second. `alerts`: the alerts' process, which looks every half second.
"""

import os
import sys
from datetime import timedelta
from pathlib import Path

import dagster as dg

FAULTY = Path(os.environ.get("DAGSTER_HOME", "/")) / "faulty"


@dg.asset(freshness_policy=dg.FreshnessPolicy.time_window(fail_window=timedelta(hours=1)))
def totals() -> None: ...


@dg.op
def step() -> None:
    if FAULTY.exists():
        raise RuntimeError("SECRET")


@dg.job(executor_def=dg.in_process_executor)
def rides() -> None:
    step()


@dg.sensor(job=rides, minimum_interval_seconds=1, default_status=dg.DefaultSensorStatus.RUNNING)
def starts(context: dg.SensorEvaluationContext) -> dg.RunRequest | dg.SkipReason:
    now = "faulty" if FAULTY.exists() else "well"
    return dg.SkipReason("started already") if context.cursor == now else _once(context, now)


def _once(context: dg.SensorEvaluationContext, now: str) -> dg.RunRequest:
    context.update_cursor(now)
    return dg.RunRequest(run_key=now)


@dg.sensor(job=rides, minimum_interval_seconds=1, default_status=dg.DefaultSensorStatus.RUNNING)
def ticks() -> dg.SkipReason:
    if FAULTY.exists():
        raise RuntimeError("SECRET")
    return dg.SkipReason("all is well")


defs = dg.Definitions(assets=[totals], jobs=[rides], sensors=[starts, ticks])


def daemon() -> None:
    from dagster._core.workspace.load_target import ModuleTarget  # noqa: PLC0415
    from dagster._daemon.controller import daemon_controller_from_instance  # noqa: PLC0415

    target = ModuleTarget(__name__ if __name__ != "__main__" else sys.argv[2], None, str(Path.cwd()), None)
    with (
        dg.DagsterInstance.get() as instance,
        daemon_controller_from_instance(instance, target, heartbeat_interval_seconds=1) as controller,
    ):
        controller.check_daemon_loop()


def alerts() -> None:
    from keyfold.cli.terminal import stop_on_signal  # noqa: PLC0415
    from keyfold.dagster.alerts.__main__ import watch  # noqa: PLC0415
    from keyfold.dagster.alerts.settings import AlertSettings  # noqa: PLC0415
    from keyfold.lakehouse import Lakehouse  # noqa: PLC0415

    home = Path(os.environ["DAGSTER_HOME"])
    settings = AlertSettings.from_environment()
    silence = timedelta(seconds=float(sys.argv[3]))
    watch(Lakehouse(home / "lakehouse"), home, settings, stop_on_signal(), every=0.5, silence=silence)


if __name__ == "__main__":
    {"daemon": daemon, "alerts": alerts}[sys.argv[1]]()
