"""Groups of assets are modules of their package."""

import sys

import pytest

import assets
from assets import enrichment, fleet, joined, metrics, payments, ride_meters, rides, sales, weather
from keyfold.dagster.assets.groups import find_groups
from keyfold.errors import KeyfoldError

SHIPPED = (rides, weather, metrics, fleet, sales, payments, enrichment, joined)
JOINED = {rides: (ride_meters,)}
"""Modules that are of the group of another."""

MINE = """
from spark_jobs.streams import {stream}
GROUP, STREAM, JOBS = {group!r}, {stream}, ()
"""


@pytest.fixture
def put(tmp_path, monkeypatch):
    """Puts a module beside the shipped ones, for this test."""
    monkeypatch.setattr(assets, "__path__", [*assets.__path__, str(tmp_path)])
    written = []

    def write(name, text):
        (tmp_path / f"{name}.py").write_text(text)
        written.append(name)

    yield write
    for name in written:
        sys.modules.pop(f"assets.{name}", None)
        if hasattr(assets, name):
            delattr(assets, name)


def test_the_shipped_groups_stand_in_the_order_of_the_pages_and_are_what_their_modules_say():
    groups = find_groups()
    assert [group.name for group in groups][: len(SHIPPED)] == [module.GROUP for module in SHIPPED]
    for group, module in zip(groups, SHIPPED, strict=False):
        modules = (module, *JOINED.get(module, ()))
        declared = [one.job for part in modules for one in part.JOBS]
        assert list(group.jobs) == declared
        assert group.stream is getattr(module, "STREAM", None)
        # The landing and the ingest of the stream, whose check comes first; then each job's assets, whose rows are counted.
        assert len(group.assets) == len(declared) + (2 if group.stream else 0)
        assert len(group.checks) == len(declared) + (1 if group.stream else 0)
    assert groups[len(SHIPPED) - 1].stream is None


def test_a_file_that_is_put_there_is_a_group_and_comes_last(put):
    put("a_parking_lot", "GROUP, JOBS = 'parking', ()\n")
    put("a_helper", "LIMIT = 3\n")
    groups = [group.name for group in find_groups()]
    assert groups[: len(SHIPPED)] == [module.GROUP for module in SHIPPED]
    assert "parking" in groups[len(SHIPPED) :]


def test_a_group_that_is_not_whole_is_refused(put):
    put("parking", "GROUP = 'parking'\n")
    with pytest.raises(KeyfoldError, match=r"parking\.py has GROUP but no JOBS"):
        find_groups()


def test_a_module_with_the_group_of_another_joins_it(put):
    put("more_rides", "GROUP, JOBS, ASSETS, CHECKS = 'rides', (), ['asset'], ['check']\n")
    joined = find_groups()[0]
    assert joined.stream is rides.STREAM
    assert list(joined.jobs) == [one.job for one in (*rides.JOBS, *ride_meters.JOBS)]
    assert (joined.assets[-1], joined.checks[-1]) == ("asset", "check")
    assert len(joined.assets) == 2 + len(rides.JOBS) + len(ride_meters.JOBS) + 1


def test_two_modules_of_one_group_that_begin_with_a_stream_each_are_refused(put):
    text = "from dataclasses import replace\n" + MINE.format(group="rides", stream="WEATHER")
    put("storms", text.replace("'rides', WEATHER", "'rides', replace(WEATHER, name='storms')"))
    with pytest.raises(KeyfoldError, match=r"'rides' and a STREAM each, ride_points and storms"):
        find_groups()


def test_two_groups_that_begin_with_one_stream_are_refused(put):
    put("storms", MINE.format(group="storms", stream="WEATHER"))
    with pytest.raises(KeyfoldError, match=r"weather\.py and .*storms\.py both have the stream 'weather'; change one"):
        find_groups()


def test_a_module_that_cannot_be_imported_is_told_with_its_reason(put):
    put("parking", "import no_such_library\n")
    with pytest.raises(KeyfoldError, match=r"parking\.py cannot be imported: ModuleNotFoundError"):
        find_groups()
