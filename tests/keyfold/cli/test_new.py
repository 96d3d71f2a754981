"""`keyfold new`: what is proposed by a sample, what is written, and that it stands as it is."""

import csv
import gzip
import json
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from typer.testing import CliRunner

from keyfold.cli.app import app
from keyfold.cli.new import commands, sample
from keyfold.cli.new.job_files import choose_key, group_of, job_files
from keyfold.cli.new.proposal import Proposal, propose_stream
from keyfold.cli.new.sample import read_sample
from keyfold.cli.new.stream_files import stream_files, stream_paths
from keyfold.cli.new.writing import write_files
from keyfold.errors import KeyfoldError
from keyfold.ingestion.parsing import parse_file
from keyfold.stream import INGESTED_AT, Stream
from spark_jobs.streams import SHIPPED, STREAMS
from tests.examples import examples
from tests.project_copy import ROOT, copy_project, environment_of

START = datetime(2026, 1, 1, tzinfo=UTC)


def propose(path: Path, **choices: Any) -> Proposal:
    return propose_stream("trips", read_sample(path), **choices)


def csv_of(folder: Path, **columns: list[Any]) -> Path:
    path = folder / "sample.csv"
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def json_of(folder: Path, *rows: dict[str, Any]) -> Path:
    path = folder / "sample.ndjson"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def times(count: int) -> list[str]:
    return [f"{START + timedelta(minutes=minute):%Y-%m-%dT%H:%M:%SZ}" for minute in range(count)]


def kinds(proposal: Proposal) -> dict[str, str]:
    return {column.name: str(column.kind) for column in proposal.columns}


def stream_of(proposal: Proposal, path: Path) -> Stream:
    """The stream that would be written, as Python makes it of the text."""
    texts = stream_files("trips", proposal, read_sample(path))
    written: dict[str, Any] = {}
    exec(texts[stream_paths("trips")[0]], written)  # noqa: S102 - what the command writes
    return written["STREAM"]


def accepted(proposal: Proposal, path: Path) -> int:
    return sum(rows.accepted.height for rows in parse_file(stream_of(proposal, path), path, datetime.now(UTC)))


def test_types_are_those_of_all_rows_and_not_of_the_first(tmp_path):
    late = 300
    path = csv_of(
        tmp_path,
        at=times(late),
        whole=[*range(late - 1), 7],
        real=[*range(late - 1), 2.5],
        code=[*range(late - 1), "85123A"],
        flag=["true"] * (late - 1) + ["False"],
        zip_like=[*range(1000, 1000 + late - 1), "00123"],
    )
    assert kinds(propose(path)) == {
        "at": "timestamp[us, tz=UTC]",
        "whole": "int64",
        "real": "double",
        "code": "string",
        "flag": "bool",
        "zip_like": "string",
    }


def test_ids_with_leading_zeros_too_many_digits_or_a_point_stay_text_and_the_reason_is_told(tmp_path):
    path = csv_of(
        tmp_path,
        at=times(3),
        station=["007", "12", "113"],
        serial=["12345678901234567890", "2", "3"],
        customer_id=["17850.0", "13047.0", "1.0"],
    )
    proposal = propose(path)
    assert {kinds(proposal)[name] for name in ("station", "serial", "customer_id")} == {"string"}
    told = "\n".join(proposal.notes)
    for reason in (
        "station: its numbers have leading",
        "serial: its numbers have too many",
        "customer_id: its numbers identify",
    ):
        assert reason in told


