"""`keyfold new` and `keyfold add`: what they propose of a sample, what they write, and that it stands as it is."""

import csv
import gzip
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st
from typer.testing import CliRunner

from keyfold.cli.app import app
from keyfold.cli.new import commands
from keyfold.cli.new.project_files import stream_files, stream_of, write_files
from keyfold.cli.new.sample import Proposal, propose
from keyfold.errors import KeyfoldError
from keyfold.ingestion.parsing import parse_file
from keyfold.storage.disk_path import DiskPath
from keyfold.storage.place import to_place
from keyfold.stream import INGESTED_AT
from tests.examples import examples
from tests.project_copy import ROOT
from tests.shop import START

TIME = "timestamp[us, tz=UTC]"


def csv_of(folder: DiskPath, **columns: list[Any]) -> Path:
    path = folder / "sample.csv"
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def json_of(folder: DiskPath, *rows: Mapping[str, Any]) -> Path:
    path = folder / "sample.ndjson"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def times(count: int) -> list[str]:
    return [f"{START + timedelta(minutes=minute):%Y-%m-%dT%H:%M:%SZ}" for minute in range(count)]


def kinds(proposal: Proposal) -> dict[str, str]:
    return {column.name: str(column.kind) for column in proposal.columns}


def accepted(proposal: Proposal, path: Path) -> int:
    stream = stream_of(stream_files("trips", proposal, "new"), "trips")
    return sum(rows.accepted.height for rows in parse_file(stream, to_place(path), datetime.now(UTC)))


def test_types_are_those_of_all_rows_and_codes_of_digits_stay_text(tmp_path):
    path = csv_of(
        tmp_path,
        at=times(300),
        key=["a"] * 300,
        whole=list(range(300)),
        real=[*range(299), 2.5],
        code=[*range(299), "85123A"],
        flag=["true"] * 299 + ["false"],
        zip_like=[*range(1000, 1299), "00123"],
        serial=["12345678901234567890"] * 300,
        nothing=[""] * 300,
    )
    proposal = propose(path, key="key")
    assert list(kinds(proposal).values()) == [
        *(TIME, "string", "int64", "double", "string", "bool", "string", "string", "string")
    ]
    assert (proposal.time, accepted(proposal, path)) == ("at", 300)
    path.write_text(path.read_text().replace("at,key,whole", " at, key ,whole", 1))
    assert [column.raw for column in propose(path, key="key").columns][:3] == ["at", "key", "whole"]
    (tmp_path / "packed.csv.gz").write_bytes(gzip.compress(path.read_bytes()))
    assert kinds(propose(tmp_path / "packed.csv.gz", key="key")) == kinds(proposal)


@pytest.mark.parametrize(
    ("raw", "shape"),
    [
        (["2026-01-01T00:00:00+02:00", "2026-01-02 00:00"], ""),
        (["1767225600", "1767225660"], "s"),
        (["1767225600000", "1767225660000"], "ms"),
        (["13/01/2026 10:00", "14/01/2026 10:00"], "%d/%m/%Y %H:%M"),
        (["2026-01-13", "2026-01-14"], "%Y-%m-%d"),
        (["21/Jan/2026:16:17:09 -0400", "22/Jan/2026:16:17:09 -0400"], "%d/%b/%Y:%H:%M:%S %z"),
    ],
)
def test_times_are_read_as_iso_8601_or_as_is_said(tmp_path, raw, shape):
    path = csv_of(tmp_path, **{"when=": raw, "key": ["a", "b"]})
    proposal = propose(path, f"when=={shape}" if shape else None)
    assert (proposal.time, proposal.columns[0].formats) == ("when", (shape,) if shape else ())
    assert accepted(proposal, path) == 2
    texts = stream_files("trips", proposal, "new")
    assert ruff_finds(texts) == ""


