"""`python -m keyfold.dagster.alerts`: send alerts to KEYFOLD_ALERTS and KEYFOLD_ALERT_WEBHOOK.

Runs beside Dagster's daemon, one process per DAGSTER_HOME. A second process waits until the first has ended.
"""

import os
import sys
import threading
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import dagster as dg
from sqlalchemy.exc import SQLAlchemyError

from keyfold.cli.terminal import stop_on_signal
from keyfold.dagster.alerts.dagster_state import SILENCE
from keyfold.dagster.alerts.senders import check_addresses
from keyfold.dagster.alerts.settings import AlertSettings
from keyfold.dagster.alerts.watch import Watch
from keyfold.dagster.serving.home import unusable
from keyfold.dagster.serving.only_one import become_the_only_one
from keyfold.errors import KeyfoldError
from keyfold.lakehouse import Lakehouse
from keyfold.machine.private_files import keep_files_private
from keyfold.project import project_streams

LOOK_SECONDS = 30.0
LAST_SECONDS = 5.0
"""Time for the last message when this process is stopped; less than its supervisor waits."""


def main() -> int:
    keep_files_private()
    try:
        settings = AlertSettings.from_environment()
        check_addresses(settings.destinations)
        home = become_the_only_one("alerts")
        watch(Lakehouse(os.environ.get("KEYFOLD_HOME") or ".keyfold"), home, settings, stop_on_signal())
    except KeyfoldError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def watch(
    lakehouse: Lakehouse,
    home: Path,
    settings: AlertSettings,
    stop: threading.Event,
    every: float = LOOK_SECONDS,
    silence: timedelta = SILENCE,
) -> None:
    """Look for faults every `every` seconds, until `stop` is set.

    Raises:
        KeyfoldError: DAGSTER_HOME cannot be used.
    """
    with ExitStack() as stack:
        try:
            instance = stack.enter_context(dg.DagsterInstance.from_config(str(home)))
            watching = Watch(instance, lakehouse, tuple(project_streams()), settings, _log, silence=silence)
        except (OSError, SQLAlchemyError) as error:
            raise unusable(home, error) from error
        names = ", ".join(to.name for to in settings.destinations) or "this log only"
        _log(f"alerts go to {names}")
        while True:
            watching.look()
            if stop.wait(every):
                break
        watching.last_look(LAST_SECONDS)


def _log(text: str) -> None:
    print(f"alerts: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)