@pytest.mark.parametrize(
    ("raw", "shape"),
    [
        (["2026-01-01T00:00:00+02:00", "2026-01-02 00:00", "2026-01-03T00:00:00.5Z"], ""),
        (["1767225600", "1767225660.5", "1767225720"], "s"),
        (["1767225600000", "1767225660000", "1767225720000"], "ms"),
        (["1767225600000000000", "1767225660000000000", "1767225720000000000"], "ns"),
        (["13/01/2026 10:00", "14/01/2026 10:00", "15/01/2026 10:00"], "%d/%m/%Y %H:%M"),
        (["01/13/2026 10:00", "01/14/2026 10:00", "01/15/2026 10:00"], "%m/%d/%Y %H:%M"),
        (["2026-01-13", "2026-01-14", "2026-01-15"], "%Y-%m-%d"),
        (["20260113", "20260114", "20260115"], "%Y%m%d"),
        (
            ["21/Jan/2026:16:17:09 -0400", "22/Jan/2026:16:17:09 -0400", "23/Jan/2026:16:17:09 -0400"],
            "%d/%b/%Y:%H:%M:%S %z",
        ),
        (["1/13/2026 4:17 PM", "1/14/2026 4:17 AM", "1/15/2026 12:00 AM"], "%m/%d/%Y %I:%M %p"),
    ],
)
def test_times_of_many_shapes_are_found_and_ingest_reads_them_as_they_are_said(tmp_path, raw, shape):
    path = csv_of(tmp_path, when=raw, value=[1, 2, 3])
    proposal = propose(path)
    assert proposal.event_time == "when"
    assert proposal.columns[0].source.time == shape
    moved = [value.replace("2026", "2020").replace("17672", "15672") for value in raw]
    assert accepted(proposal, csv_of(tmp_path, when=moved, value=[1, 2, 3])) == 3


def test_numbers_are_times_only_where_the_name_speaks_of_time(tmp_path):
    path = json_of(tmp_path, *({"ts": 1767225600 + row, "amount": 1767225600 + row} for row in range(3)))
    assert kinds(propose(path)) == {"ts": "timestamp[us, tz=UTC]", "amount": "int64"}


def test_days_and_months_that_no_value_tells_apart_go_by_the_order_of_the_rows_and_are_told(tmp_path):
    path = csv_of(tmp_path, at=["01/02/2026 10:00", "02/02/2026 10:00", "01/03/2026 10:00"], value=[1, 2, 3])
    proposal = propose(path)
    assert proposal.columns[0].source.time == "%d/%m/%Y %H:%M"
    assert any("could as well be %m/%d/%Y %H:%M" in note for note in proposal.notes)


def test_of_several_times_the_likeliest_is_the_event_s_and_the_choice_is_told_and_can_be_changed(tmp_path):
    path = csv_of(tmp_path, updated_at=times(3), started_at=times(3), value=[1, 2, 3])
    proposal = propose(path)
    assert proposal.event_time == "started_at"
    assert "event time is started_at; other candidates: updated_at; choose with --event-time" in proposal.notes
    assert propose(path, event_time="updated_at").event_time == "updated_at"
    with pytest.raises(
        KeyfoldError, match=r"--event-time value: its values are not times.*columns of times: updated_at, started_at"
    ):
        propose(path, event_time="value")
    with pytest.raises(KeyfoldError, match="no column 'valu' that ingest reads; it has updated_at"):
        propose(path, event_time="valu")


def test_a_sample_without_a_time_is_refused_with_what_its_columns_are(tmp_path):
    with pytest.raises(
        KeyfoldError, match=r"no column of the sample has times.*name \(text\), value \(whole numbers\)"
    ):
        propose(csv_of(tmp_path, name=["a", "b"], value=[1, 2]))


def test_events_without_a_time_are_of_their_arrival_where_that_is_said(tmp_path, monkeypatch):
    path = csv_of(tmp_path, device=["a", "b", "a"], level=[1, 2, 3])
    proposal = propose(path, event_time="arrival")
    assert (proposal.event_time, proposal.event_id) == (INGESTED_AT, [])
    texts = stream_files("beeps", proposal, read_sample(path))
    assert ruff_finds(texts) == ""
    module: dict[str, Any] = {}
    exec(texts[Path("spark_jobs/streams/beeps.py")], module)  # noqa: S102 - what the command writes
    stream = module["STREAM"]
    (rows,) = parse_file(stream, path, START)
    assert rows.accepted[stream.event_time].to_list() == [START] * 3
    monkeypatch.setitem(STREAMS, "beeps", stream)
    job: dict[str, Any] = {}
    exec(job_files("counted", stream, ["device"], "beeps")[Path("spark_jobs/jobs/counted.py")], job)  # noqa: S102
    assert job["COUNTED"].build(job["CountedParameters"]()).event_time == INGESTED_AT


