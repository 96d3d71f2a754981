"""What the demo's report says of what a run made."""

import dagster as dg

from dagster_project.demo.report import _without_any_event
from keyfold.dagster.translator import DEFAULT
from keyfold.lakehouse import Lakehouse


def made(*, accepted: int, duplicates: int = 0, rows: int = 0) -> dict[dg.AssetKey, dict[str, int]]:
    counts = {"rows_read": 46, "accepted": accepted, "duplicates": duplicates, "quarantined": 0}
    return {DEFAULT.get_asset_key("events.ride_points"): counts | {"dagster/row_count": rows}}


def test_a_run_that_accepted_nothing_of_a_stream_without_events_has_failed(tmp_path):
    assert _without_any_event(Lakehouse(tmp_path), made(accepted=0)) == {
        "ride_points": "none of the 46 rows read was accepted"
    }


def test_files_that_were_read_before_are_no_failure(tmp_path):
    for told in (made(accepted=46, rows=46), made(accepted=0, duplicates=46, rows=46), made(accepted=0, rows=46)):
        assert _without_any_event(Lakehouse(tmp_path), told) == {}
