"""What an explanation says: of late, open, missing and quarantined keys, edits, other code, private values and chains."""

import random
from datetime import timedelta
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import keyfold
from keyfold import Input, KeyedJob, Stream
from keyfold.errors import InvalidData, NotFound
from keyfold.journal import journal as journal_module
from keyfold.journal.audit import Author
from keyfold.keyed.generation.run_mode import Incremental
from keyfold.keyed.job_run import RunOptions
from keyfold.operators import count, lookup_join, sessions, totals, windows
from keyfold.operators import sum as sum_of
from keyfold.runs.explaining.explain import explain_as_test
from keyfold.runs.explaining.explanation import Explanation
from keyfold.runs.reprocess import reprocess
from keyfold.state.changing.editing import Edit, edit_state
from keyfold.state.changing.moving import move
from tests.explained import History
from tests.keyfold.operators.every_operator import EVERY_OPERATOR
from tests.lake import Lake, minutes
from tests.landings import land
from tests.shop import CLICK, CLICKS, START, USER, clicks


def hours(**settings: Any) -> KeyedJob:
    source = Input(settings.pop("stream", CLICKS), delay="5m")
    return windows("hours", source, {"n": count(), "clicks": sum_of("clicks")}, key="user", length="1h", **settings)


def why(lake: Lake, job: KeyedJob, key: str, table: str = "", **options: Any) -> Explanation:
    return keyfold.explain(lake.lakehouse, table or job.name, key, jobs=[job], **options)


@pytest.fixture
def lake(tmp_path) -> Lake:
    """Ann's first hour is over, and one of her clicks came after that; her second hour is open."""
    lake, job = Lake(tmp_path), hours()
    lake.land(CLICKS, clicks(("ann", 1), ("ann", 30), ("bob", 90)))
    lake.run(job)
    lake.land(CLICKS, clicks(("ann", 40), ("ann", 95)))
    lake.run(job)
    return lake


def test_a_row_is_explained_by_its_events_and_the_batch_that_wrote_it(lake):
    explained = why(lake, hours(), "ann")
    assert explained.answer == "1 row: written in batch 0, of 4 events, 1 of them late"
    assert explained.is_equal is True
    first, second = explained.batches
    assert [(event.time, event.is_late, event.source) for event in first.events] == [
        (minutes(1), False, "0001.parquet"),
        (minutes(30), False, "0001.parquet"),
    ]
    assert (first.previous_watermark, first.watermark, first.runner) == (None, minutes(85), "local")
    assert first.rows == {"hours": explained.rows}
    assert [event.late_by for event in second.events] == [timedelta(minutes=45), None]
    assert second.state_before == ()
    assert [row["n"] for row in second.state_after] == [1]


def test_an_event_is_in_the_slice_of_the_run_that_read_it(tmp_path):
    lake = Lake(tmp_path)
    for minute in (1, 300, 600):
        lake.click(("ann", minute))
    lake.run(hours(), options=RunOptions(max_bytes_per_batch=1))
    batches = why(lake, hours(), "ann").batches
    assert [(batch.batch, [event.time for event in batch.events]) for batch in batches] == [
        (0, [minutes(1)]),
        (1, [minutes(300)]),
        (2, [minutes(600)]),
    ]


def test_a_late_event_is_explained(lake):
    explained = why(lake, hours(), "ann", "late.hours")
    assert explained.answer == "1 row: written in batch 1, of 1 event"
    assert "LATE: 0:45:00 behind the watermark" in str(explained)


@pytest.mark.parametrize(
    ("key", "answer"),
    [
        ("bob", "no row yet: open until the watermark reaches 2026-01-01 02:00:00 (it is at 2026-01-01 01:30:00)"),
        ("cyd", "no row: nothing with this key has landed; it is in none of events.clicks, quarantine.clicks"),
    ],
)
def test_a_key_without_a_row_is_explained(lake, key, answer):
    assert why(lake, hours(), key).answer == answer


