"""The window of a stream with a `max_age`: what is too old, and how little is kept of ids, told by plain Python."""

from dataclasses import replace
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import example, given
from hypothesis import strategies as st

from keyfold.errors import Misconfigured
from keyfold.ingestion import IngestSummary, batch, ingest_journal, split_writer
from keyfold.ingestion.kafka.offsets import MESSAGE_BYTES
from keyfold.ingestion.rebuilding import rebuild
from keyfold.ingestion.segments import open_segment
from keyfold.lakehouse import Lakehouse, fail_points
from keyfold.lakehouse.log_changes import snapshot
from keyfold.maintenance.backup import back_up, restore
from keyfold.maintenance.checking import check
from keyfold.runs import ingest
from keyfold.storage.disk_path import DiskPath
from keyfold.stream import INGESTED_AT, Stream
from keyfold.times import micros
from tests.examples import examples
from tests.keyfold.ingestion.kafka.listed_topic import Topic
from tests.landings import EVENTS, START, check_counts, event, land, local_runners, stored
from tests.power_cuts import OF_INGEST, Cut, PowerCut

DAY = timedelta(days=1)
WINDOWED = replace(EVENTS, max_age=2 * DAY)

LINE = st.none() | st.tuples(
    st.sampled_from(["u", "v"]),
    st.sampled_from([1, 2, None]),
    st.sampled_from([-70, -24, 0, 1, 23, 24, 25, 30, 47, 72, 73, 120, 121]),
    st.sampled_from(["a", "a", None]),
)
"""An event's user, number, hours and note; None is a line that is no event."""

RUN = st.tuples(
    st.lists(st.lists(LINE, max_size=5), min_size=1, max_size=3),
    st.sampled_from([DAY, 2 * DAY, 3 * DAY, None]),
    st.sampled_from([DAY, 2 * DAY]),
    st.booleans(),
)
"""Files of a run; how the stream is declared then (`max_age`, `duplicate_window`); whether the index of ids is lost before."""


def told(lakehouse: Lakehouse) -> tuple[list[Any], list[str]]:
    table = DeltaTable(str(lakehouse.quarantine("clicks"))).to_pyarrow_table()
    return stored(lakehouse), table.column("reason").to_pylist()


@example(
    runs=[([[("v", 1, 0, None), ("v", 1, 23, None), ("v", 1, 23, None)]], None, DAY, False)],
    parallelism=1,
    max_bytes=1,
    rows_a_file=3,
    crashes=[],
    of_topic=False,
)
@examples(160)
@given(
    st.lists(RUN, min_size=1, max_size=5),
    st.integers(1, 4),
    st.sampled_from([1, 1 << 20]),
    st.integers(1, 3),
    st.lists(st.tuples(st.sampled_from(OF_INGEST), st.integers(1, 3)), max_size=3),
    st.booleans(),
)
def test_any_runs_splits_and_crashes_refuse_what_is_too_old_and_find_every_other_copy(
    runs: list[tuple[list[list[Any]], timedelta | None, timedelta, bool]],
    parallelism: int,
    max_bytes: int,
    rows_a_file: int,
    crashes: list[tuple[str, int]],
    of_topic: bool,
):
    accepted: list[tuple[Any, ...]] = []
    too_old = copies = least = most = number = rubbish = read = 0
    topic = Topic(2)
    with (
        TemporaryDirectory() as folder,
        patch.multiple(batch, _SPLIT_BYTES=1),
        patch.multiple(split_writer, ROWS_A_FILE=rows_a_file),
        topic.read() as source,
    ):
        lakehouse, left, spark = Lakehouse(Path(folder) / "home"), list(crashes), local_runners(parallelism)
        given, most_bytes = ((source,), max_bytes + 2 * MESSAGE_BYTES) if of_topic else ((), max_bytes)
        for files, max_age, duplicate_window, is_lost in runs:
            stream = replace(EVENTS, max_age=max_age, duplicate_window=duplicate_window)
            if is_lost:
                for path in (lakehouse.ingest("clicks") / "ids").glob("*.npy"):
                    path.unlink()
            bound = None if max_age is None or not accepted else max(line[2] for line in accepted) - max_age / DAY * 24
            for lines in files:
                # A producer sends what belongs together to one partition: so it is told which of two copies is earlier.
                place = number % 2 if of_topic else ""
                good = [(f"{line[0]}{place}", *line[1:]) for line in lines if line is not None]
                more = ["rubbish"] * (len(lines) - len(good))
                if of_topic:
                    topic.partitions[number % 2] += [*good[:1], "hole", *good[1:], *more]
                else:
                    land(lakehouse.landing("clicks") / f"{number:02}.json", [event(*line) for line in good], *more)
                number, rubbish, read = number + 1, rubbish + len(more), read + len(lines)
                for line in good:
                    if bound is not None and line[2] < bound:
                        too_old += 1
                        continue
                    hours = duplicate_window / DAY * 24
                    near = [one for one in accepted if line[:2] == one[:2] and abs(line[2] - one[2]) <= hours]
                    if not near:
                        accepted.append(line)
                        continue
                    # An event at another time has another content; one that is near two may be taken for a copy of either.
                    copies += 1
                    least += line not in near
                    most += near != [line]
            summary = ingest_after_crashes(
                left, lakehouse, stream, *given, max_bytes_per_batch=most_bytes, runners=spark
            )
            check_counts(lakehouse, summary)
            assert told(lakehouse)[0] == sorted(accepted, key=repr)
            assert (summary.totals.files, summary.totals.rows_read) == (0 if of_topic else number, read)
            assert summary.totals.quarantined + summary.totals.duplicates == too_old + copies + rubbish
            assert least <= summary.totals.quarantined - too_old - rubbish <= most
            check_index(lakehouse, bound, duplicate_window)
        for table in (lakehouse.events("clicks"), lakehouse.ingest("clicks") / "ids"):
            assert not list(table.glob("*.places.npy"))
        check_arrivals(lakehouse)


