"""Several rows of a key in one call of the step: the last stays, and what cannot be merged is refused before it counts."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from keyfold import Input, KeyedJob, KeyfoldError, Misconfigured, Step, TestHarness, Upsert, build_job
from keyfold.keyed.calling import calls_in_order
from keyfold.keyed.conservation import assert_nothing_lost
from keyfold.keyed.execution import work
from keyfold.keyed.generation.run_mode import FullRefresh
from keyfold.keyed.job_run import RunOptions
from keyfold.operators import Until, While, last_n, sessions
from keyfold.state.changing.moving import move
from keyfold.testing import verify
from spark_jobs.jobs.registry import JOBS
from spark_jobs.streams import METRICS
from tests.delta_features import with_feature
from tests.keyfold.keyed.toy_jobs import TOTAL, totals
from tests.keyfold.operators.every_operator import IS_LAST, IS_LITTLE, OF_SPAN, SPAN, SUMS, TIME, VISITS
from tests.lake import Lake
from tests.shop import CLICK, NOON

MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)


def values(*days: float) -> pl.DataFrame:
    """Forty values a minute apart of one metric, from each of some days on."""
    times = [NOON + day * DAY + number * MINUTE for day in days for number in range(40)]
    rows = [{"key": "pump", "timestamp": at, "value": float(number % 7)} for number, at in enumerate(times)]
    return pl.DataFrame(rows, schema=pl.Schema(METRICS.event_schema))


DETECTOR = build_job(JOBS["anomaly_predictions"], {"forget_after": "3d"})


def check_detector(lake: Lake) -> None:
    lake.put(values(0, 10), "metrics")
    lake.run(DETECTOR)
    newest = NOON + 10 * DAY + 39 * MINUTE
    assert lake.rows("retired_models", "key", "events_learned") == [("pump", 40)]
    # The watermark is behind the newest values by ten minutes.
    assert lake.rows("latest_predictions", "event_time") == [(newest - 10 * MINUTE,)]
    assert_nothing_lost(lake.lakehouse, DETECTOR)


def test_a_metric_that_is_silent_for_longer_than_forget_after_within_a_batch_has_its_last_prediction(lake):
    check_detector(lake)


def test_so_it_has_on_spark(spark, lakehouse):
    check_detector(Lake(lakehouse, spark))


LAST_SPAN = Upsert(OF_SPAN, "user", name="last_span")
LAST_SESSION = Upsert({"user": pl.String, "session_end": TIME, "n_events": pl.Int64}, "user", name="last_span")
SIBLINGS = {
    "until": lambda: sessions(
        "made", VISITS, SPAN, until=Until(IS_LAST, closed_for="1m"), key="user", gap="10m",
        selected=[(LAST_SPAN, pl.lit(value=True))],
    ),
    "while_": lambda: sessions(
        "made", VISITS, SPAN, while_=While(~IS_LITTLE, pause="5m", between=LAST_SPAN), key="user", gap="10m"
    ),
    "last_n": lambda: last_n("made", VISITS, SUMS, n=2, key="user", gap="10m", sessions=LAST_SESSION),
}  # fmt: skip
TIMES = [0, 1, 30, 31, 32, 70, 100]


def visits(*minutes: float) -> pl.DataFrame:
    rows = [("ann", NOON + minute * MINUTE, 1) for minute in minutes]
    frame = pl.DataFrame(rows, schema={"user": pl.String, "at": TIME, "cents": pl.Int64}, orient="row")
    return frame.with_columns(ingested_at=pl.col("at"))


@pytest.mark.parametrize("name", SIBLINGS)
@pytest.mark.parametrize("max_bytes", [1 << 30, 1], ids=["at once", "in slices"])
def test_the_last_of_several_sessions_of_a_batch_stays_and_every_event_counts(lake, name, max_bytes):
    job = SIBLINGS[name]()
    lake.put(visits(*TIMES[:5]), "visits")
    lake.put(visits(*TIMES[5:]), "visits")
    lake.run(job, options=RunOptions(max_bytes_per_batch=max_bytes))
    ended = "session_end" if name == "last_n" else "until"
    assert lake.rows("last_span", ended) == [(NOON + 70 * MINUTE,)]
    assert_nothing_lost(lake.lakehouse, job)


@pytest.mark.parametrize("name", SIBLINGS)
def test_events_of_replaced_rows_count_after_a_move_of_the_state_too(lake, name):
    job = SIBLINGS[name]()
    lake.put(visits(*TIMES[:5]), "visits")
    lake.run(job)
    moved = replace(job, key_groups=8)
    move(lake.lakehouse, moved, yes=True, runners=lake.session)
    assert_nothing_lost(lake.lakehouse, moved)
    lake.put(visits(*TIMES[5:]), "visits")
    lake.run(moved)
    assert_nothing_lost(lake.lakehouse, moved)


@pytest.mark.parametrize("name", SIBLINGS)
def test_a_table_of_the_last_session_does_not_depend_on_how_events_come(name):
    found = verify(SIBLINGS[name](), rounds=15)
    assert found is None, found and found.difference


def test_a_table_of_sessions_that_counts_no_events_is_refused():
    without = Upsert({"user": pl.String, "session_end": TIME}, "user", name="ends")
    with pytest.raises(Misconfigured, match=r"job made: sessions: table ends: .* does not count; add n_events"):
        last_n("made", VISITS, SUMS, n=2, key="user", gap="10m", sessions=without)


def test_a_key_has_one_type_in_a_table_with_one_row_per_key():
    with pytest.raises(Misconfigured, match=r"table made: user is int64, and string in the job's key"):
        KeyedJob(
            "made", Input(VISITS.source, final_at="at"), "user", {"user": pl.String}, lambda *_: Step(),
            Upsert({"user": pl.Int64}, "user"),
        )  # fmt: skip


def numbered(state, events, clock):
    """Writes a row for each event, in order of time."""
    ordered = events.sort("at")
    return Step(state=state, output=ordered.select("user", clicks=pl.col("at").dt.minute().cast(pl.Int64)))


def of_clicks(step) -> KeyedJob:
    return totals(
        name="numbered", step=step, more=(), output=TOTAL, output_events=pl.lit(0), state_events=pl.lit(0),
        event_count=pl.lit(0), upsert_by=("user",),
    )  # fmt: skip


def for_others(state, events, clock):
    """Writes a row of a key that it was not given."""
    return Step(state=state, output=pl.DataFrame({"user": ["eve"], "clicks": [1]}))


@pytest.mark.parametrize("max_bytes", [1 << 30, 1], ids=["at once", "in slices"])
def test_the_last_row_that_a_step_writes_of_a_key_stays(lake, max_bytes):
    lake.click(("ann", 3), ("bob", 7), ("ann", 1), ("ann", 9))
    lake.click(("ann", 4))
    lake.run(of_clicks(numbered), options=RunOptions(max_bytes_per_batch=max_bytes))
    assert lake.rows("numbered") == [("ann", 9), ("bob", 7)]


def test_a_row_of_a_key_that_the_step_was_not_given_is_refused_before_it_counts(lake):
    lake.click(("ann", 3))
    with pytest.raises(KeyfoldError, match=r"writes 1 row of keys \(user\) that it was not given to numbered"):
        lake.run(of_clicks(for_others))
    # The batch did not count, so that the mended step continues with it.
    lake.run(of_clicks(numbered))
    assert lake.rows("numbered") == [("ann", 3)]


def test_a_row_without_a_value_of_its_tables_key_is_refused_before_it_counts(lake):
    """Merges match no NULL: such a row would stand once more after each batch."""
    by_click = pa.schema([column.with_nullable(False) for column in TOTAL])

    def unnamed(state, events, clock):
        return Step(state=state, output=events.select("user", clicks=pl.lit(None, pl.Int64)))

    job = replace(of_clicks(unnamed), tables=[Upsert(by_click, ("user", "clicks"), name="numbered", events=pl.lit(0))])
    lake.click(("ann", 3))
    with pytest.raises(
        KeyfoldError, match="writes rows without a value in clicks to numbered, which is in the table's key"
    ):
        lake.run(job)
    assert lake.live("numbered").journal.last_done() is None


@pytest.fixture
def without_the_last_rows(monkeypatch):
    """The engine as it was: a call's rows stay as the step wrote them."""

    def break_it() -> None:
        monkeypatch.setattr(calls_in_order, "one_row_per_key", lambda job, called, keys: called)

    return break_it