def test_a_column_of_the_name_arrival_is_that_column(tmp_path):
    assert propose(csv_of(tmp_path, arrival=times(2), at=times(2)), event_time="arrival").event_time == "arrival"


def test_rows_without_their_time_are_told_of_with_what_would_take_them(tmp_path):
    proposal = propose(csv_of(tmp_path, at=[*times(19), ""], value=list(range(20))))
    assert any(note.startswith("1 of 20 rows have no time") for note in proposal.notes)


@pytest.mark.parametrize(
    ("columns", "event_id"),
    [
        ({"trip_id": ["a", "b", "c"]}, ["trip_id"]),
        ({"station_id": ["a", "b", "c"]}, ["station_id", "at"]),
        ({"ride_id": ["a", "a", "b"], "point_idx": [0, 1, 0]}, ["ride_id", "point_idx"]),
        ({"value": [1.5, 2.5, 3.5]}, []),
    ],
)
def test_an_event_id_must_say_that_it_names_events_or_tell_a_thing_s_events_apart(tmp_path, columns, event_id):
    assert propose(csv_of(tmp_path, **columns, at=times(3))).event_id == event_id


def test_an_event_id_can_be_chosen_or_left_out(tmp_path):
    path = csv_of(tmp_path, trip_id=["a", "b", "c"], at=times(3))
    assert propose(path, event_id=["at", "trip_id"]).event_id == ["at", "trip_id"]
    assert propose(path, event_id=[]).event_id == []


def test_what_says_who_somebody_is_is_proposed_as_private_by_its_name_or_by_what_it_holds(tmp_path):
    path = csv_of(
        tmp_path,
        at=times(3),
        Email=["x", "y", "z"],
        contact=["ann@example.org", "bob@example.org", "c@d.org"],
        number=["4111 1111 1111 1111", "5500-0000-0000-0004", "4012888888881881"],
        firstName=["a", "b", "c"],
        emails_sent=[1, 2, 3],
        speed=[1, 2, 3],
    )
    assert propose(path).private == ["email", "contact", "number", "first_name", "emails_sent"]


def test_marks_of_missing_values_are_none_and_do_not_make_numbers_text(tmp_path):
    path = csv_of(tmp_path, at=times(4), value=["NA", "1", "-", "2"], name=["-", "a", "b", "c"])
    proposal = propose(path)
    assert kinds(proposal)["value"] == "int64"
    assert proposal.missing == ["-", "NA"]
    assert accepted(proposal, path) == 4


def test_names_become_those_of_columns_each_once_with_their_units(tmp_path):
    path = csv_of(
        tmp_path,
        **{
            "Time Stamp": times(2),
            "Speed (km/h)": [1, 2],
            "speed": [3, 4],
            "日本": [1, 2],
            "deadline": [1, 1],
            "ingested_at": [1, 1],
        },
    )
    proposal = propose(path)
    assert list(kinds(proposal)) == [
        "time_stamp",
        "speed",
        "speed_2",
        "column_4",
        "event_deadline",
        "event_ingested_at",
    ]
    assert [column.unit for column in proposal.columns] == ["", "km/h", "", "", "", ""]
    assert accepted(proposal, path) == 2


def test_lines_that_are_no_rows_are_left_out_and_told_and_the_others_speak(tmp_path, monkeypatch):
    path = tmp_path / "sample.csv"
    rows = [f"{time},{value}" for value, time in enumerate(times(20))]
    path.write_text("\n".join(["at,value", *rows[:10], "2026-01-01T00:00:00Z,1,2", "never,1", *rows[10:]]) + "\n")
    told = invoke(monkeypatch, tmp_path, "stream", "trips", "--from", str(path), "--dry-run").stdout
    assert "ingest would accept 20 of these rows and reject 2" in told
    assert "line 12: the row has 3 fields, the header 2" in told
    assert "line 13: at is not an ISO 8601 time: never" in told


