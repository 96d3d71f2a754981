"""A job whose table goes to a topic, killed between send and commit and at random: its process dies, no exception is raised."""

import random
import signal
import time
from collections import Counter

import pytest

from keyfold.lakehouse import Lakehouse, fail_points
from tests.chaos.conftest import TRIES
from tests.chaos.launcher import Launcher
from tests.chaos.story import INGEST, TO_THE_END, WINDOWS, Homes
from tests.kafka_broker import Broker, broker_or_skip
from tests.keyfold.sinks.published import messages, rows_of, table_rows, to

PROMISE = "A table that goes to a topic: readers of committed messages find each row once."

pytestmark = pytest.mark.chaos

KEPT = ["tests.chaos.hooks:keep_records"]

POINTS = [point for point in fail_points.POINTS if point.startswith("sink")]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory):
    with broker_or_skip(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.mark.parametrize("point", [*POINTS, "a random moment"])
def test_a_process_that_sends_rows_is_killed(launcher: Launcher, homes: Homes, tally, broker: Broker, point: str):
    told, moments = tally(f"a process that sends rows is killed at {point!r}"), random.Random(point)
    whole = 0.0
    for index in range(TRIES):
        home, topic = homes.copy(homes.fresh), broker.topic()
        environment = to(broker, topic)
        if not whole:
            began = time.monotonic()
            launcher.run(homes.copy(homes.fresh), *TO_THE_END, environment=to(broker, broker.topic()), hooks=KEPT)
            whole = time.monotonic() - began
        if point in POINTS:
            run = launcher.start(
                home,
                *TO_THE_END,
                environment=environment | {fail_points.VARIABLE: f"{point}#{1 + index % 2}"},
                hooks=KEPT,
            )
        else:
            run = launcher.start(home, *TO_THE_END, environment=environment, hooks=KEPT)
            time.sleep(moments.uniform(whole / 3, whole))
            run.signal(signal.SIGKILL)
        code = run.wait()
        code_after, run = launcher.run(home, *TO_THE_END, environment=environment, hooks=KEPT)
        assert code_after == 0, run.said
        # Nothing is left to send, and what was sent is not sent again.
        again, run = launcher.run(home, INGEST, WINDOWS, environment=environment, hooks=KEPT)
        assert again == 0, run.said
        rows = table_rows(Lakehouse(home))
        assert rows
        told.count(
            Counter(rows), Counter(rows_of(messages(broker, topic))), f"try {index}", came=code == -signal.SIGKILL
        )