@pytest.mark.parametrize("name", SIBLINGS)
def test_verify_shows_what_the_engine_writes(name, without_the_last_rows):
    without_the_last_rows()
    with pytest.raises(KeyfoldError, match="table last_span has several rows of one key"):
        verify(SIBLINGS[name](), rounds=15)


def test_rows_that_cannot_be_merged_are_refused_before_they_count(lake, without_the_last_rows, monkeypatch):
    without_the_last_rows()
    lake.click(("ann", 3), ("ann", 9))
    with pytest.raises(KeyfoldError, match="table numbered has several rows of one key"):
        lake.run(of_clicks(numbered))
    assert lake.live("numbered").journal.last_done() is None
    monkeypatch.undo()
    lake.run(of_clicks(numbered))
    assert lake.rows("numbered") == [("ann", 9)]


def test_a_job_that_an_older_version_has_stopped_says_how_it_goes_on(lake, without_the_last_rows, monkeypatch):
    without_the_last_rows()
    monkeypatch.setattr(work, "check_one_row_per_key", lambda *_: None)
    lake.click(("ann", 3), ("ann", 9))
    for _ in range(2):
        with pytest.raises(KeyfoldError, match=r"batch 0 has several rows of one key .*--full-refresh"):
            lake.run(of_clicks(numbered))
    monkeypatch.undo()
    with pytest.raises(KeyfoldError, match=r"batch 0 has several rows of one key .*--full-refresh"):
        lake.run(of_clicks(numbered))
    lake.run(of_clicks(numbered), FullRefresh())
    lake.click(("bob", 12))
    lake.run(of_clicks(numbered))
    assert lake.rows("numbered") == [("ann", 9), ("bob", 12)]