def test_of_a_large_file_the_first_rows_are_looked_at_and_that_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(sample, "MAX_ROWS", 3)
    for path in (csv_of(tmp_path, at=times(5)), json_of(tmp_path, *({"at": time} for time in times(5)))):
        told = invoke(monkeypatch, tmp_path, "stream", "trips", "--from", str(path), "--dry-run").stdout
        assert f"{path.name}: 3 rows, the first part of the file" in told


def test_json_keeps_its_types_and_says_what_differs(tmp_path):
    rows = [{"at": time, "n": 1, "x": 1, "name": "12", "tags": ["a"], "deep": {"a": 1}} for time in times(10)]
    rows[3]["n"], rows[4]["x"] = "many", 0.5
    proposal = propose(json_of(tmp_path, *rows))
    assert kinds(proposal) == {
        "at": "timestamp[us, tz=UTC]",
        "n": "int64",
        "x": "double",
        "name": "string",
        "tags": "list<item: string>",
        "deep_a": "int64",
    }
    assert not proposal.ignored
    assert "n: 1 of its values is of another type than the others" in proposal.notes


def test_whole_numbers_become_integers_or_are_left_out_and_never_floats(tmp_path):
    big = 2**53 + 1
    json = json_of(
        tmp_path, *({"at": time, "n": n, "m": 1 << 70} for time, n in zip(times(3), [1, 2, 1 << 64], strict=True))
    )
    path = tmp_path / "sample.parquet"
    decimals = {"whole": ["1.00", f"{big}.00"], "price": ["1.50", f"{big}.25"], "wide": [f"{1 << 70}", f"{1 << 71}"]}
    columns = {name: pa.array(map(Decimal, texts)).cast(pa.decimal128(38, 2)) for name, texts in decimals.items()}
    pq.write_table(pa.table({"at": times(2), **columns, "unsigned": pa.array([1, 1 << 63], pa.uint64())}), path)
    proposal = propose(json)
    assert (kinds(proposal).get("n"), proposal.ignored) == ("int64", ["m"])
    assert "n: 1 of its values is of another type than the others" in proposal.notes
    proposal = propose(path)
    assert (kinds(proposal)["whole"], kinds(proposal)["unsigned"], proposal.ignored) == ("int64", "int64", ["wide"])
    assert (
        "price: its numbers have up to 18 digits, of which a float keeps 15: the others are rounded" in proposal.notes
    )
    assert accepted(proposal, path) == 1


NESTED = ROOT / "tests" / "data" / "nested"


@pytest.mark.parametrize(
    ("name", "rejected", "event_time", "event_id", "kept"),
    [
        ("repository_events", 0, "created_at", ["id"], ["payload"]),
        ("device_readings", 1, "message_sent_at", ["message_seq", "device_id"], ["readings"]),
    ],
)
def test_objects_become_columns_and_what_has_no_fixed_fields_json_text(name, rejected, event_time, event_id, kept):
    path = NESTED / f"{name}.ndjson"
    proposal = propose_stream(name, read_sample(path))
    assert (proposal.event_time, proposal.event_id) == (event_time, event_id)
    assert [column.name for column in proposal.columns if column.source.json] == kept
    found = [rows.accepted for rows in parse_file(stream_of(proposal, path), path, datetime(2026, 6, 1, tzinfo=UTC))]
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert sum(part.height for part in found) == len(lines) - rejected
    for column in proposal.columns:
        if column.is_number or column.source.json:
            expected = [inside(line, column.source.raw) for line in lines]
            values = [json.loads(one) if column.source.json and one else one for one in found[0][column.name].to_list()]
            assert [one for one in expected if one in values] == values or rejected