def check_index(lakehouse: Lakehouse, bound: float | None, duplicate_window: timedelta) -> None:
    """No segment lies before what the newest batch needed, nor more than half of one."""
    done = ingest_journal(lakehouse, "clicks").last_done()
    assert done is not None
    since = None if bound is None else START + timedelta(hours=bound) - duplicate_window
    assert done.ids_since == since
    folder = lakehouse.ingest("clicks") / "ids"
    # What a crash left goes with the next batch.
    assert {path.name for path in folder.glob("*.npy")} >= {one.name for one in done.segments}
    for one in done.segments:
        times = open_segment(folder, one).time
        assert (one.first, one.last) == (times.min(), times.max())
        assert since is None or (one.first + one.last) // 2 >= micros(since)


def lakehouse_with(tmp_path: DiskPath, *hours: float, stream: Stream = WINDOWED) -> Lakehouse:
    """One run for each of some events, of other users each."""
    lakehouse = Lakehouse(tmp_path / "home")
    for number, hour in enumerate(hours):
        land(lakehouse.landing("clicks") / f"{number:02}.json", [event(f"u{number}", 1, hour)])
        ingest(lakehouse, stream, runners=local_runners(1))
    return lakehouse


def test_an_event_at_the_bound_is_accepted_and_one_before_it_says_why_it_is_not(tmp_path: DiskPath):
    lakehouse = lakehouse_with(tmp_path, 100, 52, 51.5)
    events, reasons = told(lakehouse)
    assert [hours for _, _, hours, _ in events] == [100, 52]
    assert reasons == ["at is too old, before 2016-06-23T21:00:00.000000Z (max_age): 2016-06-23T20:30:00.000000Z"]


def test_the_index_stays_as_small_as_the_window(tmp_path: DiskPath):
    lakehouse = lakehouse_with(tmp_path, *range(0, 24 * 15, 12))
    done = ingest_journal(lakehouse, "clicks").last_done()
    # Two days and one for copies, at two events a day, and as much again in segments that are half over.
    assert done
    assert sum(one.rows for one in done.segments) <= 2 * (2 + 1) * 2 + 1
    assert not check(lakehouse)
    restored = Lakehouse(tmp_path / "restored")
    back_up(lakehouse, tmp_path / "backups")
    restore(tmp_path / "backups", restored)
    land(restored.landing("clicks") / "again.json", [event("u0", 1, 0), event("u28", 1, 28 * 12)])
    summary = ingest(restored, WINDOWED, runners=local_runners(1))
    assert (summary.accepted, summary.quarantined, summary.duplicates) == (0, 1, 1)
    assert not summary.warnings


def test_a_rebuild_takes_events_of_any_age_from_all_its_folders(tmp_path: DiskPath):
    lakehouse = lakehouse_with(tmp_path, 0, 500)
    other = tmp_path / "other"
    land(other / "a.json", [event("v", 1, 0), event("u1", 1, 500)])
    assert ingest(lakehouse, WINDOWED, other, runners=local_runners(1)).quarantined == 1
    summary = rebuild(lakehouse, WINDOWED, runners=local_runners(1))
    assert (summary.accepted, summary.quarantined, summary.duplicates) == (3, 0, 1)


@pytest.mark.parametrize("max_age", [timedelta(0), DAY / 2])
def test_a_window_in_which_an_event_of_now_may_be_too_old_is_refused(max_age: timedelta):
    with pytest.raises(
        Misconfigured, match="would make all events of now too old; give a longer max_age, or a shorter"
    ):
        replace(EVENTS, max_age=max_age)


def test_a_stream_whose_arrivals_stand_in_for_times_has_no_window():
    with pytest.raises(Misconfigured, match="leave one of them out"):
        replace(EVENTS, max_age=DAY, missing_time="arrival")


def test_a_stream_that_goes_by_arrival_keeps_ids_of_its_window(tmp_path: DiskPath):
    stream = replace(WINDOWED, event_time=INGESTED_AT)
    lakehouse = lakehouse_with(tmp_path, 0, 500, stream=stream)
    done = ingest_journal(lakehouse, "clicks").last_done()
    assert done
    assert done.ids_since
    assert done.totals.accepted == 2


def ingest_after_crashes(left: list[tuple[str, int]], *given: Any, **named: Any) -> IngestSummary:
    """Ingest to the end, after runs that crash: as long as one comes to its point, of those that are left."""
    while left:
        with patch.object(fail_points, "act", Cut(*left.pop())):
            try:
                ingest(*given, **named)
            except PowerCut:
                continue
            break
    return ingest(*given, **named)


def check_arrivals(lakehouse: Lakehouse) -> None:
    """Each event arrived when its batch was planned, by the rows and by the log's statistics, from which jobs plan."""
    journal, events = ingest_journal(lakehouse, "clicks"), lakehouse.events("clicks")
    stated = {file.path: (file.first, file.last) for file in snapshot(events, INGESTED_AT).files}
    last = journal.last_done()
    for number in range(last.batch + 1 if last else 0):
        plan, done = journal.plan(number), journal.done(number)
        assert plan is not None
        assert done is not None
        for file in done.tables["events"]:
            arrived = pq.read_table(BytesIO((events / file.path).read_bytes()), columns=[INGESTED_AT]).column(0)
            assert arrived.unique().to_pylist() == [plan.planned_at]
            assert stated.pop(file.path) == (micros(plan.planned_at),) * 2
    assert not stated
