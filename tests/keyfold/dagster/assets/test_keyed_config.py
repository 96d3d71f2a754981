"""What a run config asks of a keyed job, in the launchpad's names."""

from datetime import UTC, datetime
from typing import Any

import pytest

from keyfold.dagster.assets.keyed_config import KeyedRunConfig
from keyfold.errors import KeyfoldError
from keyfold.keyed.generation.run_mode import Replay

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_every_field_of_a_replay_reaches_its_run():
    config = KeyedRunConfig(
        mode="replay", branch="x", since="2026-01-01", until="2026-01-01T12", advance_to="2026-01-01T12"
    )
    assert config.run_mode() == Replay("x", NOON.replace(hour=0), NOON, NOON)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"mode": "replay"}, "needs a branch"),
        ({"branch": "x"}, "set mode to replay"),
        ({"mode": "replay", "branch": "x", "since": "then"}, "since is 'then'"),
    ],
)
def test_a_replay_that_is_not_told_where_to_is_refused(config: dict[str, Any], message: str):
    with pytest.raises(KeyfoldError, match=message):
        KeyedRunConfig(**config).run_mode()