def test_what_is_ambiguous_is_asked_with_the_candidates(tmp_path):
    path = csv_of(tmp_path, updated_at=times(2), started_at=times(2), a=["x", "y"], b=["x", "y"], n=[1, 2], r=[1.5, 2])
    for choices, told in (
        ({}, r"2 columns that are plainly the time: choose with --time .*candidates: updated_at \(time\), started_at"),
        ({"time": "started_at"}, r"2 columns that are plainly the key: .*candidates: a \(string\), b \(string\)$"),
        ({"time": "a"}, r"a has no times as ISO 8601; name their format: --time 'a=FORMAT'"),
        ({"time": "a=%d.%m.%Y"}, r"a has no times as %d.%m.%Y"),
        ({"time": "ended_at"}, "no column 'ended_at' that ingest reads; it has updated_at, started_at"),
        ({"time": "started_at", "key": "r"}, r"--key r: a key is text.*candidates: a \(string\), b .*, n \(int64\)$"),
        ({"time": "started_at", "key": "started_at"}, "not the event time"),
    ):
        with pytest.raises(KeyfoldError, match=told):
            propose(path, **choices)
    proposal = propose(path, "started_at", "n")
    assert (proposal.time, proposal.key.name) == ("started_at", "n")
    with pytest.raises(KeyfoldError, match=r"no columns that are plainly the time.*candidates: a \(string\)"):
        propose(csv_of(tmp_path, a=["x", "y"]))
    with pytest.raises(KeyfoldError, match="no columns that are plainly the key"):
        propose(csv_of(tmp_path, at=times(2), r=[1.5, 2]))
    with pytest.raises(KeyfoldError, match="no columns that are plainly the key"):
        propose(csv_of(tmp_path, at=times(2), key=["", "b"]))


def test_events_without_a_time_are_of_their_arrival_where_that_is_said(tmp_path):
    path = csv_of(tmp_path, device=["a", "b", "a"], level=[1, 2, 3])
    proposal = propose(path, "arrival")
    assert (proposal.time, accepted(proposal, path)) == (INGESTED_AT, 3)
    named_so = csv_of(tmp_path, arrival=times(2), at=times(2), key=["a", "b"])
    assert propose(named_so, "arrival").time == "arrival"


def test_objects_become_columns_and_what_has_no_fixed_fields_private_json_text(tmp_path):
    rows = [
        {
            "at": moment,
            "device": {"id": "a", "at": {"lat": 1.5}},
            "list": [{"v": 1, "when": moment, "email": None}, {"v": 2.5, "when": moment}][index % 2 :],
            "deep": [{"v": [1]}],
            "various": [{f"v{index}": 1, "w": 1}, {f"w{index}": 1}],
            "tags": ["x"],
            "open": {f"u{index}": 1},
            "odd": {"a.b[": 1},
        }
        for index, moment in enumerate(times(4))
    ]
    expected = {
        "at": TIME, "device_id": "string", "device_at_lat": "double", "list": f"list<item: struct<v: double, when: {TIME}, email: string>>",
        "deep": "string", "various": "string", "tags": "list<item: string>", "open": "string", "odd": "string",
    }  # fmt: skip
    path = json_of(tmp_path, *rows)
    proposal = propose(path)
    assert (kinds(proposal), proposal.key.raw) == (expected, "device.id")
    private = [column.name for column in proposal.columns if column.is_private]
    assert private == ["list", "deep", "various", "open", "odd"]
    assert accepted(proposal, path) == 4
    stream = stream_of(stream_files("trips", proposal, "new"), "trips")
    (found,) = parse_file(stream, to_place(path), datetime.now(UTC))
    assert [[one["v"] for one in each] for each in found.accepted["list"]] == [[1, 2.5], [2.5]] * 2
    assert [json.loads(text) for text in found.accepted["open"]] == [row["open"] for row in rows]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    assert kinds(propose(tmp_path / "a.parquet")) == expected