def inside(value: Any, path: str) -> Any:
    for key in path.split("."):
        value = value.get(key) if value is not None else None
    return value


def test_a_sample_of_structs_in_parquet_is_flattened_alike(tmp_path):
    rows = [
        {"id": index, "at": moment, "device": {"name": "a", "at": {"lat": 1.5}}, "values": [{"v": 1}], "tags": ["x"]}
        for index, moment in enumerate(times(4))
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    found, expected = propose(tmp_path / "a.parquet"), propose(json_of(tmp_path, *rows))
    assert (kinds(found), found.event_id) == (kinds(expected), expected.event_id)
    assert kinds(found) == {
        "id": "int64",
        "at": "timestamp[us, tz=UTC]",
        "device_name": "string",
        "device_at_lat": "double",
        "values": "string",
        "tags": "list<item: string>",
    }
    assert accepted(found, tmp_path / "a.parquet") == 4


def test_json_text_that_holds_what_is_private_is_proposed_as_private(tmp_path):
    rows = [{"at": moment, "id": 1, "open": [{"who": {"email": "a@example.org"}}]} for moment in times(3)]
    proposal = propose(json_of(tmp_path, *rows))
    assert list(proposal.private) == ["open"]
    assert any("'email'" in note for note in proposal.notes)


def test_a_bad_time_is_borne_as_a_bad_number_is_and_each_thing_is_said_once(tmp_path):
    rows = [
        {"id": index, "at": moment, "speed": 1.5, "epoch": {"ts": 1767225600 + index}}
        for index, moment in enumerate(times(5))
    ]
    rows[1] |= {"at": "soon"}
    rows[2] |= {"speed": "fast"}
    rows[3] |= {"epoch": {"ts": 0}}
    rows[4] |= {"epoch": 5}
    proposal = propose(json_of(tmp_path, *rows), event_time="at")
    assert kinds(proposal)["at"] == kinds(proposal)["epoch_ts"] == "timestamp[us, tz=UTC]"
    assert kinds(proposal)["speed"] == "double"
    assert [note for note in proposal.notes if note.startswith(("at:", "speed:", "epoch"))] == [
        "at: 1 value is not a time, such as 'soon': such rows go to quarantine",
        "speed: 1 of its values is of another type than the others",
        "epoch.ts: 1 value is not a time, such as '0': such rows go to quarantine",
        "epoch: 1 of its values is no object: such rows go to quarantine",
    ]
    assert len(set(proposal.notes)) == len(proposal.notes)
    assert not any("no time:" in note for note in proposal.notes)


@pytest.mark.parametrize("more", [{}, {"speed": 1.5}, {"id": None}])
def test_a_sample_of_which_nothing_that_is_left_can_be_a_key_is_refused(tmp_path, more):
    with pytest.raises(KeyfoldError, match="can be the key of a job") as refused:
        propose(json_of(tmp_path, *[{"at": moment, **more, "open": [{"id": 1}]} for moment in times(3)]))
    assert "Source('open.FIELD')" in str(refused.value)
    propose(json_of(tmp_path, *[{"at": moment, "speed": 1.5} for moment in times(3)]))


def test_parquet_and_compressed_files_are_samples_too(tmp_path):
    table = pa.table(
        {
            "at": pa.array([START] * 2, pa.timestamp("ns", "UTC")),
            "small": pa.array([1, 2], pa.int8()),
            "kind": pa.array(["a", "a"]).dictionary_encode(),
            "day": pa.array([START.date()] * 2),
        }
    )
    pq.write_table(table, tmp_path / "sample.parquet")
    proposal = propose(tmp_path / "sample.parquet")
    assert kinds(proposal) == {"at": "timestamp[us, tz=UTC]", "small": "int64", "kind": "string"}
    assert proposal.ignored == ["day"]
    assert accepted(proposal, tmp_path / "sample.parquet") == 2
    path = csv_of(tmp_path, at=times(2), value=[1, 2])
    packed = tmp_path / "packed.csv.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert kinds(propose(packed)) == kinds(propose(path))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"x", "ingest reads files that end with"),
        ("a.csv", b"", "has no valid rows"),
        ("a.csv", b"at,value\n", "has no valid rows"),
        ("a.csv", b"at;value\n2026-01-01T00:00Z;1\n", "separated by semicolons; ingest reads commas"),
        ("a.csv", b"2026-01-01T00:00Z,1\n", "is a row, not a header"),
        ("a.csv", b"at,at\n2026-01-01T00:00Z,1\n", "names at twice"),
        ("a.csv", "at\n".encode("utf-16"), "is not UTF-8 but UTF-16"),
        ("a.ndjson", b"[1]\nx\n", "has no valid rows; the first invalid line is 1: not a JSON object"),
        ("a.csv.gz", b"at\n", "cannot be read: Not a gzipped file"),
        ("a.parquet", b"at\n", "cannot be read"),
        ("missing.csv", None, "cannot be read: No such file"),
    ],
)
def test_a_file_that_is_no_sample_is_refused_with_the_reason(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(KeyfoldError, match=message):
        read_sample(tmp_path / name)


VALUES = {
    "whole": st.integers(-(2**63), 2**63 - 1),
    "real": st.floats(allow_nan=False, allow_infinity=False, width=32),
    "flag": st.booleans(),
    "text": st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=8).filter(
        str.strip
    ),
}
RAW_NAMES = st.text("aZ09 _-()[]/%'\"\\.,;:{}$éß€Жי日本🚲\x7f", min_size=1, max_size=60).filter(
    lambda name: name.strip() == name and not name[:1].isdigit()
)


