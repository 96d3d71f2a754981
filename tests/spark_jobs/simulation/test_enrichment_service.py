"""The demo service over real HTTP, and as the command that people start."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from keyfold.errors import KeyfoldError
from spark_jobs.jobs.batched_enrichment.protocol import KEY_HEADER
from spark_jobs.simulation.enrichment_service import DemoService


def post(url, events, key=None, client: Any = httpx, **headers):
    return client.post(url, json={"events": events}, headers={**({KEY_HEADER: key} if key else {}), **headers})


def numbered(count):
    return [{"n": number} for number in range(count)]


def statuses(answer):
    return [result["status"] for result in answer.json()["results"]]


def test_positions_are_answered_with_their_tile_and_other_events_with_an_echo():
    with DemoService() as demo:
        answer = post(demo.url, [{"latitude": 57.64911, "longitude": 10.40744}, {"n": 1}, {"latitude": None, "n": 2}])
    results = answer.json()["results"]
    assert [result["status"] for result in results] == [200, 200, 200]
    assert results[0]["enrichment"]["tile"] == "57.65,10.41"
    assert results[1]["enrichment"]["echo"] == {"n": 1}
    assert len({result["enrichment"]["checksum"] for result in results}) == 3


def test_a_key_that_comes_again_is_answered_as_before_without_work():
    with DemoService() as demo:
        first, second = post(demo.url, numbered(3), "a"), post(demo.url, numbered(3), "a")
        assert first.content == second.content
        assert demo.stats() == {"calls": 2, "repeated_calls": 1, "events": 3, "in_flight_most": 1}
        assert httpx.get(demo.url.replace("/enrich", "/stats")).json() == demo.stats()


def test_a_key_that_comes_again_while_the_first_call_runs_waits_for_its_answer():
    with DemoService(latency=0.2) as demo, ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: post(demo.url, numbered(3), "a").content, range(4)))
        assert len(set(answers)) == 1
        # How many were in flight at a time is the machine's: a busy one has the first answered before the last is sent.
        stats = demo.stats()
        assert (stats["calls"], stats["repeated_calls"], stats["events"]) == (4, 3, 3)


def test_a_key_with_other_events_is_refused():
    with DemoService() as demo:
        post(demo.url, numbered(3), "a")
        assert post(demo.url, numbered(4), "a").status_code == 422


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("", b"{", 400),
        ("", b"[]", 400),
        ("", b'{"events": 1}', 400),
        ("", b"[" * 100_000, 400),
        ("", json.dumps({"events": [0] * 10_001}).encode(), 400),
        ("", iter([b"{}"]), 413),  # of no length
        ("/other", b'{"events": []}', 404),
    ],
)
def test_a_call_that_is_none_is_refused(path, body, status):
    with DemoService() as demo:
        assert httpx.post(f"{demo.url}{path}", content=body).status_code == status
        assert demo.stats()["events"] == 0
        assert httpx.get(demo.url).status_code == 404
        assert post(demo.url, numbered(1)).status_code == 200


def test_events_that_are_none_are_rejected_alone():
    nowhere = {"latitude": 91, "longitude": 0}
    with DemoService() as demo:
        answer = post(demo.url, [1, None, nowhere, {"latitude": "x", "longitude": 0}, {"longitude": 1}, {}])
    assert statuses(answer) == [422, 422, 422, 422, 422, 200]


def test_with_a_token_only_those_who_bring_it_are_served():
    token = "a-secret-token"  # noqa: S105
    with DemoService(token=token) as demo:
        assert post(demo.url, numbered(1)).status_code == 401
        assert post(demo.url, numbered(1), Authorization="Bearer other").status_code == 401
        assert post(demo.url, numbered(1), Authorization=f"Bearer {token}").status_code == 200


def test_a_port_that_is_taken_is_told():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(KeyfoldError, match="give another --port"):
            DemoService(port=taken.getsockname()[1])


def test_the_command_serves_until_it_is_told_to_end():
    code = "from keyfold.cli.app import app; app()"
    command = [sys.executable, "-c", code, "demo-service", "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ}) as process:
        assert process.stdout
        url = json.loads(process.stdout.readline())["service"]
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/enrich", url)
        assert statuses(post(url, numbered(2), "a")) == [200, 200]
        process.send_signal(signal.SIGTERM)
        told, _ = process.communicate(timeout=20)
    assert process.returncode == 0
    assert json.loads(told) == {"calls": 1, "repeated_calls": 0, "events": 2, "in_flight_most": 1}
