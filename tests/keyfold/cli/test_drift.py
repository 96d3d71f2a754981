"""`keyfold drift`: what new files have and a stream does not, without names that may be values."""

import json
from pathlib import Path
from typing import Any


def rows_of(folder: Path, **columns: Any) -> Path:
    file = folder / "sample.ndjson"
    file.write_text(json.dumps({"origin": "EWR", **columns}) + "\n")
    return file


def test_columns_that_a_stream_lacks_are_shown(tmp_path, keyfold):
    file = rows_of(tmp_path, time_hour="2026-01-01T06:00:00Z", snow={"depth": 2.5})
    shown = keyfold("drift", "weather", "--from", file)
    assert (shown.exit_code, shown.output) == (0, "sample.ndjson: unknown: snow\n")
    found = json.loads(keyfold("drift", "weather", "--from", file, "--json").output)
    assert found == {"stream": "weather", "files": {str(file): ["snow"]}}
    shown = keyfold("drift", "weather", "--from", rows_of(tmp_path, time_hour="2026-01-01T06:00:00Z"))
    assert shown.output == "weather has every column\n"
    shown = keyfold("drift", "weather", "--from", rows_of(tmp_path, time_hour="2026-01-01T06:00:00Z"), "--json")
    assert json.loads(shown.output)["files"] == {}
    assert keyfold("drift", "weather", "--from", tmp_path / "nowhere").exit_code == 1
    assert keyfold("drift", "no_stream").exit_code == 2


def test_names_in_files_of_a_stream_with_private_columns_are_not_shown(tmp_path, keyfold):
    file = tmp_path / "no_header.csv"
    file.write_text("Ada Lovelace,London\n")
    shown = keyfold("drift", "payments", "--from", file)
    assert (shown.exit_code, "2 not shown" in shown.output, "Ada" in shown.output) == (0, True, False)