@st.composite
def tables(draw):
    """A column of times and a few of others, under any names."""
    rows = draw(st.integers(1, 8))
    names = draw(st.lists(RAW_NAMES, max_size=4, unique=True).filter(lambda names: "at" not in names))
    drawn = {
        name: draw(st.lists(VALUES[draw(st.sampled_from(sorted(VALUES)))], min_size=rows, max_size=rows))
        for name in names
    }
    return {"at": times(rows), **drawn}


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tables())
def test_whatever_a_clean_file_holds_ingest_accepts_all_of_it_by_the_stream_that_is_proposed(tmp_path, columns):
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    paths = [json_of(tmp_path, *rows), tmp_path / "sample.parquet"]
    pq.write_table(pa.table(columns), paths[1])
    for path in paths:
        proposal = propose(path, event_time="at")
        assert accepted(proposal, path) == len(rows), proposal.notes


@examples(12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tables())
def test_whatever_the_columns_are_called_what_is_written_is_formatted_and_without_fault(tmp_path, columns):
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    path = json_of(tmp_path, *rows)
    proposal = propose(path, event_time="at")
    assert ruff_finds(stream_files("trips", proposal, read_sample(path))) == ""
    stream = stream_of(proposal, path)
    keys = [column.name for column in proposal.columns if not column.nullable and column.name != "at"]
    if keys:
        assert ruff_finds(job_files("hours", stream, choose_key(stream, None), "trips")) == ""


def ruff_finds(texts: dict[Path, str]) -> str:
    """What ruff says of files in their places, with the project's modules for those that they import."""
    with TemporaryDirectory() as folder:
        shutil.copy(ROOT / "pyproject.toml", folder)
        for path, text in texts.items():
            Path(folder, path).parent.mkdir(parents=True, exist_ok=True)
            Path(folder, path).write_text(text)
        ruff = [sys.executable, "-m", "ruff"]
        both = ["--no-cache", "--config", f'src = [".", "{ROOT}"]', "."]
        commands = ([*ruff, "format", "--check", "--diff", *both], [*ruff, "check", "--quiet", *both])
        done = [subprocess.run(one, cwd=folder, capture_output=True, text=True, check=False) for one in commands]
    return "".join(one.stdout + one.stderr for one in done if one.returncode)


