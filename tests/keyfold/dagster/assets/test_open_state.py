"""The open state on a job's page: read from its state, held against its journal and its tables. The demo has it on Spark."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import dagster as dg
import polars as pl
import pytest

from keyfold.dagster.assets import previews
from keyfold.dagster.assets.previews import explain_metadata, open_state_metadata
from keyfold.errors import Damaged
from keyfold.keyed.generation.batch_records import KeyedDone
from keyfold.keyed.job.building import build_job
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job_run import run_job
from keyfold.lakehouse import Lakehouse
from keyfold.privacy import MASK
from keyfold.runs import ingest
from keyfold.state.reading.reader import read_state
from spark_jobs.jobs.event_index import EVENT_INDEX
from spark_jobs.jobs.ride_summaries import RIDE_SUMMARIES
from spark_jobs.streams import RIDE_POINTS
from tests.folders import simulate_into
from tests.lake import LOCAL, Lake

JOB = build_job(RIDE_SUMMARIES)


@pytest.fixture(scope="module")
def ran(new_home) -> tuple[Lakehouse, KeyedDone]:
    """Rides that were ingested and summarized, and the journal's last word of them."""
    lakehouse = new_home("open")
    simulate_into(lakehouse.landing("ride_points"), "ride_points", size=40, seed=4, files=4)
    ingest(lakehouse, RIDE_POINTS, runners=LOCAL)
    run_job(lakehouse, JOB, runners=LOCAL)
    done = Lake(lakehouse).done(JOB.name)
    return lakehouse, done


def shown(lakehouse: Lakehouse, job: KeyedJob = JOB) -> dict[str, Any]:
    log = dg.build_op_context().log
    return {name: value.value for name, value in open_state_metadata(log, lakehouse, job).items()}


def rows_of(metadata: dict[str, Any]) -> list[dict[str, str]]:
    return [row.data for row in metadata["open_state"].records]


def test_the_open_rides_are_those_that_the_journal_counts_and_no_summary_tells_of(ran):
    lakehouse, done = ran
    metadata = shown(lakehouse)
    points = pl.read_delta(str(lakehouse.table("events.ride_points")))
    closed = pl.read_delta(str(lakehouse.table("ride_summaries")))["ride_id"]
    still_open = points.filter(~pl.col("ride_id").is_in(closed.implode()))
    assert still_open.height == done.open_events > 0
    # Closed rides leave a row each, by which late points are known; those are not open.
    keys, rows = (int(metadata[name]) for name in ("open_state_keys", "open_state_rows"))
    assert rows >= keys == still_open["ride_id"].n_unique()
    oldest = datetime.fromisoformat(metadata["open_state_oldest"]).replace(tzinfo=UTC)
    assert not points.filter(pl.col("timestamp") <= oldest).is_empty()
    assert still_open.filter(pl.col("timestamp") < oldest).is_empty()
    shown_rows = rows_of(metadata)
    assert len(shown_rows) == min(10, rows)
    # Those that are due first, and none of the markers.
    assert {row["ride_id"] for row in shown_rows} <= set(still_open["ride_id"].str.head(19) + "…")
    # A time does not break into lines.
    broken = str.maketrans("\u2011\u00a0", "- ")
    deadlines = [row["deadline"].translate(broken) for row in shown_rows if row["deadline"]]
    assert deadlines == sorted(deadlines)
    states = [
        frame.filter(pl.col("ride_id").is_in(still_open["ride_id"].implode()))
        for frame in read_state(lakehouse, JOB).frames()
    ]
    earliest = pl.concat(states)["deadline"].min()
    assert deadlines[0] == f"{earliest:%Y-%m-%d %H:%M:%S}"


def test_what_is_private_is_masked(ran, monkeypatch):
    lakehouse, _ = ran
    monkeypatch.setattr(KeyedJob, "private_of", lambda *_: frozenset({"ride_id"}))
    assert {row["ride_id"] for row in rows_of(shown(lakehouse))} == {MASK}


def test_a_job_that_has_not_run_shows_nothing(ran):
    lakehouse, _ = ran
    assert shown(lakehouse, build_job(EVENT_INDEX)) == {}


def test_a_large_state_is_not_read_and_its_size_is_shown(ran, monkeypatch):
    lakehouse, _ = ran
    monkeypatch.setattr(previews, "MOST_BYTES", 0)
    monkeypatch.setattr(previews, "read_state", None)
    assert "`keyfold state stats ride_summaries` reads it" in shown(lakehouse)["open_state"]


def test_a_state_that_cannot_be_read_fails_no_run_whose_tables_are_written(ran, monkeypatch):
    lakehouse, _ = ran

    def damaged(*_):
        raise Damaged("a part is gone")

    monkeypatch.setattr(previews, "read_state", damaged)
    assert shown(lakehouse) == {}


def test_the_command_that_explains_the_first_row_is_there_unless_its_key_is_private(ran):
    lakehouse, _ = ran
    (command,) = explain_metadata(lakehouse, JOB).values()
    first = pl.read_delta(str(lakehouse.table(JOB.name)))["ride_id"][0]
    assert command.value == f"keyfold explain ride_summaries {first} --home {lakehouse.home}"
    hidden = replace(RIDE_POINTS, private=("ride_id",))
    private = replace(JOB, inputs={"ride_points": replace(JOB.only_input, source=hidden)})
    assert explain_metadata(lakehouse, private) == {}
