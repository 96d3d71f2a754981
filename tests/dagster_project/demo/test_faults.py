"""Planted faults, as `make faults` runs them: in a process of its own, on a home and an instance of its own."""

import os
import sys

import pytest

from tests.commands import ended_well


@pytest.mark.long
@pytest.mark.slow
def test_planted_faults_turn_checks_red_hold_assets_back_and_send_alerts():
    environment = {**os.environ, "KEYFOLD_SPARK_MASTER": "local[2]"}
    told = ended_well(sys.executable, "-m", "dagster_project.demo.faults", environment=environment)
    assert told.stdout.count("  as expected") == 4
    assert "held back  event_index, ride_summaries" in told.stdout
    assert "alert      Keyfold: 2 over" in told.stdout