def invoke(monkeypatch: pytest.MonkeyPatch, project: Path, *arguments: str):
    monkeypatch.setattr(commands, "project_folder", lambda: project)
    return CliRunner().invoke(app, ["new", *arguments])


def with_rooms(project: Path) -> Path:
    (project / "assets").mkdir()
    for file in (ROOT / "assets").glob("*.py"):
        (project / "assets" / file.name).write_text(file.read_text())
    return project


def test_a_dry_run_shows_every_file_and_writes_none(tmp_path, monkeypatch):
    path = csv_of(tmp_path, at=times(2), value=[1, 2])
    told = invoke(monkeypatch, tmp_path, "stream", "trips", "--from", str(path), "--dry-run")
    assert told.exit_code == 0
    for file in stream_paths("trips"):
        assert f"--- {file}" in told.stdout
    assert [file.name for file in tmp_path.rglob("*")] == ["sample.csv"]


def test_a_file_that_is_there_is_never_written_over_and_nothing_else_is_written(tmp_path, monkeypatch):
    path = csv_of(tmp_path, at=times(2), value=[1, 2])
    room = tmp_path / "assets" / "trips.py"
    room.parent.mkdir()
    room.write_text("mine")
    told = invoke(monkeypatch, tmp_path, "stream", "trips", "--from", str(path))
    assert told.exit_code == 1
    assert "assets/trips.py exists; nothing was written" in told.stderr
    assert room.read_text() == "mine"
    assert not (tmp_path / "spark_jobs").exists()


def test_where_one_file_cannot_be_written_none_is_left_behind(tmp_path):
    (tmp_path / "b").write_text("a file, where a folder should be")
    with pytest.raises(KeyfoldError, match=r"cannot be written.*nothing was written"):
        write_files(tmp_path, {Path("a/one.py"): "", Path("b/two.py"): ""})
    assert not (tmp_path / "a" / "one.py").exists()


@pytest.mark.parametrize(
    "name", ["Trips", "2trips", "my-trips", "class", "trips_", "a__b", "x" * 41, "../trips", "everything"]
)
def test_a_name_that_cannot_be_is_bad_usage(tmp_path, monkeypatch, name):
    path = csv_of(tmp_path, at=times(2))
    for arguments in (("stream", name, "--from", str(path)), ("job", name, "--stream", "sales")):
        told = invoke(monkeypatch, with_rooms(tmp_path) if not (tmp_path / "assets").exists() else tmp_path, *arguments)
        assert told.exit_code == 2, told.output
        assert "cannot name a" in " ".join(told.stderr.replace("│", "").split())


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("sales", "a stream named 'sales' exists"),
        ("event_index", "a job named"),
        ("fleet", "a group of assets named"),
        ("long_rides", "a table named"),
        ("sales_events", "a table's asset named"),
        ("plots", "assets/plots.py exists"),
    ],
)
def test_a_name_that_is_taken_is_refused_with_what_has_it(tmp_path, monkeypatch, name, told):
    project = with_rooms(tmp_path)
    (project / "assets" / "plots").mkdir()
    path = csv_of(tmp_path, at=times(2))
    for arguments in (("stream", name, "--from", str(path)), ("job", name, "--stream", "sales")):
        result = invoke(monkeypatch, project, *arguments)
        assert result.exit_code == 1
        assert told in result.stderr


@pytest.mark.parametrize("stream", SHIPPED)
def test_a_job_can_be_written_for_every_stream_that_is_shipped(tmp_path, stream):
    group = group_of(ROOT, STREAMS[stream])
    assert group in {"rides", "weather", "metrics", "fleet", "sales", "payments"}
    key = choose_key(STREAMS[stream], None)
    texts = job_files("counted", STREAMS[stream], key, group)
    assert ruff_finds(texts) == ""
    # A key may be private, as the card of payments is; then it is what the job is about.
    private = set(STREAMS[stream].private) - set(key)
    assert not any(f'"{column}"' in text for column in private for text in texts.values())
    module = texts[Path("spark_jobs/jobs/counted.py")]
    job: dict[str, Any] = {}
    exec(module, job)  # noqa: S102 - what the command writes
    assert job["COUNTED"].build(job["CountedParameters"]()).stream is STREAMS[stream]


