"""What people ask a run for in Dagster's launchpad is parsed once."""

from datetime import UTC, datetime
from functools import partial

import pytest

from keyfold.errors import KeyfoldError
from keyfold.keyed.generation.run_mode import FullRefresh, Incremental, Replay, parse_run_mode
from keyfold.state.making.bootstrap import Bootstrap
from keyfold.times import END

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("mode", "given", "parsed"),
    [
        ("incremental", {}, Incremental()),
        ("incremental", {"advance_to": "2026-01-31T12:00:00Z"}, Incremental(NOON)),
        ("full_refresh", {"advance_to": "2026-01-31T13:00:00+01:00"}, FullRefresh(NOON)),
        ("replay", {"branch": "what-if"}, Replay("what-if")),
        ("replay", {"branch": "b", "until": "2026-01-31T12:00"}, Replay("b", until=NOON)),
        ("replay", {"branch": "b", "since": "2026-01-31T12", "advance_to": "2026-01-31T12"}, Replay("b", NOON, None, NOON)),
    ],
)  # fmt: skip
def test_texts_become_the_value_of_a_mode(mode, given, parsed):
    assert parse_run_mode(mode, **given) == parsed


@pytest.mark.parametrize(
    ("mode", "given", "told"),
    [
        ("incremental", {"since": "2026-01-31"}, "since says what to replay: set mode to replay, or leave it out"),
        ("incremental", {"branch": "b", "until": "x"}, "branch, until say what to replay: .*, or leave them out"),
        ("full_refresh", {"branch": "b"}, "branch says what to replay, .* a full refresh replaces them: give one of the two"),
        ("replay", {}, "a replay needs a branch to write to: give it a name in branch"),
        ("replay", {"branch": ""}, "a replay needs a branch"),
        ("replay", {"branch": "b", "since": "yesterday"}, "since is 'yesterday'; give an ISO 8601 time"),
        ("replay", {"branch": "b", "since": "2026-02-01", "until": "2026-02-01"}, "since .* is not before until"),
        ("incremental", {"advance_to": "noon"}, "advance_to is 'noon'"),
        ("incremental", {"advance_to": "9999-12-31T23:59:59Z"}, "advance_to is 9999-12-31T23:59:59.000000Z: .*9000-01-01"),
        ("full_refresh", {"advance_to": "9999-12-31T23:59:59-14:00"}, "advance_to is 9999-12-31T23:59:59.999999Z"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_said_with_the_names_that_people_gave(mode, given, told):
    with pytest.raises(KeyfoldError, match=told):
        parse_run_mode(mode, **given)


@pytest.mark.parametrize(
    "make", [Incremental, FullRefresh, partial(Replay, "branch", None, None), partial(Bootstrap, "table", {})]
)
def test_event_time_is_moved_by_hand_no_further_than_later_times_can_follow(make):
    with pytest.raises(KeyfoldError, match="never goes back"):
        make(END)
