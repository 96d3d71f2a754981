"""The commands of the pages on state do what these say, as they stand there; one Spark serves the whole story.

A block `sh` is run, in a folder of its own; a block `text` behind it is what it prints, where … stands for anything.
"""

import math
import re
import shlex
import subprocess
from contextlib import nullcontext
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from keyfold.cli.app import app
from keyfold.keyed.generation.configured import configured_job
from keyfold.keyed.generation.run_mode import Incremental
from keyfold.keyed.job.building import build_job
from keyfold.keyed.job_run import run_job
from keyfold.keyed.rows.codec import polars_schema
from keyfold.lakehouse import Lakehouse
from keyfold.state.reading.reader import jobs_with_state
from spark_jobs.jobs.registry import JOBS, SHIPPED
from spark_jobs.streams import STREAMS
from tests.keyfold.state.job_histories import EVENTS, put
from tests.lake import LOCAL

DOCS = Path(__file__).parents[2] / "docs"
STORY = DOCS / "tutorial" / "state.md"
SEEDS = DOCS / "examples" / "seeds.md"
WITH_SPARK = ("ingest", "run", "state_tools")


def blocks(page, heading):
    """The blocks `sh` and `text` of a page's section, in their order."""
    section = re.search(
        rf"^##? {re.escape(heading)}\n(.*?)(?=^## |\Z)", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    assert section, f"the page has no section {heading!r}"
    return re.findall(r"```(sh|text)\n(.*?)```", section[1], re.DOTALL)


def commands(block):
    """The commands of a block: a line each, with the lines that go on behind a backslash, or to the end of its text."""
    return re.findall(r"^\S.*<<'\w+'\n(?:.*\n)*?END\n|^\S.*\n", block.replace("\\\n", " "), re.MULTILINE)


class Terminal:
    """A shell in a folder, in which `keyfold` is this process."""

    def __init__(self, monkeypatch, folder, spark):
        for command in WITH_SPARK:
            module = import_module(f"keyfold.cli.{command}")
            monkeypatch.setattr(module, "runners_for", lambda *_: nullcontext(spark))
        monkeypatch.chdir(folder)
        monkeypatch.setenv("COLUMNS", "120")
        self._setenv = monkeypatch.setenv

    def run(self, block):
        """Run a block's commands; gives what they printed."""
        return "".join(self._run(command) for command in commands(block))

    def _run(self, command):
        if command.startswith("export "):
            self._setenv(*command.removeprefix("export ").strip().split("=", 1))
            return ""
        if not command.startswith("keyfold "):
            done = subprocess.run(["bash", "-ec", command], capture_output=True, text=True, check=True)
            return done.stdout
        result = CliRunner().invoke(app, shlex.split(command, comments=True)[1:])
        assert result.exit_code == 0, f"{command}\n{result.output}"
        return result.stdout


def follow(terminal, page, heading):
    """Run a section, and see that it prints what the page says."""
    printed = ""
    for kind, content in blocks(page, heading):
        if kind == "sh":
            printed = terminal.run(content)
        else:
            assert_printed(printed, content)


def assert_printed(printed, wanted):
    """See that the lines wanted are among those printed, in their order."""
    lines = iter(line.rstrip() for line in printed.splitlines())
    for line in wanted.splitlines():
        pattern = ".*".join(re.escape(part) for part in line.rstrip().split("…"))
        assert any(re.fullmatch(pattern, found) for found in lines), (
            f"no line {line!r} (or not in this order) in:\n{printed}"
        )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("story")


@pytest.fixture(scope="module")
def played():
    """The acts that were played so far."""
    return []


@pytest.fixture
def play(monkeypatch, folder, spark, played):
    """Play the story up to and with an act; those before it are played once."""
    monkeypatch.setenv("KEYFOLD_HOME", "story")
    terminal = Terminal(monkeypatch, folder, spark)

    def play(act):
        for one in ACTS[: ACTS.index(act) + 1]:
            if one not in played:
                played.append(one)
                follow(terminal, STORY, one)

    return play


ACTS = (
    "Act 1: look into a stuck ride",
    "Act 2: fix the job, and test the fix on history",
    "Act 3: start a rewritten job from the old one's table",
    "Act 4: erase a person",
)


def at(hour, minute=0, second=0):
    return datetime(2026, 1, 5, hour, minute, second, tzinfo=UTC)


LATER = {
    "sales": [["tea", 4, ["oolong", "black"], at(8, 30), 3.5, None, None, None]],
    "ride_points": [["ride-7", 12, 40.72, -74.0, at(8, 5), 12.5, 1.0, "dropoff", 1]],
    "weather": [["JFK", at(8), 46.0, *[None] * 6, 1016.0, *[None] * 2]],
    "telemetry": [
        ["bus-7", at(8, minute), 48.0, 11.0, speed, 61.0, *[None] * 3]
        for minute, speed in ((1, 40.0), (2, 0.0), (9, 0.0))
    ],
    "metrics": [["cpu", at(8, 5), 22.0]],
    "payments": [["9999-0000-0007", at(8, 4), "Trier", 250.0, None, "p2"]],
}
"""What comes after the seeds, in the columns of the streams."""

GOES_ON = {
    "purchase_totals": [{"item": "tea", "cumulative_quantity": 18, "models": ["black", "green", "oolong"]}],
    "model_totals": [
        {"model": "black", "quantity": 14, "purchases": 7},
        {"model": "oolong", "quantity": 4, "purchases": 1},
    ],
    "event_index": [{"ride_id": "ride-7", "event_index": 41}],
    "top_products": [
        {"rank": 1, "product": "tea", "quantity": 9, "revenue": 31.5},
        {"rank": 2, "product": "cup", "quantity": 7, "revenue": 21.0},
    ],
    "ride_summaries": [
        {
            "start_time": at(7, 20),
            "reason": "DROPOFF_SEEN",
            "n_points": 13,
            # A hundredth of a degree of latitude: a millionth of the way round the poles, 36 times over.
            "distance_in_metres": pytest.approx(4300.5 + 2 * math.pi * 6_371_008.8 / 36_000),
        }
    ],
    "moving_averages": [{"start_time": at(6), "end_time": at(8), "pressure_avg": 1013.0, "temp_avg": 43.0}],
    "vehicle_trips": [
        {"start_time": at(8), "end_time": at(8, 2), "n_points": 2, "top_speed": 50.0, "reason": "STOPPED"}
    ],
    "ride_meter_jumps": [{"ride_id": "ride-7", "first_time": at(8, 4, 30), "last_meter_reading": 12.5}],
    "card_in_two_cities": [{"first_time": at(7, 58), "first_city": "Ulm", "last_city": "Trier"}],
    "fleet_warnings": [{"time": at(8, 1), "warning": "LOW_FUEL", "change": "ENDED", "began_at": at(7)}],
    "anomaly_predictions": [{"key": "cpu", "event_time": at(8, 5), "events_learned": 2}],
}
"""What each job makes of them: only who knows the seed can say so."""


@pytest.mark.parametrize("act", ACTS)
def test_the_story_goes_as_it_is_told(play, act):
    play(act)


def test_what_is_erased_is_in_no_file_of_the_lakehouse(play, folder):
    play(ACTS[-1])
    held = []
    for path in (folder / "story").rglob("*"):
        if path.suffix == ".parquet":
            held += [path] if "ride-17" in str(pl.read_parquet(path).rows()) else []
        elif path.is_file() and b"ride-17" in path.read_bytes():
            held.append(path)
    assert held == []


def test_each_shipped_job_is_seeded_as_the_page_says_and_goes_on(monkeypatch, tmp_path, without_spark):
    monkeypatch.setenv("KEYFOLD_HOME", "home")
    terminal = Terminal(monkeypatch, tmp_path, LOCAL)
    lakehouse = Lakehouse(tmp_path / "home")
    for stream, make in EVENTS.items():
        put(lakehouse, stream, make(1).head(1))
    follow(terminal, SEEDS, "Seeds of the shipped jobs")
    # Of the others two read what another job has written, and one keeps no state.
    assert set(jobs_with_state(lakehouse)) == set(SHIPPED) - {"ride_weather", "fleet_days", "sales_with_products"}
    for stream, later in LATER.items():
        put(lakehouse, stream, pl.DataFrame(later, schema=polars_schema(STREAMS[stream].schema), orient="row"))
    for name, expected in GOES_ON.items():
        run_job(lakehouse, configured_job(lakehouse, JOBS[name]), Incremental(advance_to=at(22)), runners=LOCAL)
        table = "latest_predictions" if name == "anomaly_predictions" else name
        found = pl.read_delta(str(lakehouse.table(table))).to_dicts()
        told = [{column: row[column] for column in expected[0]} for row in found]
        assert len(told) == len(expected)
        assert all(row in told for row in expected), told


def table(page, first_cell):
    """The rows of a page's table whose head begins so, each as its cells."""
    _, _, rest = page.read_text(encoding="utf-8").partition(f"\n| {first_cell} |")
    lines = rest.partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_page_names_columns_of_seeds_that_the_jobs_have():
    rows = table(SEEDS, "job | a key's rows")
    assert {row[0].strip("`") for row in rows} == set(SHIPPED)
    for name, _, columns in rows:
        job = build_job(JOBS[name.strip("`")])
        known = {*job.state.schema.names, *JOBS[job.name].parameter_fields, "window_start"}
        assert set(re.findall(r"`(\w+)`", columns)) <= known, name
        needed = {field.name for field in job.state.schema if not field.nullable} - set(job.key)
        assert columns.startswith("all") or needed <= set(re.findall(r"`(\w+)`", columns)), name
