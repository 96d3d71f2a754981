"""Ingest that goes on takes what lands, looks at little, and ends when told."""

import os
import time
from datetime import timedelta

import polars as pl
import pytest

from keyfold.errors import KeyfoldError
from keyfold.runs import ingest, source_changes
from tests.lake import LOCAL
from tests.landings import AT_ONCE, EVENTS, accepted, event, going_on, land
from tests.waiting import wait_until


def test_files_are_read_as_they_land_in_subfolders_that_are_new_too(lakehouse, landing):
    land(landing / "a.ndjson", [event(seq=1)])
    with going_on(lakehouse, landing) as ended:
        wait_until(lambda: accepted(lakehouse) == 1)
        land(landing / "b.ndjson", [event(seq=2), event(seq=1)])
        wait_until(lambda: accepted(lakehouse) == 2)
        land(landing / "deep" / "er" / "c.ndjson", [event(seq=3)])
        wait_until(lambda: accepted(lakehouse) == 3)
    summary = ended["summary"]
    assert (summary.files, summary.accepted, summary.duplicates) == (3, 3, 1)
    assert summary.totals.accepted == 3
    assert sorted(pl.read_delta(str(lakehouse.events("clicks")))["seq"]) == [1, 2, 3]


def test_nobody_else_ingests_the_stream_meanwhile_and_the_next_run_goes_on_where_it_ended(lakehouse, landing):
    land(landing / "a.ndjson", [event(seq=1)])
    with going_on(lakehouse, landing):
        wait_until(lambda: accepted(lakehouse) == 1)
        with pytest.raises(KeyfoldError, match="already running"):
            ingest(lakehouse, EVENTS, landing, settle=AT_ONCE, runners=LOCAL)
    land(landing / "b.ndjson", [event(seq=2)])
    assert ingest(lakehouse, EVENTS, landing, settle=AT_ONCE, runners=LOCAL).accepted == 1


def test_a_folder_as_it_was_makes_no_run_and_one_that_changed_in_the_tick_of_the_look_makes_one_more(landing):
    look = source_changes._FolderLook(landing)
    os.utime(landing, ns=(0, time.time_ns() - 10**9))
    look.remember()
    assert not look.shows_news()
    land(landing / "a.ndjson", [event()])
    assert look.shows_news()
    # What lands right after the look may leave the same time of change: once that is over, it shows news again.
    look.remember()
    wait_until(look.shows_news)
    look.remember()
    assert not look.shows_news()


def test_what_is_not_whole_yet_is_looked_at_again_after_the_settling_time(lakehouse, landing, monkeypatch):
    monkeypatch.setattr(source_changes, "_FULL_LOOK", 3600.0)
    with going_on(lakehouse, landing, settle=timedelta(seconds=1)):
        land(landing / "a.ndjson", [event(seq=1)])
        wait_until(lambda: accepted(lakehouse) == 1)


def test_a_file_that_is_written_over_is_told_though_its_folder_looks_the_same(lakehouse, landing, monkeypatch):
    monkeypatch.setattr(source_changes, "_FULL_LOOK", 0.3)
    path = land(landing / "a.ndjson", [event(seq=1)])
    with going_on(lakehouse, landing) as ended:
        wait_until(lambda: accepted(lakehouse) == 1)
        land(path, [event(seq=1), event(seq=2)])
        time.sleep(1)
    assert "grew from" in ended["summary"].changed["a.ndjson"]