@pytest.mark.parametrize("name", ["repository_events", "device_readings"])
def test_events_of_others_are_accepted_by_the_stream_that_is_proposed(name):
    path = ROOT / "tests" / "data" / "nested" / f"{name}.ndjson"
    time, key, rejected = {
        "repository_events": ("created_at", "type", 0),
        "device_readings": ("message_sent_at", "device_id", 1),
    }[name]
    assert accepted(propose(path, time, key), path) == len(path.read_text().splitlines()) - rejected


def test_what_ingest_does_not_read_is_left_out(tmp_path):
    columns = {
        "at": pa.array([START] * 2, pa.timestamp("ns", "UTC")),
        "kind": pa.array(["a", "a"]).dictionary_encode(),
        "small": pa.array([1, 2], pa.int8()),
        "price": pa.array([Decimal("1.50"), Decimal("2.25")]),
        "day": pa.array([START.date()] * 2),
        "counts": pa.array([[1, 2], []]),
        "blob": pa.array([b"a", b"b"]),
    }
    path = tmp_path / "sample.parquet"
    pq.write_table(pa.table(columns), path)
    proposal = propose(path)
    assert kinds(proposal) == {
        "at": TIME, "kind": "string", "small": "int64", "price": "decimal128(3, 2)", "day": "date32[day]",
        "counts": "list<item: int64>", "blob": "None",
    }  # fmt: skip
    assert accepted(proposal, path) == 2
    assert stream_of(stream_files("trips", proposal, "new"), "trips").ignored == ("blob",)
    large = propose(json_of(tmp_path, {"at": times(1)[0], "key": "a", "n": 1 << 70}))
    assert kinds(large) == {"at": TIME, "key": "string", "n": "None"}


def test_what_says_who_somebody_is_is_private_by_its_name(tmp_path):
    names = ("Email", "firstName", "user name", "emails_sent", "street", "speed", "ipsum")
    columns = {name: [1.5] for name in names}
    found = propose(csv_of(tmp_path, at=times(1), key=["a"], **columns)).columns
    assert [one.name for one in found if one.is_private] == [
        "email",
        "first_name",
        "user_name",
        "emails_sent",
        "street",
    ]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"x", "ingest reads files that end with"),
        ("a.csv", b"", "cannot be read: empty"),
        ("a.csv", b"at,value\n", "has no rows"),
        ("a.csv", b"at,value,at\n1,2,3\n", "its header names 'at' twice"),
        ("a.csv", b"at, user,user\t\n2026-01-01T00:00Z,ann,bob\n", "its header names 'user' twice"),
        ("a.csv", "at\n".encode("utf-16-le"), "NUL bytes"),
        ("a.ndjson", b"[1]\nx\n", "cannot be read"),
        ("a.ndjson", b'{"a": [1]}\n{"a": {"b": 1}}\n', "cannot be read"),
        ("a.csv.gz", b"at\n", "cannot be read: Not a gzipped file"),
        ("a.parquet", b"at\n", "cannot be read"),
        ("missing.csv", None, "cannot be read: No such file"),
    ],
)
def test_a_file_that_is_no_sample_is_refused_with_the_reason(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(KeyfoldError, match=message):
        propose(tmp_path / name)


VALUES = {
    "whole": st.integers(-(2**63), 2**63 - 1),
    "real": st.floats(allow_nan=False, allow_infinity=False, width=32),
    "flag": st.booleans(),
    "text": st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=8).filter(
        str.strip
    ),
}
RAW_NAMES = st.one_of(
    st.sampled_from(["class", "events", "deadline", "window_start", "STREAM", "None", "key", "{{ key }}", '"""', "\\"]),
    st.text("aZ09 _-()[]/%'\"\\.,;:{}$éß€Жи日本🚲\x7f", min_size=1, max_size=60),
).filter(lambda name: name.strip() == name and name != "at")


@st.composite
def tables(draw):
    """A column of times, and a few of others, under any names."""
    rows = draw(st.integers(1, 8))
    names = draw(st.lists(RAW_NAMES, min_size=1, max_size=4, unique=True))
    drawn = {
        name: draw(st.lists(VALUES[draw(st.sampled_from(sorted(VALUES)))], min_size=rows, max_size=rows))
        for name in names
    }
    return {"at": times(rows), **drawn, "bikes": draw(st.lists(VALUES["text"], min_size=rows, max_size=rows))}


