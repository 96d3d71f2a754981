"""The enrichment service down for long, slow or hostile; a step that raises."""

import time
from collections import Counter

import pytest

from spark_jobs.jobs.batched_enrichment.job import DEAD_LETTERS, NAME
from spark_jobs.streams import RIDE_POINTS
from tests.chaos.conftest import in_short
from tests.chaos.launcher import Launcher
from tests.chaos.story import TO_THE_END, WORK, Homes, expected, found
from tests.hostile_server import ACTS, HostileServer
from tests.spark_jobs.jobs.batched_enrichment.scripted_service import play_points, points

PROMISE = "A service may be away, slow or hostile: each event has one outcome, in bounded time."

IDS = list(RIDE_POINTS.event_id)
SECONDS = 0.5
"""That one call may take."""

FEW = ["sends endless headers", "redirects to another host"]


def enriched(call: dict) -> dict:
    return {"results": [{"status": 200, "enrichment": {"n": event["point_idx"]}} for event in call["events"]]}


@pytest.mark.parametrize("act", in_short(FEW, ACTS))
def test_each_event_has_one_outcome_whatever_the_service_does(tally, act: str):
    told, sent = tally(f"the enrichment service {act}"), points(40)
    for times in (1, 50):  # once, and for longer than it is asked
        with HostileServer(enriched, [act] * times) as server:
            began = time.monotonic()
            harness = play_points(server.url, sent, timeout=f"{SECONDS}s", max_attempts=3, max_size=20, shards=1)
            assert time.monotonic() - began < 60
            assert server.trapped == 0
        written, dead = harness.written[NAME], harness.written[DEAD_LETTERS]
        there = Counter(written.select(IDS).rows()) + Counter(dead.select(IDS).rows())
        assert dead["answer"].null_count() == 0
        told.count(Counter(sent.select(IDS).rows()), there, f"{act}, {times} times")


@pytest.mark.parametrize("moment", in_short(["in a later batch"], ["in its first batch", "in a later batch"]))
def test_a_step_that_raises_writes_nothing_and_goes_on_once_it_is_mended(
    launcher: Launcher, homes: Homes, tally, moment: str
):
    told = tally("a step raises")
    home = homes.copy(homes.fresh if moment == "in its first batch" else homes.running)
    code, run = launcher.run(home, *WORK, hooks=["tests.chaos.hooks:steps_raise"])
    assert code == 1
    assert "step failed: job totals, key group " in run.said
    assert "a fault of a step" in run.said
    assert "Traceback" not in run.said
    code, run = launcher.run(home, *TO_THE_END)
    assert code == 0, run.said
    told.count(expected(home), found(home), moment)
