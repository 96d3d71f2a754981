"""One record names the live generation of each job: jobs that go live at once do not lose each other."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from keyfold.errors import Locked
from keyfold.keyed.generation.generations import Generation
from keyfold.keyed.generation.going_live import go_live
from keyfold.keyed.generation.live_record import Entry, changing_live, live_entry, live_generation_name
from keyfold.lakehouse import Lakehouse
from tests.made_generations import put_generation


@pytest.fixture(params=["disk", "store"])
def lakehouse(request, tmp_path):
    return Lakehouse(f"s3a://{request.getfixturevalue('bucket')}/home" if request.param == "store" else tmp_path)


def test_jobs_that_go_live_at_once_are_all_live(lakehouse):
    jobs = [f"job_{number}" for number in range(8)]
    made = [put_generation(lakehouse, job, live=False, table_ids={}) for job in jobs]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda one: go_live(lakehouse, one), made))
    assert [live_generation_name(lakehouse, job) for job in jobs] == ["generation-0001"] * 8


def test_a_generation_replaces_only_what_was_live_when_it_was_made(lakehouse):
    put_generation(lakehouse, "rides")
    before = live_entry(lakehouse, "rides")
    second, third = (
        put_generation(lakehouse, "rides", f"generation-{number:04}", live=False, table_ids={}) for number in (2, 3)
    )
    other = put_generation(lakehouse, "sales", live=False, table_ids={})
    go_live(lakehouse, Generation(third.folder, third.record, (before,)))
    assert live_entry(lakehouse, "rides") == Entry(generation="generation-0003", replaces="generation-0001")
    with pytest.raises(Locked, match="job rides: another run has made a generation live"):
        go_live(lakehouse, other, Generation(second.folder, second.record, (before,)))
    assert (live_generation_name(lakehouse, "rides"), live_entry(lakehouse, "sales")) == ("generation-0003", None)


def test_a_change_that_fails_changes_nothing_and_one_written_by_hand_is_taken(lakehouse):
    (lakehouse.home).mkdir(parents=True, exist_ok=True)
    (lakehouse.home / "live.json").write_text('{"rides": {"generation": "generation-0001"}}\n')
    with suppress(KeyError), changing_live(lakehouse) as entries:
        entries["rides"] = Entry(generation="generation-0002")
        raise KeyError
    assert live_generation_name(lakehouse, "rides") == "generation-0001"
