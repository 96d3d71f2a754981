"""Runs and state moves killed at random, one after the other on a home, while readers read its tables."""

import pytest

from tests.chaos.conftest import TRIES
from tests.chaos.launcher import Launcher
from tests.chaos.readings import kill_amid_readings
from tests.chaos.story import Homes

PROMISE = "A reader of a table sees each committed row once and for good, while runs and state moves are killed."


@pytest.mark.parametrize("kills", [3, pytest.param(20 * TRIES, marks=pytest.mark.chaos)])
def test_readers_see_each_row_once_while_runs_and_moves_are_killed(launcher: Launcher, homes: Homes, tally, kills: int):
    told = tally("runs and state moves killed at random while readers read")
    kill_amid_readings(launcher, homes, told, kills)
