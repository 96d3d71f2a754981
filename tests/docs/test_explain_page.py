"""The commands of the page on explaining a row, on rides of which one is late, one open and one in quarantine."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import keyfold
from keyfold.cli.app import app
from spark_jobs.jobs.ride_summaries import RIDE_SUMMARIES
from spark_jobs.streams import RIDE_POINTS
from tests.lake import LOCAL
from tests.landings import land

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "explain-a-row.md"
COMMANDS = [
    line.removeprefix("$ ")
    for block in re.findall(r"```(?:console)?\n(.*?)```", PAGE.read_text(), re.DOTALL)
    for line in block.splitlines()
    if line.removeprefix("$ ").startswith("keyfold explain")
]
POINT = {"latitude": 40.7, "longitude": -74.0, "meter_reading": 1.5, "meter_increment": 0.1, "passenger_count": 1}


def point(ride: str, number: int, time: str, status: str = "enroute") -> dict[str, object]:
    return {"ride_id": ride, "point_idx": number, "timestamp": f"2026-01-01T{time}Z", "ride_status": status, **POINT}


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> keyfold.Lakehouse:
    lakehouse = keyfold.Lakehouse(tmp_path_factory.mktemp("rides"))
    landing = lakehouse.landing("ride_points")
    first = [
        point("ride-17", 0, "10:00:00", "pickup"),
        point("ride-17", 1, "10:05:00"),
        point("ride-17", 2, "10:12:00", "dropoff"),
    ]
    wrong = '{"ride_id": "ride-20", "point_idx": 0, "timestamp": "soon"}'
    land(landing / "day-1.ndjson", [*first, point("ride-18", 0, "10:30:00", "pickup")], wrong)
    keyfold.ingest(lakehouse, RIDE_POINTS, runners=LOCAL)
    keyfold.run(lakehouse, RIDE_SUMMARIES, runners=LOCAL)
    land(landing / "day-2.ndjson", [point("ride-17", 3, "10:13:00")])
    keyfold.ingest(lakehouse, RIDE_POINTS, runners=LOCAL)
    keyfold.run(lakehouse, RIDE_SUMMARIES, runners=LOCAL)
    return lakehouse


def printed(home: keyfold.Lakehouse, command: str) -> str:
    result = CliRunner().invoke(app, [*command.split()[1:], "--home", str(home.home)])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_page_answers(home, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    assert printed(home, command).strip()
    if "--as-test" in command:
        (test,) = tmp_path.glob("*.py")
        names: dict[str, object] = {}
        exec(compile(test.read_text(), str(test), "exec"), names)  # noqa: S102 - as pytest runs it
        names["test_rows_of_ride_summaries"]()  # type: ignore[operator]


def test_the_answer_on_the_page_is_what_is_printed(home):
    """But for the times at which this run was."""
    (shown,) = re.findall(r"\$ keyfold explain ride_summaries ride-17\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert _timeless(printed(home, "keyfold explain ride_summaries ride-17")) == _timeless(shown)


def test_json_has_all_of_it_in_one_line(home):
    answer = json.loads(printed(home, "keyfold explain ride_summaries ride-17 --json"))
    assert (answer["is_equal"], len(answer["rows"]), len(answer["batches"])) == (True, 1, 2)
    (late,) = (event for batch in answer["batches"] for event in batch["events"] if event["is_late"])
    assert (late["time"], late["late_by"]) == ("2026-01-01T10:13:00.000000Z", "0:07:00")


def _timeless(text: str) -> list[str]:
    text = re.sub(r"(run at|arrived) \d{4}-\d\d-\d\d \d\d:\d\d:\d\d", r"\1 TIME", text)
    return [line.rstrip() for line in text.strip().splitlines()]
