"""What a mode of a run admits."""

from datetime import UTC, datetime
from functools import partial

import pytest

from keyfold.errors import KeyfoldError
from keyfold.keyed.generation.run_mode import FullRefresh, Incremental, Replay
from keyfold.state.making.seeding import SeedSource
from keyfold.times import END


def test_a_replay_of_no_time_is_refused():
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    with pytest.raises(KeyfoldError, match=r"since .* is not before until"):
        Replay("b", noon, noon)


@pytest.mark.parametrize(
    "make", [Incremental, FullRefresh, partial(Replay, "branch", None, None), partial(SeedSource, "table", {})]
)
def test_event_time_is_moved_by_hand_no_further_than_later_times_can_follow(make):
    with pytest.raises(KeyfoldError, match="never goes back"):
        make(END)
