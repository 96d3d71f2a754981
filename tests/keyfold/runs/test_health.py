"""A continuous process tells on loopback what its journal says."""

import socket
import urllib.error
import urllib.request
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from keyfold.errors import KeyfoldError
from keyfold.keyed.job_run import run_job
from keyfold.lakehouse import Lakehouse
from keyfold.runs import health, metrics_server
from keyfold.runs.health import Health, health_of_job, health_of_stream
from keyfold.runs.metrics import served
from tests.keyfold.state.job_histories import History, put
from tests.lake import LOCAL
from tests.landings import EVENTS, accepted, event, going_on, land
from tests.waiting import wait_until

RIDES = Health("rides", "job", "running", "", datetime.now(UTC), pending=timedelta(seconds=3))


@pytest.fixture
def port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def ask(port, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def values(text):
    """Metrics by name and labels, as Prometheus reads them."""
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            found[name] = float(value)
    return found


def test_a_job_tells_of_its_events_rows_watermark_and_last_batch(tmp_path, port, without_spark):
    lakehouse, job = Lakehouse(tmp_path), History("anomaly_predictions", {"order": "arrival", "emit": "all"}).job()
    part = History("anomaly_predictions").parts()[0]
    with served(str(port), lambda: health_of_job(lakehouse, job.name)):
        assert ask(port, "/health") == (200, "ok\n")
        assert values(ask(port, "/metrics")[1])['keyfold_batches_total{keyed_job="anomaly_predictions"}'] == 0
        put(lakehouse, job.only_input.stream.name, part)
        summary = run_job(lakehouse, job, runners=LOCAL)
        found = values(ask(port, "/metrics")[1])
        assert ask(port, "/nothing")[0] == 404
    labels = 'keyed_job="anomaly_predictions"'
    assert found[f"keyfold_events_total{{{labels}}}"] == part.height
    assert found[f'keyfold_rows_total{{{labels},table="anomaly_predictions"}}'] == part.height
    assert found[f'keyfold_rows_total{{{labels},table="late.anomaly_predictions"}}'] == 0
    assert summary.watermark is not None
    assert found[f"keyfold_watermark_timestamp_seconds{{{labels}}}"] == summary.watermark.timestamp()
    assert found[f"keyfold_batches_total{{{labels}}}"] == 1
    assert 0 <= found[f"keyfold_silent_seconds{{{labels}}}"] < 600


def test_ingest_tells_what_became_of_rows_while_it_goes_on(tmp_path, port):
    lakehouse, landing = Lakehouse(tmp_path / "home"), tmp_path / "landing"
    land(landing / "a.ndjson", [event(seq=1), event(seq=1), event(seq=2)], "no json")
    with going_on(lakehouse, landing), served(str(port), lambda: health_of_stream(lakehouse, EVENTS.name)):
        wait_until(lambda: accepted(lakehouse) == 2)
        found = values(ask(port, "/metrics")[1])
    kinds = {"accepted": 2, "quarantined": 1, "duplicate": 1}
    for kind, count in kinds.items():
        assert found[f'keyfold_read_rows_total{{result="{kind}",stream="clicks"}}'] == count


def test_a_first_batch_that_stays_planned_and_not_done_is_told_as_stalled(tmp_path, port, without_spark, monkeypatch):
    lakehouse, job = Lakehouse(tmp_path), History("anomaly_predictions", {"order": "arrival"}).job()
    put(lakehouse, job.only_input.stream.name, History("anomaly_predictions").parts()[0])
    with pytest.raises(KeyfoldError, match="the model is broken"):
        run_job(lakehouse, replace(job, step=broken), runners=LOCAL)
    with served(str(port), lambda: health_of_job(lakehouse, job.name)):
        assert ask(port, "/health") == (200, "ok\n")
        monkeypatch.setattr(health, "STALLED", timedelta(seconds=-1))
        status, told = ask(port, "/health")
    assert status == 503
    assert told.startswith("interrupted: a run ended within a batch planned 0:00:0")


def broken(*_):
    raise ValueError("the model is broken")


def test_an_address_that_is_none_and_one_that_is_taken_are_told_and_without_one_nothing_listens():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = taken.getsockname()[1]
        refused = pytest.raises(KeyfoldError, match=f"cannot be served at {number}: .*in use")
        with refused, served(str(number), lambda: RIDES):
            pass
    for text in ("", "here", "localhost:9100", "127.0.0.1", "127.0.0.1:", "0.0.0.0:99999", "[::1]:9100"):
        with pytest.raises(KeyfoldError, match="metrics cannot be served at"), served(text, lambda: RIDES):
            pass
    with served(None, lambda: RIDES):
        pass


def test_an_address_that_the_operator_gives_is_reached_by_any_name(port):
    with served(f"0.0.0.0:{port}", lambda: RIDES):
        answer = httpx.get(f"http://127.0.0.1:{port}/metrics", headers={"Host": "metrics.example"}, trust_env=False)
    assert values(answer.text) == {
        'keyfold_batches_total{keyed_job="rides"}': 0,
        'keyfold_pending_seconds{keyed_job="rides"}': 3,
    }


def test_a_journal_that_cannot_be_read_is_told_to_the_caller(port):
    def unreadable():
        raise KeyfoldError("jobs/rides/journal is damaged")

    with served(str(port), unreadable):
        assert [ask(port, path) for path in ("/metrics", "/health")] == [(500, "jobs/rides/journal is damaged\n")] * 2


@pytest.mark.parametrize("path", ["/health", "/metrics", "/"])
@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:{port}", "127.0.0.1.evil.example", "", None, "127.0.0.1\r\nHost: evil.example"],
)
def test_a_caller_that_names_another_host_than_loopback_learns_nothing(port, host, path):
    line = "" if host is None else f"Host: {host.format(port=port)}\r\n"
    with (
        served(str(port), lambda: RIDES),
        socket.create_connection(("127.0.0.1", port)) as caller,
    ):
        caller.settimeout(30)
        caller.sendall(f"GET {path} HTTP/1.1\r\n{line}\r\n".encode())
        answer = b"".join(iter(lambda: caller.recv(2**16), b""))
    assert answer.startswith(b"HTTP/1.0 403 ")
    assert b"rides" not in answer


@pytest.mark.parametrize("host", ["localhost:{port}", "127.0.0.1", "LOCALHOST", "[::1]:{port}"])
def test_loopback_has_several_names(port, host):
    with served(str(port), lambda: RIDES):
        url, headers = f"http://127.0.0.1:{port}/health", {"Host": host.format(port=port)}
        assert httpx.get(url, headers=headers, trust_env=False).status_code == 200


def test_callers_that_send_a_request_byte_by_byte_are_cut_off_and_hold_up_nobody(port, monkeypatch):
    monkeypatch.setattr(metrics_server, "EXCHANGE_SECONDS", 0.2)
    with served(str(port), lambda: RIDES), ExitStack() as open_callers:
        slow = [open_callers.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(20)]
        wait_until(lambda: sum(map(is_cut_off, slow)) == len(slow))
        wait_until(lambda: ask(port, "/health")[0] == 200)


def is_cut_off(caller):
    """Send one more byte of the trickle, and see whether the server has hung up."""
    try:
        caller.send(b"x")
        return caller.recv(1, socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