def test_events_that_no_run_has_read_wait(lake):
    lake.land(CLICKS, clicks(("dan", 100)))
    explained = why(lake, hours(), "dan")
    assert explained.answer.startswith("no row yet: its only event waits for the next run (`keyfold run hours --home ")
    assert [event.time for event in explained.waiting] == [minutes(100)]
    assert "not read yet by a run" in str(explained)


def test_a_key_of_late_events_only(lake):
    lake.land(CLICKS, clicks(("eve", 2)))
    lake.run(hours())
    assert why(lake, hours(), "eve").answer == "no row: its only event came late, and is in late.hours"
    assert why(lake, hours(), "bob", "late.hours").answer == "no late event: its only event came in time"


def test_events_that_the_condition_leaves_out(lake):
    job = windows("few", Input(CLICKS.where(pl.col("clicks") > 5)), {"n": count()}, key="user", length="1h")
    lake.run(job)
    assert why(lake, job, "ann").answer.startswith("no row: the job leaves out 4 rows of this key")


def test_lines_in_quarantine(lake):
    stream = Stream("views", CLICK, event_time="at")
    job = hours(stream=stream)
    folder = lake.lakehouse.landing("views")
    land(
        folder / "day.ndjson", [{"user": "ann", "at": START.isoformat(), "clicks": 1}], '{"user": "fay", "at": "never"}'
    )
    keyfold.ingest(lake.lakehouse, stream, runners=lake.session)
    jobs = [windows("viewed", stream, {"n": count()}, key="user", length="1h"), job]
    lake.run(jobs[0])
    for table in ("viewed", "quarantine.views"):
        explained = keyfold.explain(lake.lakehouse, table, "fay", jobs=jobs)
        assert "at is not" in explained.answer
        assert [(line["file"].rpartition("/")[2], line["line"]) for line in explained.quarantined] == [
            ("day.ndjson", 2)
        ]
        assert "day.ndjson:2: at is not" in str(explained)


def test_an_edit_of_state_is_named_and_the_replay_goes_on_from_it(lake):
    edit = Edit(("bob",), {"clicks": "clicks + 10"}, Author("ann", "counted twice"))
    edit_state(lake.lakehouse, hours(), edit, yes=True, runners=lake.session)
    lake.run(hours(), Incremental(advance_to=minutes(200)))
    explained = why(lake, hours(), "bob")
    assert explained.is_equal is True
    assert [row["clicks"] for row in explained.rows] == [11]
    assert any(batch.changed_state for batch in explained.batches)
    assert "changed by hand" in str(explained)


def test_rows_that_were_computed_again_are_explained_by_all_events(lake):
    reprocess(lake.lakehouse, hours(), START, author=Author("ann", "late clicks count"), yes=True, runners=lake.session)
    lake.land(CLICKS, clicks(("ann", 20), ("ann", 200)))
    lake.run(hours())
    explained = why(lake, hours(), "ann")
    assert explained.is_equal is True, str(explained)
    assert [row["n"] for row in explained.rows] == [3, 1]
    assert "were computed again" in str(explained)
    assert len(why(lake, hours(), "ann", "late.hours").rows) == 1


def test_a_move_takes_the_clocks_along(lake):
    before = lake.live("hours").clocks()
    move(lake.lakehouse, hours(key_groups=8), yes=True, runners=lake.session)
    clocks = lake.live("hours").clocks()
    assert (
        clocks[: before.height]
        .select("generation", "batch", "watermark")
        .equals(before.select("generation", "batch", "watermark"))
    )
    lake.land(CLICKS, clicks(("ann", 20), ("ann", 200)))
    lake.run(hours(key_groups=8))
    explained = why(lake, hours(key_groups=8), "ann")
    assert (explained.is_equal, len(explained.events)) == (True, 6), str(explained)
    assert explained.batches[0].generation == "generation-0001"
    assert explained.generation == "generation-0002"


