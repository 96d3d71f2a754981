"""`python -m dagster_project.demo.faults`: plant faults, and show failing checks, blocked assets and alerts.

It uses a temporary lakehouse, a temporary Dagster instance and a webhook on loopback:

1. A file that cannot be read: a check warns, and nothing is held back.
2. Somebody writes impossible durations into the summaries: an expectation fails.
3. The summaries are restored: it passes again.
4. Somebody deletes accepted events: `every_row_is_accounted_for` fails, and no job runs on the remaining events.
"""

import json
import logging
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import dagster as dg
from deltalake import DeltaTable
from rich.console import Console
from rich.text import Text

from dagster_project.demo.report import assets_of
from keyfold import Lakehouse
from keyfold.cli.terminal import message
from keyfold.dagster.alerts import alert_sensors
from keyfold.dagster.quality.checks import SCOPE_TAG, Scope
from keyfold.storage.place import Place
from spark_jobs.simulation import simulate

RIDES = 40


@dataclass(frozen=True)
class Scene:
    """A fault, and its expected effects.

    Attributes:
        title: the fault, for people.
        act: plants the fault.
        failed: the checks that must fail with ERROR.
        held_back: assets that must not be written.
        alert: a word that the alert must contain; None if no alert is expected.
        tags: tags of the run.
    """

    title: str
    act: Callable[[Lakehouse], object]
    failed: frozenset[str] = frozenset()
    held_back: frozenset[str] = frozenset()
    alert: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)


# The checks of a run see only the rows that its jobs wrote; a change by hand is found by checks over all rows.
_OVER_ALL_ROWS = {SCOPE_TAG: Scope.FULL.value}

SCENES = (
    # One of the simulated archives is cut short.
    Scene("all is well, but for a file that cannot be read", lambda _: None, alert="unreadable"),
    Scene(
        "somebody writes impossible durations into the summaries",
        lambda lakehouse: DeltaTable(str(lakehouse.table("ride_summaries"))).update(
            {"ride_duration_in_secs": "-1.0"}, predicate="fare > 8"
        ),
        failed=frozenset({"duration_is_not_negative"}),
        alert="error",
        tags=_OVER_ALL_ROWS,
    ),
    Scene(
        "the summaries are restored",
        lambda lakehouse: _undo(lakehouse.table("ride_summaries")),
        alert="over",
        tags=_OVER_ALL_ROWS,
    ),
    Scene(
        "somebody deletes accepted events",
        lambda lakehouse: DeltaTable(str(lakehouse.events("ride_points"))).delete("point_idx = 3"),
        failed=frozenset({"every_row_is_accounted_for"}),
        held_back=frozenset({"ride_summaries", "event_index"}),
        alert="error",
    ),
)


def main() -> int:
    """Run all scenes; return 0 if all had the expected effects, else 1."""
    logging.disable(logging.CRITICAL)  # alerts are shown below, as they were posted
    with (
        tempfile.TemporaryDirectory(prefix="keyfold-faults-", ignore_cleanup_errors=True) as folder,
        _webhook() as posted,
    ):
        os.environ["KEYFOLD_HOME"] = f"{folder}/home"
        lakehouse = Lakehouse(Path(folder) / "home")
        simulate("ride_points", Path(folder) / "home" / "landing" / "ride_points", size=RIDES, files=4)
        with dg.DagsterInstance.local_temp(folder) as instance:
            stage = _Stage(lakehouse, instance, posted)
            seen = [stage.play(scene) for scene in SCENES]
    return 0 if all(seen) else 1


class _Stage:
    """A lakehouse, a Dagster instance, and the sensors that send alerts."""

    def __init__(self, lakehouse: Lakehouse, instance: dg.DagsterInstance, posted: list[str]) -> None:
        # Imported late: the resources read KEYFOLD_HOME when they are loaded.
        from dagster_project.definitions import defs  # noqa: PLC0415

        self._lakehouse, self._instance, self._posted = lakehouse, instance, posted
        self._job, self._repository = defs.resolve_implicit_global_asset_job_def(), defs.get_repository_def()
        self._rides = assets_of(defs, "rides")
        self._sensors, self._cursors = alert_sensors(), dict[str, str | None]()
        self._alert()

    def play(self, scene: Scene) -> bool:
        """Plant the scene's fault, run the rides, and print the effects; return whether they are as expected."""
        scene.act(self._lakehouse)
        quiet = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
        result = self._job.execute_in_process(
            instance=self._instance,
            run_config=quiet,
            raise_on_error=False,
            tags=dict(scene.tags),
            asset_selection=self._rides,
        )
        alert = self._alert()
        evaluations = result.get_asset_check_evaluations()
        failed = {
            one.check_name: one.description or ""
            for one in evaluations
            if not one.passed and one.severity is dg.AssetCheckSeverity.ERROR
        }
        made = result.get_asset_materialization_events()
        held_back = {"ride_summaries", "event_index"} - {
            event.asset_key.to_user_string() for event in made if event.asset_key
        }
        good = (
            set(failed) == scene.failed
            and held_back == scene.held_back
            and (result.success or bool(scene.failed))
            and (alert is None if scene.alert is None else alert is not None and scene.alert in alert)
        )
        console = Console(highlight=False, soft_wrap=True)
        console.print(f"\n[bold]{scene.title}[/]  {'as expected' if good else '[red]not as expected[/]'}")
        console.print(f"  checks     {sum(one.passed for one in evaluations)} passed")
        for name, text in failed.items():
            console.print(Text.assemble("             ", (name, "red"), ": ", message(text)))
        console.print(f"  held back  {', '.join(sorted(held_back)) or 'nothing'}")
        console.print(message(f"  alert      {alert or 'none'}"))
        return good

    def _alert(self) -> str | None:
        """Let the sensors tick, as Dagster's daemon does; return the text that was posted, if any."""
        self._posted.clear()
        for sensor in self._sensors:
            cursor = self._cursors.get(sensor.name)
            context = dg.build_sensor_context(self._instance, cursor=cursor, repository_def=self._repository)
            sensor(context)
            self._cursors[sensor.name] = context.cursor
        return "\n".join(self._posted) or None


def _undo(table: Place) -> None:
    """Restore a table to its previous version."""
    delta = DeltaTable(str(table))
    delta.restore(delta.version() - 1)


@contextmanager
def _webhook() -> Iterator[list[str]]:
    """Serve a webhook on loopback; yield the list of texts posted to it."""
    posted: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            posted.append(f"{sent['title']}\n{sent['message']}")
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    os.environ["KEYFOLD_ALERTS"] = f"json://127.0.0.1:{server.server_address[1]}/"
    try:
        yield posted
    finally:
        server.shutdown()
        server.server_close()


if __name__ == "__main__":
    sys.exit(main())