def test_the_key_is_what_the_events_are_about_unless_it_is_chosen():
    found = {name: choose_key(STREAMS[name], None) for name in SHIPPED}
    assert found == {
        "ride_points": ["ride_id"],
        "weather": ["station_id"],
        "metrics": ["key"],
        "telemetry": ["vehicle_id"],
        "sales": ["item"],
        "payments": ["card"],
    }
    assert choose_key(STREAMS["ride_points"], "ride_status, ride_id") == ["ride_status", "ride_id"]
    with pytest.raises(KeyfoldError, match="customer may be missing: declare it with nullable=False"):
        choose_key(STREAMS["sales"], "customer")
    with pytest.raises(KeyfoldError, match=r"time cannot be a key column;.*possible are item, quantity"):
        choose_key(STREAMS["sales"], "time")


def test_a_stream_without_a_group_of_assets_has_no_place_for_a_job(tmp_path):
    (tmp_path / "assets").mkdir()
    with pytest.raises(KeyfoldError, match=r"no module in .*assets has the stream sales as its STREAM"):
        group_of(tmp_path, STREAMS["sales"])


# `make test` has Ruff look at what is written in each test above, and runs it: in tests/docs/test_tutorial.py, and from the wheel
# in tests/test_wheel.py. Pyright, the layers, and Dagster's names and groups are looked at here alone.
@pytest.mark.long
@pytest.mark.slow
def test_what_is_written_passes_every_check_of_the_project_and_loads(tmp_path):
    project = copy_project(tmp_path / "project")
    rows = json_of(
        tmp_path,
        *(
            {"bike_id": row % 2, "Epoch": 1767225600000 + row, "on": True, "e-mail": "a@b.c", "charge (%)": 0.5}
            for row in range(6)
        ),
    )
    run(project, "keyfold", "new", "stream", "bikes", "--from", str(rows))
    run(project, "keyfold", "new", "job", "bike_hours", "--stream", "bikes", "--key", "bike_id")
    run(project, "keyfold", "new", "job", "reading_hours", "--stream", "weather")
    written = [
        str(path.relative_to(project))
        for folder in ("spark_jobs", "assets", "expectations", "tests")
        for path in (project / folder).rglob("*.py")
        if not (ROOT / path.relative_to(project)).exists()
    ]
    assert len(written) == 3 + 4 + 4
    run(project, "ruff", "format", "--check", *written)
    run(project, "ruff", "check", *written)
    run(project, "pyright", *written)
    run(project, "lint-imports")
    loaded = run(project, "python", "-c", LOAD)
    assert json.loads(loaded.splitlines()[-1]) == {
        "bikes": ["bike_hours", "bike_hours_late", "bikes_events", "bikes_landing", "bikes_quarantine"],
        "weather": ["reading_hours", "reading_hours_late"],
    }


LOAD = """
import json
from dagster_project.definitions import defs
from spark_jobs.streams import STREAMS

assert "bikes_landed" in {sensor.name for sensor in defs.sensors}
assert STREAMS["bikes"].private == ("e_mail",)
graph = defs.resolve_asset_graph()
groups = {key.to_user_string(): graph.get(key).group_name for key in graph.get_all_asset_keys()}
ours = {group: sorted(key for key in groups if groups[key] == group) for group in ("bikes", "weather")}
ours["weather"] = [key for key in ours["weather"] if "reading" in key]
checks = {(key.asset_key.to_user_string(), key.name) for key in graph.asset_check_keys}
assert {("bikes_events", "every_row_is_accounted_for"), ("bike_hours", "no_event_is_lost")} <= checks, checks
assert ("bike_hours", "one_row_a_window") in checks
print(json.dumps(ours))
"""


def run(project: Path, *command: str) -> str:
    done = subprocess.run(
        command, cwd=project, env=environment_of(project), capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
