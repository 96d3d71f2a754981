"""What is wrong with a home in a store is told when definitions load; a store that does not answer keeps nothing from loading."""

import logging
import os
import runpy
import sys
from datetime import timedelta

import pytest

from keyfold.dagster.resources import check_home
from keyfold.errors import KeyfoldError
from keyfold.storage.place import to_place
from tests.faulty_store import Fault, faulty_store


@pytest.fixture
def faulty(object_store, bucket, monkeypatch):
    with faulty_store(object_store.endpoint) as faulty:
        monkeypatch.setenv("AWS_ENDPOINT_URL", faulty.endpoint)
        yield faulty


@pytest.fixture
def told(caplog, monkeypatch):
    """What Dagster's log says."""
    monkeypatch.setattr(logging.getLogger("dagster"), "propagate", True)
    return lambda: [record.getMessage() for record in caplog.records]


def test_a_home_that_is_there_and_one_on_a_disk_are_passed_over_without_a_word(bucket, tmp_path, told):
    check_home(to_place(f"s3a://{bucket}/not/yet/there"))
    check_home(tmp_path)
    assert told() == []


def test_a_store_that_refuses_is_told_in_words(bucket, faulty):
    faulty.choose = lambda _: Fault.DENIED
    with pytest.raises(KeyfoldError, match="refuses these credentials"):
        check_home(to_place(f"s3a://{bucket}/home"))


@pytest.mark.parametrize("fault", [Fault.BUSY, Fault.CUT, Fault.SLOW])
def test_a_store_that_is_busy_cut_off_or_slow_is_a_warning_and_no_more(bucket, faulty, told, fault):
    faulty.delay, faulty.choose = 2.0, lambda _: fault
    check_home(to_place(f"s3a://{bucket}/home"), within=timedelta(seconds=0.5 if fault is Fault.SLOW else 60))
    (line,) = told()
    assert line.startswith(f"s3a://{bucket}/home: ")
    assert "Definitions are loaded, but runs fail" in line
    assert os.environ["AWS_SECRET_ACCESS_KEY"] not in line


def test_a_bucket_that_is_not_there_is_told_in_place_of_the_definitions(bucket, monkeypatch):
    monkeypatch.setenv("KEYFOLD_HOME", "s3a://no-such-bucket/home")
    monkeypatch.delitem(sys.modules, "dagster_project.definitions", raising=False)
    with pytest.raises(KeyfoldError, match="has no bucket no-such-bucket; create it, or name another"):
        runpy.run_module("dagster_project.definitions")
