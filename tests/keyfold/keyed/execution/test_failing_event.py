"""A step or an expression that fails names the event, and what is said there lets the job go on."""

import re

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold.errors import KeyfoldError
from keyfold.keyed.execution.failing_event import failing_event
from keyfold.state.rows.keys import wanted_keys
from keyfold.stream import Stream
from tests.keyfold.keyed.toy_jobs import windows, windows_step
from tests.shop import CLICK, clicks

CLICKS = Stream("clicks", CLICK, event_time="at", event_id=("user", "at"))


def unlucky(state, events, clock):
    if (events["at"].dt.minute() == 13).any():
        raise ValueError("no luck")
    return windows_step(state, events, clock)


FAULTS = {
    "a step": {"step": unlucky},
    "an expression": {
        "stream": CLICKS.derive(
            clicks=pl.when(pl.col("at").dt.minute() == 13).then(pl.lit("x")).otherwise(pl.lit("1")).cast(pl.Int64)
        )
    },
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_event_is_named_with_the_command_that_takes_it_out(lake, fault):
    lake.click(*((f"user-{number}", number) for number in range(30)))
    with pytest.raises(KeyfoldError) as refused:
        lake.run(windows(**{"stream": CLICKS, **FAULTS[fault]}))
    told = str(refused.value)
    assert "it fails on the event of events.clicks with user=user-13, at=2026-01-01 00:13:00" in told
    named = re.search(r"keyfold quarantine clicks '(\{.*\})'", told)
    assert named is not None
    wanted = wanted_keys([named[1]], CLICKS.event_id, CLICK)
    assert wanted is not None
    assert wanted.of(clicks(("user-13", 13), ("user-13", 14), ("user-12", 13))).height == 1
    assert "and on others" not in told


def test_an_event_with_a_private_id_is_not_quoted(lake):
    private = Stream("clicks", CLICK, event_time="at", event_id=("user", "at"), private=("user",))
    lake.click(("ann", 1), ("bob", 13))
    with pytest.raises(KeyfoldError) as refused:
        lake.run(windows(stream=private, step=unlucky))
    assert "bob" not in str(refused.value)
    assert "at=2026-01-01 00:13:00" in str(refused.value)


@given(st.lists(st.booleans(), min_size=1, max_size=20))
def test_a_failing_row_is_found_wherever_it_is(bad):
    rows = pl.DataFrame({"bad": bad})
    found = failing_event(lambda some: bool(some["bad"].any()), rows)
    assert (found is None) == (not any(bad))
    if found is not None:
        assert found.row["bad"].to_list() == [True]
        assert found.has_others == (sum(bad) > 1)


def test_events_that_fail_only_together_are_none():
    assert failing_event(lambda some: some.height > 3, pl.DataFrame({"n": range(6)})) is None
