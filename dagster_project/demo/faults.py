"""`python -m dagster_project.demo.faults`: plant faults, and see checks turn red, assets held back, and alerts go out.

In a lakehouse and on an instance of its own, thrown away at the end, with a webhook of its own on loopback:

1. All is well.
2. Somebody writes impossible durations into the summaries: an expectation fails.
3. The summaries are restored: it passes again.
4. Somebody deletes accepted events: `every_row_is_accounted_for` fails, and no job runs on what is left.
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
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import dagster as dg
from deltalake import DeltaTable
from rich.console import Console
from rich.text import Text

from keyfold import Lakehouse
from keyfold.cli.plain_text import message
from keyfold.dagster.alerts.settings import AlertSettings
from keyfold.dagster.alerts.watch import Watch
from keyfold.dagster.quality.checks import SCOPE_TAG, Scope
from keyfold.storage.place import Place
from spark_jobs.simulation import simulate

RIDES = 40


@dataclass(frozen=True)
class Scene:
    """What was done, and what must be seen.

    Attributes:
        title: what was done.
        act: does it.
        failed: the checks that must fail with ERROR.
        held_back: assets that must not be written.
        alert: a word that the alert must have, None where there must be none.
        tags: of the run.
    """

    title: str
    act: Callable[[Lakehouse], object]
    failed: frozenset[str] = frozenset()
    held_back: frozenset[str] = frozenset()
    alert: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)


# What nobody but a job may write, checks of what jobs wrote do not look at: those of the night do.
_OVER_ALL_ROWS = {SCOPE_TAG: Scope.FULL.value}

SCENES = (
    Scene("all is well", lambda _: None),
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
    """Play the scenes; 0 when all was seen that must be, else 1."""
    logging.disable(logging.CRITICAL)  # what the alerts log is shown below, as it was posted
    with (
        tempfile.TemporaryDirectory(prefix="keyfold-faults-", ignore_cleanup_errors=True) as folder,
        _webhook() as heard,
    ):
        os.environ["KEYFOLD_HOME"] = f"{folder}/home"
        lakehouse = Lakehouse(Path(folder) / "home")
        simulate("ride_points", Path(folder) / "home" / "landing" / "ride_points", size=RIDES, files=4)
        with dg.DagsterInstance.local_temp(folder) as instance:
            stage = _Stage(lakehouse, instance, heard)
            seen = [stage.play(scene) for scene in SCENES]
    return 0 if all(seen) else 1


class _Stage:
    """A lakehouse, an instance, and the alerts that look at them."""

    def __init__(self, lakehouse: Lakehouse, instance: dg.DagsterInstance, heard: list[str]) -> None:
        # After the home is set: the resources read it when they are loaded.
        from dagster_project.definitions import defs  # noqa: PLC0415

        self._lakehouse, self._instance, self._heard = lakehouse, instance, heard
        self._job = defs.resolve_job_def("rides")
        # No daemon runs here, and none is missed.
        self._watch = Watch(
            instance, lakehouse, (), AlertSettings.from_environment(), lambda _: None, silence=timedelta(days=1)
        )
        self._alert()

    def play(self, scene: Scene) -> bool:
        """Do what the scene says, run the rides, tell what was seen; whether it was what must be."""
        scene.act(self._lakehouse)
        quiet = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
        result = self._job.execute_in_process(
            instance=self._instance, run_config=quiet, raise_on_error=False, tags=dict(scene.tags)
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
        console.print(f"\n[bold]{scene.title}[/]  {'as it must be' if good else '[red]not as it must be[/]'}")
        console.print(f"  checks     {sum(one.passed for one in evaluations)} passed")
        for name, text in failed.items():
            console.print(Text.assemble("             ", (name, "red"), ": ", message(text)))
        console.print(f"  held back  {', '.join(sorted(held_back)) or 'nothing'}")
        console.print(message(f"  alert      {alert or 'none'}"))
        return good

    def _alert(self) -> str | None:
        """Let the alerts look once; what they posted."""
        self._heard.clear()
        self._watch.look()
        return self._heard[0] if self._heard else None


def _undo(table: Place) -> None:
    """Bring a table back to the version before its last."""
    delta = DeltaTable(str(table))
    delta.restore(delta.version() - 1)


@contextmanager
def _webhook() -> Iterator[list[str]]:
    """A webhook on loopback; gives the texts that were posted to it."""
    heard: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["text"])
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    os.environ["KEYFOLD_ALERT_WEBHOOK"] = f"http://127.0.0.1:{server.server_address[1]}/"
    try:
        yield heard
    finally:
        server.shutdown()
        server.server_close()


if __name__ == "__main__":
    sys.exit(main())
