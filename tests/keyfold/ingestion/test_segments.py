"""The index of ids: a bounded number of files that know every event, and are made anew where they are gone."""

from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest

from keyfold.ingestion import arrays, segments
from keyfold.ingestion.arrays import DamagedArrayError
from keyfold.ingestion.duplicates import Ids
from keyfold.ingestion.segments import (
    Segment,
    drop_before,
    find_standing,
    merge_segments,
    missing_segments,
    open_segment,
    rebuild_segments,
    sweep_segments,
    write_segment,
)
from keyfold.lakehouse.checksums import checksum_of
from keyfold.storage.disk_path import DiskPath
from keyfold.stream import INGESTED_AT
from keyfold.times import EPOCH
from spark_jobs.streams import METRICS

HOUR = 3_600_000_000


def made(random: np.random.Generator, rows: int, hour: int) -> Ids:
    ids = Ids(
        random.integers(0, 2**64, rows, np.uint64),
        random.integers(0, 2**64, rows, np.uint64),
        hour * HOUR + random.integers(0, HOUR, rows),
        random.integers(0, 2**64, rows, np.uint64),
    )
    return ids.take(ids.sorted_order())


def test_many_small_batches_leave_few_segments_that_know_every_event(tmp_path: DiskPath):
    random = np.random.default_rng(3)
    live: tuple[Segment, ...] = ()
    every = [made(random, 50, hour) for hour in range(300)]
    counts = list[int]()
    for ids in every:
        live = merge_segments(tmp_path, [*live, write_segment(tmp_path, ids)])
        sweep_segments(tmp_path, {segment.name for segment in live})
        counts.append(len(live))
        assert len(list(tmp_path.iterdir())) == len(live)
    # Eight of a size become one.
    assert counts[:9] == [1, 2, 3, 4, 5, 6, 7, 1, 2]
    assert max(counts) <= 16
    assert sum(segment.rows for segment in live) == 300 * 50
    assert not missing_segments(tmp_path, live)
    for ids in every[::17]:
        found = find_standing(tmp_path, live, ids, 0)
        assert found.is_known.all()
        assert found.is_equal.all()
        away = Ids(ids.first, ids.second, ids.time + 10, ids.content + np.uint64(1))
        assert not find_standing(tmp_path, live, away, 9).is_known.any()
        found = find_standing(tmp_path, live, away, 10)
        assert found.is_known.all()
        assert not found.is_equal.any()
        assert (found.time == ids.time).all()


def test_the_segments_of_many_batches_are_verified_once_and_then_forgotten(tmp_path: DiskPath, monkeypatch):
    ids, verified = made(np.random.default_rng(3), 1, 0), list[str]()
    monkeypatch.setattr(arrays, "checksum_of", lambda file: verified.append(file.name) or checksum_of(file))
    for _ in range(1_100):
        segment = write_segment(tmp_path, ids)
        verified.clear()
        for _ in range(2):
            open_segment(tmp_path, segment)
        assert verified == [str(tmp_path / segment.name)]
        (tmp_path / segment.name).unlink()
    assert arrays._verify.cache_info().currsize <= 1_024


def test_a_segment_that_is_gone_or_cut_short_is_missed_and_made_anew_from_the_event_table(tmp_path: DiskPath):
    start = datetime(2026, 1, 1, tzinfo=UTC)
    events = pl.DataFrame(
        {
            "key": [f"k{at % 7}" for at in range(1_000)],
            "timestamp": pl.Series([start + timedelta(minutes=at) for at in range(1_000)]).dt.cast_time_unit("us"),
            "value": [float(at) for at in range(1_000)],
        }
    ).with_columns(pl.col("timestamp").alias(INGESTED_AT))
    for part in events.iter_slices(300):
        part.write_delta(str(tmp_path / "events"), mode="append")
    folder = tmp_path / "ids"
    live = rebuild_segments(folder, METRICS, tmp_path / "events")
    assert sum(segment.rows for segment in live) == 1_000
    found = segments.event_ids(METRICS, events)
    assert find_standing(folder, live, found, 0).is_equal.all()
    # Of equal size, and still taken for no copies by whoever believes it.
    size = (folder / live[2].name).stat().st_size
    (folder / live[2].name).write_bytes((folder / live[2].name).read_bytes()[:128] + bytes(size - 128))
    with pytest.raises(DamagedArrayError, match=live[2].name):
        find_standing(folder, live, found, 0)
    (folder / live[0].name).write_bytes((folder / live[0].name).read_bytes()[:-1])
    (folder / live[1].name).unlink()
    assert missing_segments(folder, live) == [live[0].name, live[1].name]


def test_segments_before_a_time_are_dropped_and_those_half_over_are_shortened(tmp_path: DiskPath):
    random = np.random.default_rng(4)
    live = [write_segment(tmp_path, made(random, 200, hour)) for hour in (0, 7, 9, 50)]
    bound = 7 * HOUR + HOUR * 6 // 10
    shortened, *others = drop_before(tmp_path, live, EPOCH + timedelta(microseconds=bound))
    assert others == live[2:]
    before, after = open_segment(tmp_path, live[1]), open_segment(tmp_path, shortened)
    assert sorted(after.time) == [time for time in sorted(before.time) if time >= bound]
    assert (shortened.first, shortened.last) == (after.time.min(), live[1].last)
    assert drop_before(tmp_path, live, None) == tuple(live)