HARD_NAMES = (
    "deadline", "events", "a b", "A-b", 'q"\\', 'it\'s "q"', "\x7f", "class", "{{ key }}", "a\nc", "日本", '"""', "x" * 60 + "é"
)  # fmt: skip
HARD = {"at": times(1), **{name: [1] for name in HARD_NAMES}, "bikes": ["a"]}
"""Names that a column cannot keep, that a Python text escapes, or that mean something to templates."""


def written_of(tmp_path: DiskPath, columns: Mapping[str, list[Any]]) -> list[tuple[Path, Proposal]]:
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    paths = [json_of(tmp_path, *rows), tmp_path / "sample.parquet"]
    pq.write_table(pa.table(dict(columns)), paths[1])
    return [(path, propose(path, "at", "bikes")) for path in paths]


def test_a_key_of_json_with_nul_and_a_header_with_any_blanks_are_columns(tmp_path):
    path = json_of(tmp_path, {"at": times(1)[0], "us\0er": "ann"})
    proposal = propose(path)
    assert (proposal.key.name, accepted(proposal, path)) == ("us_er", 1)
    for number, blank in enumerate([" ", "\t", "\xa0", "\u2028", "\u3000", "\x1f"]):
        path = tmp_path / f"{number}.csv"
        path.write_text(f"at,{blank}user{blank}\n{times(1)[0]},ann\n")
        proposal = propose(path)
        assert (proposal.key.raw, accepted(proposal, path)) == ("user", 1)


def test_names_are_unique_and_none_that_the_tables_need(tmp_path):
    names = [column.name for column in written_of(tmp_path, HARD)[0][1].columns]
    assert names[:5] == ["at", "event_deadline", "event_events", "a_b", "a_b_2"]
    assert names[-4:] == ["column_12", "column_13", "x" * 38, "bikes"]


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tables())
@example(HARD)
def test_whatever_a_clean_file_holds_ingest_accepts_all_of_it(tmp_path, columns):
    for path, proposal in written_of(tmp_path, columns):
        assert accepted(proposal, path) == len(columns["at"])


@examples(12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tables())
@example(HARD)
def test_whatever_the_columns_are_called_what_is_written_is_formatted_and_without_fault(tmp_path, columns):
    for _, proposal in written_of(tmp_path, columns)[:1]:
        assert ruff_finds(stream_files("trips", proposal, "new")) == ""


def ruff_finds(texts: Mapping[Path, str], settings: Path = ROOT / "pyproject.toml") -> str:
    """What ruff says of files in their places, with the project's modules for those that they import."""
    with TemporaryDirectory() as folder:
        write_files(Path(folder), texts)
        if not Path(folder, "pyproject.toml").exists():
            shutil.copy(settings, folder)
        ruff = [sys.executable, "-m", "ruff"]
        both = ["--no-cache", "--config", f'src = [".", "{ROOT}"]', "."]
        commands = ([*ruff, "format", "--check", "--diff", *both], [*ruff, "check", "--quiet", *both])
        done = [subprocess.run(one, cwd=folder, capture_output=True, text=True, check=False) for one in commands]
    return "".join(one.stdout + one.stderr for one in done if one.returncode)


def invoke(monkeypatch: pytest.MonkeyPatch, project: Path, *arguments: object):
    monkeypatch.setattr(commands, "project_folder", lambda: project)
    return CliRunner().invoke(app, [str(one) for one in arguments])