def test_clocks_that_are_not_kept_are_stood_for_by_one_replay(lake, monkeypatch):
    generation = lake.live("hours")
    lake.land(CLICKS, clicks(("ann", 130)))
    lake.run(hours())
    with monkeypatch.context() as patch:
        patch.setattr(journal_module, "KEPT", 1)
        generation.journal.compact(lambda batches: None)
    explained = why(lake, hours(), "bob")
    assert explained.is_equal is True, str(explained)
    assert "the clocks of batches 0 to 1 are not kept" in str(explained)
    # A click of ann was late in a batch whose clock is not kept: the replay counts it.
    assert why(lake, hours(), "ann").is_equal is False


def test_other_code_is_named_with_what_differs(tmp_path):
    lake = Lake(tmp_path)
    lake.click(("ann", 1), ("bob", 300))

    def doubled(factor: int) -> KeyedJob:
        return windows("hours", CLICKS, {"n": count()}, key="user", length="1h", then={"twice": pl.col("n") * factor})

    lake.run(doubled(2))
    explained = why(lake, doubled(3), "ann")
    assert explained.is_equal is False
    (difference,) = explained.differences
    assert ([row["twice"] for row in difference.stored], [row["twice"] for row in difference.replayed]) == ([2], [3])
    assert any("the code" in reason for reason in explained.reasons)
    assert "PLAYED AGAIN, THIS GIVES OTHER ROWS" in str(explained)


def test_a_state_that_differs_is_named_though_no_row_does(tmp_path):
    def sum_of_clicks(factor: int) -> KeyedJob:
        def step(state: pl.DataFrame, events: pl.DataFrame, clock: keyfold.Clock) -> keyfold.Step:
            came = events.select("user", clicks=pl.col("clicks") * factor)
            return keyfold.Step(state=pl.concat([state, came]).group_by("user").agg(pl.col("clicks").sum()))

        rows = {"user": pl.String, "clicks": pl.Int64}
        return KeyedJob("sums", Input(CLICKS, final_at="at"), "user", rows, step, keyfold.Append(rows))

    lake = Lake(tmp_path)
    lake.click(("ann", 1))
    lake.run(sum_of_clicks(2))
    assert why(lake, sum_of_clicks(2), "ann").is_equal is True
    explained = why(lake, sum_of_clicks(3), "ann")
    assert [(one.table, one.stored, one.replayed) for one in explained.differences] == [
        ("state", ({"user": "ann", "clicks": 2},), ({"user": "ann", "clicks": 3},))
    ]
    assert any("the code has changed since the last run" in reason for reason in explained.reasons)


def test_private_values_are_masked_and_a_test_has_others(tmp_path):
    stream = Stream("clicks", CLICK, event_time="at", private=("user", "clicks"))
    lake, job = Lake(tmp_path), hours(stream=stream)
    lake.land(stream, clicks(("ann", 1), ("ann", 30), ("bob", 300)).with_columns(clicks=pl.lit(4711)))
    lake.run(job)
    explained, test = explain_as_test(lake.lakehouse, "hours", "ann", jobs=[job])
    for text in (str(explained), repr(explained), test):
        assert "ann" not in text.replace("explained", "")
        assert "4711" not in text
        assert "private" in text


@pytest.mark.parametrize("name", ["windows", "sessions until", "running in processing time", "interval_join"])
def test_the_test_that_is_written_passes_and_fails_where_the_rows_are_others(tmp_path, monkeypatch, name):
    history = History(Lake(tmp_path), EVERY_OPERATOR[name].of([timedelta(minutes=10)] * 2), random.Random(name))
    history.go_on(runs=3)
    monkeypatch.setattr("keyfold.project.project_jobs", lambda module="": {"made": history.job})
    rows = 0
    for key in history.all_keys():
        explained, text = explain_as_test(history.lake.lakehouse, "made", key, jobs=[history.job])
        written: dict[str, Any] = {}
        exec(compile(text, "test_made.py", "exec"), written)  # noqa: S102 - as pytest runs it
        written["test_rows_of_made"]()
        rows += len(explained.rows)
        written["ROWS"].extend(written["ROWS"][:1])
        if explained.rows:
            with pytest.raises(AssertionError):
                written["test_rows_of_made"]()
    assert rows > 0


