"""Planted values are looked for in all that is written, sent or shown outside of the tables."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.private_values.story import NAMES, OPEN, PRIVATE, SUITE, sums_of

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
TABLES = ("landing", "events", "quarantine", "ingest", "jobs", "tables")
"""Folders of the home that hold rows on purpose, each with its journal and its state."""

WEBHOOK_SECRET, TOKEN, KEY_OF_SPARK = "hook-4f1c77", "token-90aa12", "key-73c2be"


@dataclass
class Story:
    """What came of a story, and each text that it left somewhere, by where.

    Attributes:
        texts: by kind of place: output, processes, alerts, and the folders `dagster`, `data_docs` and whatever else.
        told: by the story itself.
    """

    texts: dict[str, list[bytes]] = field(default_factory=dict)
    told: dict[str, object] = field(default_factory=dict)

    def places_of(self, word: str) -> set[str]:
        return {place for place, texts in self.texts.items() if any(word.encode() in text for text in texts)}


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    folder = tmp_path_factory.mktemp("story")
    bodies: list[bytes] = []

    class Webhook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Webhook) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield _told(folder, server.server_port, bodies)
        server.shutdown()


def _told(folder: Path, port: int, bodies: list[bytes]) -> Story:
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("KEYFOLD_", "DAGSTER_"))},
        "KEYFOLD_ALERTS": f"json://127.0.0.1:{port}/{WEBHOOK_SECRET}",
        "KEYFOLD_ENRICHMENT_TOKEN": TOKEN,
        "KEYFOLD_SPARK_MASTER": "local[2]",
        "KEYFOLD_SPARK_CONF": f"spark.sql.shuffle.partitions=2 spark.hadoop.fs.s3a.secret.key={KEY_OF_SPARK}",
        "DAGSTER_DISABLE_TELEMETRY": "yes",
    }
    command = [sys.executable, "-m", "tests.private_values.story", str(folder)]
    output, commands = folder / "output.txt", set[bytes]()
    with output.open("wb") as written:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=written, stderr=subprocess.STDOUT)
        try:
            while process.poll() is None:
                commands |= _commands()
                threading.Event().wait(0.5)
        finally:
            process.kill()
            process.wait()
    assert process.returncode == 0, output.read_text(encoding="utf-8", errors="replace")[-4_000:]
    told = json.loads((folder / "told.json").read_text(encoding="utf-8"))
    story = Story({"output": [output.read_bytes()], "processes": list(commands), "alerts": bodies}, told)
    for file in folder.rglob("*"):
        parts = file.relative_to(folder).parts
        if file.is_file() and file != output and not (parts[0] == "home" and parts[1] in TABLES):
            place = parts[1] if parts[0] == "home" else parts[0]
            if "compute_logs" in parts:
                # What a run prints: Dagster copies it to the console by `tail`, which it ends before the last lines came.
                place = "output"
            # With its name: that is seen too.
            story.texts.setdefault(place, []).append(os.fsencode(str(file)) + file.read_bytes())
    return story


def _commands() -> set[bytes]:
    """The command lines of all processes but this one's, whose tests name what they look for."""
    lines = set[bytes]()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            lines.add((folder / "cmdline").read_bytes())
        except OSError:
            continue
    return {line for line in lines if b"java" in line or b"tests.private_values.story" in line}


@pytest.mark.parametrize("stream", NAMES)
def test_the_story_took_place(story: Story, stream: str):
    checks, failed = story.told["checks"], story.told["failed_steps"]
    assert isinstance(checks, dict)
    assert isinstance(failed, list)
    of_table = {name.rpartition(": ")[2] for name in checks if name.startswith(f"{sums_of(stream)}: ")}
    assert of_table >= {*SUITE, "no_event_is_lost"}
    assert not any(checks[f"{sums_of(stream)}: {name}"] for name in SUITE)
    assert checks[f"{sums_of(stream)}: no_event_is_lost"]
    assert checks[f"{stream}_events: every_row_is_accounted_for"]
    assert not checks[f"{stream}_events: landing_files_have_the_stream_s_columns"]
    assert sums_of(stream) in failed
    # Of failed checks and of failed runs.
    assert len(story.texts["alerts"]) == 2
    assert len(story.texts["data_docs"]) >= 1
    assert any(b"java" in line for line in story.texts["processes"])
    # What is looked for would be seen: the names of checks are where values would be.
    assert story.places_of("persons_are_known") >= {"output", "dagster", "alerts"}
    assert story.places_of(f"step failed: job {sums_of(stream)}") >= {"output", "dagster"}


def test_private_values_are_found_nowhere_and_open_ones_wherever_rows_are_shown(story: Story):
    assert story.places_of(NAMES[PRIVATE]) == set()
    assert story.places_of(NAMES[OPEN]) == {"output", "dagster", "data_docs", "alerts"}


def test_secrets_are_found_nowhere(story: Story):
    assert story.places_of(WEBHOOK_SECRET) == set()
    assert story.places_of(TOKEN) == set()
    assert story.places_of(KEY_OF_SPARK) == set()


def test_what_is_not_private_is_shown_of_a_private_row_too(story: Story):
    assert story.places_of(f"amount of {PRIVATE} is negative") >= {"dagster"}
    assert story.places_of(f"{PRIVATE}_headless.csv") >= {"dagster"}
