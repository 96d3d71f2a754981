"""Planted faults, as `make faults` runs them: in a process of its own, on a home and an instance of its own."""

import os
import subprocess
import sys

import pytest


@pytest.mark.long
@pytest.mark.slow
def test_planted_faults_turn_checks_red_hold_assets_back_and_send_alerts():
    told = subprocess.run(
        [sys.executable, "-m", "dagster_project.demo.faults"],
        env={**os.environ, "KEYFOLD_SPARK_MASTER": "local[2]"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stdout + told.stderr
    assert told.stdout.count("  as expected") == 4
    assert "held back  event_index, ride_summaries" in told.stdout
    assert "alert      Keyfold: 2 over" in told.stdout