def test_a_step_that_asks_a_service_is_not_called_again(tmp_path):
    def ask(state: pl.DataFrame, events: pl.DataFrame, clock: keyfold.Clock) -> keyfold.Step:
        if clock.responses.get("rate") is None:
            clock.responses.keep("rate", "2")
        return keyfold.Step(state=state, output=events.select("user", "clicks"))

    lake, source = Lake(tmp_path), Input(CLICKS, final_at="at")
    rows = {"user": pl.String, "clicks": pl.Int64}
    job = KeyedJob("asked", source, "user", rows, ask, keyfold.Append(rows, events=pl.len()))
    lake.click(("ann", 1))
    lake.run(job)
    explained = why(lake, job, "ann")
    assert (explained.is_equal, len(explained.rows), len(explained.events)) == (None, 1, 1)
    assert "the step asks a service, whose responses are not kept" in str(explained)


def test_a_lookup_is_shown_and_named_where_it_has_changed_since(tmp_path):
    products = tmp_path / "products.csv"
    lookup = keyfold.Lookup(str(products), pa.schema([USER, ("level", pa.int64())]), ("user",))
    lake, job = Lake(tmp_path / "lake"), lookup_join("rated", Input(CLICKS), ("levels", lookup))
    products.write_text("user,level\nann,1\nbob,2\n")
    lake.click(("ann", 1), ("bob", 1))
    lake.run(job)
    explained = why(lake, job, "ann")
    assert (explained.is_equal, explained.batches[0].lookups) == (True, {"levels": [{"user": "ann", "level": 1}]})
    products.write_text("user,level\nann,7\n")
    lake.click(("cyd", 1))
    lake.run(job)
    explained = why(lake, job, "ann")
    assert explained.is_equal is False
    assert "has other rows since batch 0" in explained.reasons[0]


def test_ten_thousand_events_fit_on_a_page(tmp_path):
    lake, job = Lake(tmp_path), totals("all", CLICKS, {"n": count()}, key="user")
    for run in range(10):
        lake.click(*(("ann", run * 1000 + minute) for minute in range(1000)))
        lake.run(job)
    explained = why(lake, job, "ann")
    assert (explained.is_equal, len(explained.events)) == (True, 10_000)
    assert len(str(explained).splitlines()) < 120
    assert "997 more like these" in str(explained)


def test_upstream_explains_the_rows_that_are_events(lake):
    producer = hours()
    consumer = totals("all", Input(producer.table(), at="window_end"), {"clicks": sum_of("clicks")}, key="user")
    lake.run(consumer)
    (upstream,) = keyfold.explain(lake.lakehouse, "all", "ann", jobs=[producer, consumer], upstream=True).upstream
    assert (upstream.job, upstream.key, upstream.is_equal) == ("hours", {"user": "ann"}, True)


def test_what_cannot_be_explained_is_refused(lake):
    with pytest.raises(NotFound, match="did you mean hours"):
        why(lake, hours(), "ann", "houres")
    with pytest.raises(NotFound, match="no row 7"):
        why(lake, hours(), "ann", row=7)
    with pytest.raises(NotFound, match="has not run"):
        why(lake, sessions("visits", CLICKS, {"n": count()}, key="user", gap="5m"), "ann")
    with pytest.raises(InvalidData, match="give a value of that type"):
        keyfold.explain(lake.lakehouse, "hours", {"user": ["ann"]}, jobs=[hours()])
