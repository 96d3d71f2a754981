"""What a journal tells of last night: one line a batch, and what is planned and not done; what new files have more."""

import gzip
import json
import re
from pathlib import Path
from typing import Any

from tests.made_generations import plan_of, put_done, put_generation

JOB = "ride_summaries"
EVENTS = "events.ride_points"


def test_a_job_or_a_stream_that_has_not_run_has_no_batch(keyfold):
    for name in (JOB, "ride_points"):
        assert json.loads(keyfold("journal", name, "--json").stdout)["batches"] == []


def test_each_batch_is_a_line_of_what_it_read_and_what_came_of_it(keyfold, lakehouse):
    generation = put_generation(lakehouse, JOB)
    for batch in range(3):
        generation.journal.write_plans([plan_of(batch, EVENTS, batch + 4, "a", "b")])
        put_done(generation, batch, events=10 * batch, rows={JOB: batch}, open_events=7)
    told = keyfold("journal", JOB, "--last", "2").stdout.splitlines()
    read = "2 files of events.ride_points to version 6; watermark to 2026-01-02 00:00:00"
    made = "20 events: 2 ride_summaries; 7 open"
    assert re.split("  +", told[-1].strip()) == ["2", "2026-01-02T00:00:00.000000Z", "1", read, made]
    found = json.loads(keyfold("journal", JOB, "--last", "2", "--json").stdout)
    assert [one["batch"] for one in found["batches"]] == [1, 2]
    assert found["batches"][0]["made"] == "10 events: 1 ride_summaries; 7 open"


def test_what_is_planned_and_not_done_is_told(keyfold, lakehouse):
    generation = put_generation(lakehouse, JOB)
    generation.journal.write_plans([plan_of(batch, EVENTS, 3, "a", run=0, batches=3) for batch in range(3)])
    put_done(generation, 0)
    assert keyfold("journal", JOB).stdout.count("planned, not done") == 2
    assert json.loads(keyfold("journal", JOB, "--json").stdout)["pending"] == 2


def rows_of(folder: Path, **columns: Any) -> Path:
    file = folder / "sample.ndjson"
    file.write_text(json.dumps({"origin": "EWR", **columns}) + "\n")
    return file


def test_columns_that_a_stream_lacks_are_shown(tmp_path, keyfold):
    file = rows_of(tmp_path, time_hour="2026-01-01T06:00:00Z", snow={"depth": 2.5})
    shown = keyfold("drift", "weather", "--from", file)
    assert (shown.exit_code, shown.output) == (0, f"stream: weather\nfiles:\n  {file}: snow\n")
    found = json.loads(keyfold("drift", "weather", "--from", file, "--json").output)
    assert found == {"stream": "weather", "files": {str(file): ["snow"]}, "unreadable": {}}
    shown = keyfold("drift", "weather", "--from", rows_of(tmp_path, time_hour="2026-01-01T06:00:00Z"))
    assert shown.output == "weather has every column\n"
    shown = keyfold("drift", "weather", "--from", rows_of(tmp_path, time_hour="2026-01-01T06:00:00Z"), "--json")
    assert json.loads(shown.output)["files"] == {}
    assert keyfold("drift", "weather", "--from", tmp_path / "nowhere").exit_code == 1
    assert keyfold("drift", "no_stream").exit_code == 2


def test_a_file_that_cannot_be_read_is_named(tmp_path, keyfold):
    file = tmp_path / "cut.json.gz"
    file.write_bytes(gzip.compress(b"{}\n" * 99)[:-10])
    shown = keyfold("drift", "weather", "--from", file)
    assert (shown.exit_code, "cut.json.gz: the file cannot be read: " in shown.output) == (0, True), shown.output


def test_names_in_files_of_a_stream_with_private_columns_are_not_shown(tmp_path, keyfold):
    file = tmp_path / "no_header.csv"
    file.write_text("Ada Lovelace,London\n")
    shown = keyfold("drift", "payments", "--from", file)
    assert (shown.exit_code, "2 not shown" in shown.output, "Ada" in shown.output) == (0, True, False)
