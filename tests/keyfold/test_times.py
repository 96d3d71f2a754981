"""Times that people write, and times as whole microseconds."""

from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold.errors import KeyfoldError
from keyfold.times import from_micros, micros, parse_time, to_micros, to_times

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "text", ["2026-01-31T12:00:00Z", "2026-01-31T12:00:00", "2026-01-31 12:00", "2026-01-31T14:00:00+02:00"]
)
def test_a_time_is_utc_unless_it_says_otherwise(text):
    assert parse_time("since", text) == NOON


def test_no_time_is_none():
    assert parse_time("since", None) is None


@pytest.mark.parametrize("text", ["", "noon", "31.01.2026", "12:00"])
def test_what_is_no_time_is_named_with_what_it_was_given_for(text):
    with pytest.raises(KeyfoldError, match=f"since is {text!r}; give an ISO 8601 time"):
        parse_time("since", text)


@given(st.datetimes(timezones=st.just(UTC)))
def test_times_come_back_from_microseconds_as_they_were(time):
    assert from_micros(micros(time)) == time
    assert to_times(to_micros(to_times(np.array([micros(time)])))).to_list() == [time]


def test_microseconds_of_a_time_count_from_1970_whatever_its_offset():
    assert micros(datetime(1970, 1, 1, 2, tzinfo=timezone(timedelta(hours=1)))) == 3_600_000_000
    assert micros(timedelta(days=-1, microseconds=1)) == -86_399_999_999