def test_the_harness_has_the_rows_of_the_table():
    harness = TestHarness(of_clicks(numbered))
    clicks = pl.DataFrame([("ann", NOON, 1), ("ann", NOON + MINUTE, 1)], schema=pl.Schema(CLICK), orient="row")
    for _ in range(2):
        harness.batch(clicks)
    assert harness.written["numbered"].rows() == [("ann", 1)]


@pytest.mark.on_disk("another writer is stood in for by a file")
@pytest.mark.parametrize(
    ("properties", "feature"),
    [
        ({"delta.enableChangeDataFeed": "true"}, "changeDataFeed"),
        ({"delta.columnMapping.mode": "name"}, "columnMapping"),
    ],
)
def test_a_table_that_rows_cannot_be_merged_into_is_refused_before_a_batch_counts(lake, properties, feature):
    lake.click(("ann", 3))
    lake.run(of_clicks(numbered))
    with_feature(Path(str(lake.lakehouse.table("numbered"))), properties, feature)
    lake.click(("ann", 9))
    with pytest.raises(KeyfoldError, match=f"has {feature}; Keyfold cannot merge rows into such a table"):
        lake.run(of_clicks(numbered))
    assert lake.done("numbered").batch == 0


@pytest.mark.on_disk("another writer is stood in for by a file")
def test_a_table_whose_files_are_read_in_another_way_is_written_anew_by_a_refresh(lake):
    lake.click(("ann", 3))
    lake.run(of_clicks(numbered))
    with_feature(Path(str(lake.lakehouse.table("numbered"))), {"delta.columnMapping.mode": "name"}, "columnMapping")
    lake.click(("ann", 9))
    lake.run(of_clicks(numbered), FullRefresh())
    assert lake.rows("numbered") == [("ann", 9)]
    lake.click(("ann", 12))
    lake.run(of_clicks(numbered))
    assert lake.rows("numbered") == [("ann", 12)]
