"""`keyfold new` proposes what the files of a sample are like: delimiter, decimal sign, encoding, and formats of times."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from keyfold import FileFormat
from keyfold.cli.app import app
from keyfold.cli.new.project_files import stream_files, stream_of
from keyfold.cli.new.sample import Proposal, propose
from keyfold.ingestion.parsing import parse_file
from keyfold.storage.place import to_place
from keyfold.stream import TIMESTAMP, Stream
from tests.examples import examples
from tests.shop import START

NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
SECONDS = st.integers(631_152_000, 1_767_225_600)  # 1990 to 2026


def stream(proposal: Proposal) -> Stream:
    """The stream that is written of a proposal."""
    return stream_of(stream_files("trips", proposal, "new"), "trips")


def times(declared: Stream, sample: Path) -> list[datetime]:
    """The event times that ingest reads of a sample, none of which it refuses."""
    parts = list(parse_file(declared, to_place(sample), datetime.now(UTC)))
    assert not [reject for part in parts for reject in part.rejects]
    return [moment for part in parts for moment in part.accepted[declared.event_time]]


@pytest.mark.parametrize(
    ("encoding", "separator", "number", "form"),
    [
        ("utf-8", ",", "1.5", FileFormat()),
        ("utf-8", "\t", "1.5", FileFormat(delimiter="\t")),
        ("cp1252", ";", "1,5", FileFormat(delimiter=";", decimal=",", encoding="cp1252")),
        ("utf-16", "|", "-1,25", FileFormat(delimiter="|", decimal=",", encoding="utf-16")),
    ],
)
def test_what_a_sample_is_like_is_proposed_and_its_stream_reads_it(tmp_path, encoding, separator, number, form):
    moments = [f"{START + timedelta(minutes=minute):%Y-%m-%dT%H:%M:%SZ}" for minute in range(3)]
    rows = [
        ["at", "shop", "amount"],
        *([moment, "Zürich", number] for moment in moments[:2]),
        [moments[2], "Genf", "3"],
    ]
    (tmp_path / "sample.csv").write_text("".join(separator.join(row) + "\n" for row in rows), encoding=encoding)
    proposal = propose(tmp_path / "sample.csv")
    assert (proposal.format, stream(proposal).format) == (form, form)
    assert str(stream(proposal).schema.field("amount").type) == "double"
    assert len(times(stream(proposal), tmp_path / "sample.csv")) == 3


def sample_of(folder: Path, name: str, values: Sequence[str | int]) -> Path:
    """A sample of CSV or JSON with these values as times."""
    path = folder / name
    rows = [{"at": value, "bike": "b"} for value in values]
    csv = "at,bike\n" + "".join(f"{row['at']},b\n" for row in rows)
    path.write_text(csv if name.endswith("csv") else "".join(json.dumps(row) + "\n" for row in rows))
    return path


@examples(60)
@given(
    SECONDS,
    st.lists(st.tuples(st.integers(-(10**7), 10**7), st.booleans()), max_size=4),
    st.sampled_from(sorted(NANOSECONDS)),
    st.sampled_from(["a.csv", "a.ndjson"]),
)
def test_counts_beside_iso_times_are_proposed_in_the_unit_that_is_near_them(tmp_path_factory, second, more, unit, name):
    rows = [(second, False), (second, True), *((second + distance, is_count) for distance, is_count in more)]
    moments = [datetime.fromtimestamp(at, UTC) for at, _ in rows]
    values = [
        at * 10**9 // NANOSECONDS[unit] if is_count else f"{moment:%Y-%m-%dT%H:%M:%SZ}"
        for moment, (at, is_count) in zip(moments, rows, strict=True)
    ]
    sample = sample_of(tmp_path_factory.mktemp("sample"), name, values)
    declared = stream(propose(sample))
    assert declared.source("at").time == ("iso", unit)
    assert times(declared, sample) == moments


@pytest.mark.parametrize(
    "values",
    [
        ["2026-01-31T12:00:00Z", "1769860800000", "soon"],
        ["2026-01-31T12:00:00Z", "1769860800", "1769860800000"],
        ["2026-01-31T12:00:00Z", "7"],
        ["1970-01-31T12:00:00Z", "7"],
    ],
    ids=["no time", "two units", "no unit is near", "several units are near"],
)
def test_texts_that_are_not_plainly_times_stay_texts(tmp_path, values):
    sample = sample_of(tmp_path, "a.csv", values)
    (column, _) = propose(sample, "arrival", "bike").columns
    assert (column.kind == TIMESTAMP, column.formats) == (False, ())


def test_times_without_a_zone_are_told_when_a_project_is_written(tmp_path):
    sample = sample_of(tmp_path, "a.csv", ["2026-01-31T12:00:00", "2026-01-31T12:00:00Z"])
    written = CliRunner().invoke(app, ["new", str(tmp_path / "trips"), "--from", str(sample)])
    assert written.exit_code == 0
    assert "1 time without a zone, taken for UTC: say in stream trips which zone is meant" in written.stderr
