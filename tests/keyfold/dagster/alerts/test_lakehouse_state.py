"""Quarantines that grow, disks that fill, servers that ended, and settings."""

import os
from types import SimpleNamespace

import pytest

from keyfold.dagster.alerts.lakehouse_state import count_rows, disks, quarantine
from keyfold.dagster.alerts.servers import REPORTED_SECONDS, Ended, ServerReport, ended_servers
from keyfold.dagster.alerts.settings import AlertSettings
from keyfold.errors import KeyfoldError
from keyfold.ingestion import ingest_journal
from keyfold.lakehouse import Lakehouse


@pytest.mark.parametrize(
    ("before", "now", "raised"),
    [
        ((100, 0), (190, 10), True),
        ((100, 50), (190, 50), False),
        ((100, 50), (100, 51), True),
        ((100, 50), (196, 54), False),
        ((100, 50), (100, 50), None),
        ((100, 50), (90, 0), None),
        (None, (0, 1_000), None),
    ],
    ids=["a tenth", "none", "a whole file", "four in a hundred", "nothing new", "rebuilt", "first look"],
)
def test_a_quarantine_grows_by_its_share_of_the_rows_since_the_last_look(before, now, raised):
    events = list(quarantine({"sales": before} if before else {}, {"sales": now}, percent=5))
    assert [(name, condition is not None) for name, condition in events] == (
        [] if raised is None else [("quarantine of sales", raised)]
    )


def test_a_journal_that_cannot_be_read_is_reported_and_the_other_streams_are_counted(tmp_path):
    lakehouse = Lakehouse(tmp_path)
    assert count_rows(lakehouse, ["sales"]) == ({}, [("journal of stream sales", None)])
    record = ingest_journal(lakehouse, "sales")._path(0, "done")
    (lakehouse.ingest("sales") / "journal").mkdir(parents=True)
    record.write_text("{")
    counts, events = count_rows(lakehouse, ["sales", "rides"])
    assert counts == {}
    assert [(name, condition is not None) for name, condition in events] == [
        ("journal of stream sales", True),
        ("journal of stream rides", False),
    ]


def test_a_disk_is_reported_below_the_threshold_and_until_a_fifth_more_is_free(tmp_path, monkeypatch):
    free = {"space": 50, "inodes": 50}
    monkeypatch.setattr(
        os,
        "statvfs",
        lambda _: SimpleNamespace(f_bavail=free["space"], f_blocks=100, f_favail=free["inodes"], f_files=100),
    )
    folders = {"KEYFOLD_HOME": tmp_path / "not made yet", "DAGSTER_HOME": tmp_path}
    found = lambda raised=(): [one.what for one in disks(folders, 10, dict.fromkeys(raised))]  # noqa: E731 # pyright: ignore[reportArgumentType]
    assert found() == []
    free["space"] = 9
    (what,) = found()
    assert what.startswith(f"only 9.0 % of the space of {tmp_path / 'not made yet'} is free")
    free["space"] = 11
    assert found() == []
    assert len(found(["disk of KEYFOLD_HOME"])) == 1
    free.update(space=50, inodes=1)
    assert "inodes" in found()[0]


def test_a_server_that_was_started_again_is_a_warning_for_a_while_and_one_that_was_not_an_error(tmp_path):
    report = ServerReport(tmp_path)
    report.add("the warm Spark", Ended(1_000.0, -9, "restarted"))
    ended = ServerReport(tmp_path).read()
    (one,) = ended_servers(ended, 1_001.0)
    assert (one.name, one.severity) == ("server the warm Spark", "warning")
    assert one.what == "the warm Spark was ended by signal 9, and was restarted"
    assert list(ended_servers(ended, 1_000.0 + REPORTED_SECONDS)) == []
    report.add("the warm Spark", Ended(2_000.0, 1, "left"))
    report.add("the daemon", Ended(2_000.0, 1, "ended all"))
    assert {one.severity for one in ended_servers(ServerReport(tmp_path).read(), 9_000.0)} == {"error"}
    ServerReport(tmp_path).begin()
    assert ServerReport(tmp_path).read() == {}


@pytest.mark.parametrize(
    "environment",
    [
        {"KEYFOLD_ALERTS": "SECRET"},
        {"KEYFOLD_ALERTS": "slack://a/b/c ://SECRET"},
        {"KEYFOLD_ALERT_WEBHOOK": "ftp://SECRET"},
        {"KEYFOLD_ALERT_DISK_PERCENT": "ten"},
        {"KEYFOLD_ALERT_DISK_PERCENT": "nan"},
        {"KEYFOLD_ALERT_QUARANTINE_PERCENT": "0"},
    ],
)
def test_a_wrong_setting_is_named_without_the_address(environment):
    with pytest.raises(KeyfoldError, match=next(iter(environment))) as raised:
        AlertSettings.from_environment(environment)
    assert "SECRET" not in str(raised.value)


def test_destinations_are_named_by_their_services_and_show_no_address():
    given = {"KEYFOLD_ALERTS": "slack://SECRET pagerduty://SECRET\nslack://SECRET", "KEYFOLD_ALERT_WEBHOOK": "http://h"}
    settings = AlertSettings.from_environment(given)
    assert [to.name for to in settings.destinations] == ["webhook", "slack 1", "pagerduty 1", "slack 2"]
    assert "SECRET" not in repr(settings)
