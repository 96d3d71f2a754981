"""What a run config asks of a keyed job, in the launchpad's names."""

from datetime import UTC, datetime
from typing import Any

import pytest

from keyfold.dagster.assets.keyed_config import KeyedRunConfig
from keyfold.errors import KeyfoldError
from keyfold.keyed.generation.run_mode import FullRefresh, Incremental


def test_every_field_reaches_its_run():
    config = KeyedRunConfig(mode="full_refresh", advance_to="2026-01-01T13:00:00+01:00")
    assert config.run_mode() == FullRefresh(datetime(2026, 1, 1, 12, tzinfo=UTC))
    assert KeyedRunConfig().run_mode() == Incremental()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"advance_to": "noon"}, "advance_to is 'noon'; give an ISO 8601 time"),
        ({"advance_to": "9999-12-31T23:59:59Z"}, "advance_to is 9999-12-31T23:59:59.000000Z: .*9000-01-01"),
    ],
)
def test_what_does_not_go_together_is_refused(config: dict[str, Any], message: str):
    with pytest.raises(KeyfoldError, match=message):
        KeyedRunConfig(**config).run_mode()