def test_a_new_project_has_its_files_and_a_sample_and_ruff_finds_nothing_in_them(tmp_path, monkeypatch):
    project = tmp_path / "plant"
    told = invoke(monkeypatch, tmp_path, "new", project, "--json")
    assert told.exit_code == 0, told.output
    summary = json.loads(told.stdout)
    files = {path.relative_to(project).as_posix() for path in project.rglob("*") if path.is_file()}
    assert files == {*summary["files"], "sample/plant.ndjson"}
    assert {"pyproject.toml", "Makefile", ".gitignore"} <= files
    assert (summary["accepted"], summary["rejected"], summary["key"]) == (180, 0, "sensor_id")
    texts = {Path(name): (project / name).read_text() for name in summary["files"]}
    assert not any("{{" in text or "{%" in text for text in texts.values())
    assert ruff_finds(texts) == ""
    again = invoke(monkeypatch, tmp_path, "new", project)
    assert (again.exit_code, "is not an empty folder" in again.stderr) == (1, True)


def test_a_file_that_is_there_is_never_written_over_and_nothing_else_is_written(tmp_path, monkeypatch):
    path = csv_of(tmp_path, at=times(2), key=["a", "b"])
    mine = tmp_path / "assets" / "trips.py"
    mine.parent.mkdir()
    mine.write_text("mine")
    told = invoke(monkeypatch, tmp_path, "add", "trips", "--from", path)
    assert told.exit_code == 1
    assert "assets/trips.py exists; nothing was written" in told.stderr
    assert mine.read_text() == "mine"
    assert not (tmp_path / "spark_jobs").exists()


def test_where_one_file_cannot_be_written_none_is_left_behind(tmp_path):
    (tmp_path / "b").write_text("a file, where a folder should be")
    with pytest.raises(KeyfoldError, match=r"cannot be written.*nothing was written"):
        write_files(tmp_path, {Path("a/one.py"): "", Path("b/two.py"): ""})
    assert not (tmp_path / "a" / "one.py").exists()


@pytest.mark.parametrize(
    "name", ["Trips", "2trips", "my-trips", "class", "trips_", "a__b", "x" * 34, "a/../B", "everything"]
)
def test_a_name_that_cannot_be_is_bad_usage(tmp_path, monkeypatch, name):
    path = csv_of(tmp_path, at=times(2))
    for arguments in (("new", tmp_path / name), ("add", name)):
        told = invoke(monkeypatch, tmp_path, *arguments, "--from", path)
        assert told.exit_code == 2, told.output
        assert "single underscores" in " ".join(told.stderr.replace("│", "").split())


def test_a_name_that_is_taken_is_refused_with_what_has_it(tmp_path, monkeypatch):
    path = csv_of(tmp_path, at=times(2), key=["a", "b"])
    told = invoke(monkeypatch, tmp_path, "add", "sales", "--from", path)
    assert (told.exit_code, "a stream named 'sales' exists" in told.stderr) == (1, True)
    monkeypatch.setattr(commands, "project_jobs", lambda: {"hourly_trips": None})
    told = invoke(monkeypatch, tmp_path, "add", "trips", "--from", path)
    assert (told.exit_code, "a job named 'hourly_trips' exists" in told.stderr) == (1, True)


def test_rows_that_ingest_would_reject_are_told_and_none_is_an_error(tmp_path, monkeypatch):
    def added(path: Path, *more: str) -> tuple[int, str]:
        told = invoke(monkeypatch, tmp_path, "add", "trips", "--from", path, *more)
        return told.exit_code, told.output

    rows = [f"{moment},a{index}" for index, moment in enumerate(times(5))]
    path = tmp_path / "sample.csv"
    path.write_text("\n".join(["at,key", *rows, "2026-01-01T00:00:00Z,"]) + "\n")
    assert added(path, "--key", "key")[0] == 1
    of_later = json_of(tmp_path, {"at": "2200-01-01T00:00:00Z", "key": "a"})
    code, told = added(of_later)
    assert (code, "would accept none of its rows; line 1: " in told) == (1, True)
    code, told = added(json_of(tmp_path, {"at": "1.1.26", "key": "a"}), "--time", "at=%d.%m.%y")
    assert (code, "\naccepted: 1\nrejected: 0\n" in told) == (0, True)
