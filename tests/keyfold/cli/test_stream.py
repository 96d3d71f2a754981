"""`keyfold stream drift` and `accept`: what is unknown is shown, accepted into the stream's module, and known from then on."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from keyfold.cli.app import app
from keyfold.cli.new.accepting import accepted_module, propose_accepted
from keyfold.cli.new.module_edit import UnsafeEditError
from keyfold.cli.new.proposal import propose_stream
from keyfold.cli.new.sample import read_sample
from keyfold.cli.new.stream_files import stream_files, stream_of, stream_paths
from keyfold.errors import KeyfoldError
from keyfold.ingestion.drift import find_drift
from keyfold.ingestion.parsing import parse_file
from spark_jobs.streams import SHIPPED
from tests.keyfold.cli.test_new import json_of, ruff_finds, times
from tests.project_copy import ROOT

ARRIVED = datetime(2026, 6, 1, tzinfo=UTC)
TIMES = pa.timestamp("us", tz="UTC")


def rows(**more: Any) -> list[dict[str, Any]]:
    return [
        {"id": index, "at": moment, "device": {"name": "a"}, "flag": index % 2 == 0, **more}
        for index, moment in enumerate(times(4))
    ]


def written(folder: Path) -> str:
    """The module that `keyfold new stream` writes."""
    path = json_of(folder, *rows())
    return stream_files("trips", propose_stream("trips", read_sample(path)), read_sample(path))[
        stream_paths("trips")[0]
    ]


def accept(text: str, raw: str, file: Path) -> str:
    known = stream_of(text)
    return accepted_module(known, text, propose_accepted(known, raw, file), raw, file)


@pytest.mark.parametrize(
    ("more", "raw", "columns"),
    [
        ({"speed": 1.5}, "speed", {"speed": pa.float64()}),
        ({"Speed (km/h)": 3}, "Speed (km/h)", {"speed": pa.int64()}),
        ({"sent_ts": 1767225600}, "sent_ts", {"sent_ts": TIMES}),
        ({"device": {"name": "a", "room": "x"}}, "device.room", {"device_room": pa.string()}),
        ({"device": {"name": "a", "spot": {"lat": 1.5, "lon": 2}}}, "device.spot", {"device_spot_lat": pa.float64(), "device_spot_lon": pa.int64()}),
        ({"all": [1, {}]}, "all", {"all": pa.string()}),
        ({"device_name": "b"}, "device_name", {"device_name_2": pa.string()}),
    ],
)  # fmt: skip
def test_what_is_accepted_is_read_and_known_and_all_else_is_as_it_was(tmp_path, more, raw, columns):
    text = written(tmp_path)
    before, file = stream_of(text), json_of(tmp_path, *rows(**more))
    assert find_drift(before, [file])[0].unknown == (raw,)
    changed = accept(text, raw, file)
    after = stream_of(changed)
    assert find_drift(after, [file])[0].unknown == ()
    assert after.schema == pa.schema([*before.schema, *columns.items()])
    assert all(after.schema.field(name).nullable for name in columns)
    (found,) = parse_file(after, file, ARRIVED)
    assert (found.accepted.height, found.accepted.select(list(columns)).null_count().sum_horizontal().item()) == (4, 0)
    removed = set(text.splitlines()) - set(changed.splitlines())
    assert all(line.startswith("from keyfold.stream import") for line in removed)
    assert not ruff_finds({stream_paths("trips")[0]: changed})


def test_columns_are_accepted_one_after_another(tmp_path):
    text, more = written(tmp_path), {"a": 1, "mail": "x@example.org", "phone": "123", "b": {"c": "x"}}
    file = json_of(tmp_path, *rows(**more))
    for name in find_drift(stream_of(text), [file])[0].unknown:
        text = accept(text, name, file)
    after = stream_of(text)
    assert not find_drift(after, [file])[0].is_any
    assert after.schema.names[-4:] == ["a", "b_c", "mail", "phone"]
    assert after.private == ("mail", "phone")
    assert not ruff_finds({stream_paths("trips")[0]: text})


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_module_can_be_edited(tmp_path, name):
    text = (ROOT / "spark_jobs" / "streams" / f"{name}.py").read_text()
    file = json_of(tmp_path, *[{"brand_new": {"ts": 1767225600, "value": 1.5, "mail": "x@example.org"}}] * 3)
    changed = accept(text, "brand_new", file)
    assert stream_of(changed).schema.names[-3:] == ["brand_new_ts", "brand_new_value", "brand_new_mail"]
    assert not ruff_finds({Path("spark_jobs/streams", f"{name}.py"): changed})


def test_a_field_of_elements_is_accepted_into_a_stream_of_elements(tmp_path):
    text = (
        "import pyarrow as pa\n\nfrom keyfold.columns import column\nfrom keyfold.stream import Source, Stream\n\n"
        'SCHEMA = pa.schema([column("value", pa.float64(), "Value")])\n'
        'SOURCES = {"value": Source("readings[].value")}\n'
        'STREAM = Stream(name="trips", schema=SCHEMA, event_time="ingested_at", sources=SOURCES)\n'
    )
    file = json_of(tmp_path, *[{"readings": [{"value": 1.5, "unit": "C"}, {"value": 2.5}]}] * 3)
    after = stream_of(accept(text, "readings[].unit", file))
    (found,) = parse_file(after, file, ARRIVED)
    assert found.accepted.drop("ingested_at").rows() == [(1.5, "C"), (2.5, None)] * 3


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("STREAM = Stream(", "from functools import partial\n\nSTREAM = partial(Stream)(", "by one Stream"),
        ("        ]\n    ),", "        ]\n        + []\n    ),", "not a list within pa.schema"),
        (
            "        ]\n    ),",
            "            # no more than these\n        ]\n    ),",
            "something stands behind the last",
        ),
        ("from keyfold import column", "from keyfold import column as declared, column as column", ""),
        ("            column(", "            column_of(", "it would fail"),
    ],
)
def test_a_module_that_is_written_otherwise_is_not_edited(tmp_path, old, new, why):
    text = written(tmp_path)
    file = json_of(tmp_path, *rows(speed=1.5))
    known, changed = stream_of(text), text.replace(old, new)
    assert changed != text
    acceptance = propose_accepted(known, "speed", file)
    if not why:
        assert stream_of(accepted_module(known, changed, acceptance, "speed", file)).schema.names[-1] == "speed"
        return
    with pytest.raises(UnsafeEditError, match=why):
        accepted_module(known, changed, acceptance, "speed", file)


def test_what_ingest_does_not_read_is_not_accepted(tmp_path):
    known = stream_of(written(tmp_path))
    file = json_of(tmp_path, *rows(huge=2**70))
    with pytest.raises(KeyfoldError, match="has values that ingest does not read"):
        propose_accepted(known, "huge", file)


def invoke(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Any:
    monkeypatch.chdir(ROOT)
    return CliRunner().invoke(app, ["stream", *arguments])


def test_the_commands_show_and_accept_what_a_shipped_stream_does_not_know(tmp_path, monkeypatch):
    module = ROOT / "spark_jobs" / "streams" / "weather.py"
    before = module.read_text()
    new = {"origin": "EWR", "time_hour": "2026-01-01T06:00:00Z", "temp": 39, "snow": {"depth": 2.5}}
    file = json_of(tmp_path, *[new] * 3)
    shown = invoke(monkeypatch, "drift", "weather", "--from", str(file))
    assert shown.exit_code == 0
    assert "sample.ndjson: unknown: snow" in shown.output
    assert "keyfold stream accept weather snow" in shown.output
    done = invoke(monkeypatch, "accept", "weather", "snow", "--from", str(file), "--dry-run", "--json")
    assert done.exit_code == 0
    assert json.loads(done.output.splitlines()[-1])["columns"] == {"snow_depth": "double"}
    assert module.read_text() == before
    for arguments in (("accept", "weather", "rain"), ("drift", "weather")):
        refused = invoke(
            monkeypatch, *arguments, "--from", str(tmp_path / "nowhere" if arguments[0] == "drift" else file)
        )
        assert refused.exit_code == 1
    assert invoke(monkeypatch, "drift", "no_stream").exit_code == 2


def test_the_module_is_written_or_its_lines_are_shown(tmp_path, monkeypatch):
    module = tmp_path / "spark_jobs" / "streams" / "weather.py"
    monkeypatch.setattr("keyfold.cli.stream.project_folder", lambda: tmp_path)
    new = {"origin": "EWR", "time_hour": "2026-01-01T06:00:00Z", "snow": {"depth": 2.5}}
    file = json_of(tmp_path, *[new] * 3)
    refused = invoke(monkeypatch, "accept", "weather", "snow", "--from", str(file))
    assert refused.exit_code == 1
    assert 'schema: column("snow_depth", pa.float64(), "Snow depth", unit="")' in refused.output
    assert 'sources: "snow_depth": Source("snow.depth")' in refused.output
    module.parent.mkdir(parents=True)
    module.write_text((ROOT / "spark_jobs" / "streams" / "weather.py").read_text())
    assert invoke(monkeypatch, "accept", "weather", "snow", "--from", str(file)).exit_code == 0
    after = stream_of(module.read_text())
    (found,) = parse_file(after, file, ARRIVED)
    assert found.accepted["snow_depth"].to_list() == [2.5] * 3
    assert find_drift(after, [file])[0].unknown == ()


def test_names_in_files_of_a_stream_with_private_columns_are_not_shown(tmp_path, monkeypatch):
    file = tmp_path / "no_header.csv"
    file.write_text("Ada Lovelace,London\n")
    shown = invoke(monkeypatch, "drift", "payments", "--from", str(file))
    refused = invoke(monkeypatch, "accept", "payments", "x", "--from", str(file))
    assert (shown.exit_code, refused.exit_code) == (0, 1)
    assert "2 not shown" in shown.output
    assert "Ada" not in shown.output + refused.output
