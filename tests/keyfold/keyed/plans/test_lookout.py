"""A continuous run plans when there is reason to, and ends when told."""

import threading
import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from keyfold.keyed.plans import input_tables
from keyfold.keyed.plans.input_tables import LastPlanned, wait_for_news
from keyfold.lakehouse.positions import Position
from tests.shop import HOUR

NAME = "events.clicks"


@pytest.fixture
def stop():
    """Set after half a minute: what waits in vain is told so, and a test that hangs fails."""
    event = threading.Event()
    timer = threading.Timer(30, event.set)
    timer.start()
    yield event
    timer.cancel()


@pytest.fixture(autouse=True)
def no_second_goes_by(monkeypatch):
    monkeypatch.setattr(input_tables, "LONGEST_WAIT", HOUR)


def done(position=0, next_processing_deadline=None) -> Any:
    return SimpleNamespace(
        positions={NAME: Position(version=position, digest="")}, next_processing_deadline=next_processing_deadline
    )


def just_now(position=0):
    return LastPlanned(time.monotonic(), datetime.now(UTC), {NAME: Position(version=position, digest="")})


def entry(table, version):
    log = table / "_delta_log"
    log.mkdir(exist_ok=True)
    (log / f"{version:020d}.json").write_text("{}")


def test_a_version_that_is_there_already_is_reason_and_one_that_comes_while_it_waits(tmp_path, stop):
    entry(tmp_path, 0)
    entry(tmp_path, 1)
    assert wait_for_news({NAME: tmp_path}, done(0), stop, HOUR, just_now(0))
    threading.Timer(0.2, entry, (tmp_path, 2)).start()
    assert wait_for_news({NAME: tmp_path}, done(1), stop, timedelta(milliseconds=20), just_now(1))


def test_a_timer_of_processing_time_is_waited_for_however_seldom_the_table_is_looked_at(tmp_path, stop):
    entry(tmp_path, 0)
    due, last = datetime.now(UTC) + timedelta(seconds=0.3), just_now()
    assert wait_for_news({NAME: tmp_path}, done(0, due), stop, HOUR, last)
    assert last.now() >= due


def test_told_to_stop_it_gives_up_waiting(tmp_path):
    entry(tmp_path, 0)
    stop = threading.Event()
    threading.Timer(0.2, stop.set).start()
    assert not wait_for_news({NAME: tmp_path}, done(0), stop, HOUR, just_now())
