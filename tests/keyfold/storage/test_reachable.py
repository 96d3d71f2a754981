"""What is wrong with a bucket is told at once, in words, and without a secret; a store without conditions is refused."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from keyfold.errors import KeyfoldError, Misconfigured
from keyfold.storage import reachable
from keyfold.storage.bucket_path import BucketPath
from keyfold.storage.reachable import check_conditions, check_reachable
from keyfold.storage.store_failures import NotAnsweringError
from tests.faulty_store import Fault, faulty_store
from tests.kafka_certificates import make_certificates, why_no_certificates
from tests.object_store import ObjectStore


def test_a_bucket_that_answers_and_a_folder_of_a_disk_are_well(bucket, tmp_path):
    check_reachable(f"s3a://{bucket}/not/yet/there")
    check_reachable(BucketPath(f"s3://{bucket}"))
    check_reachable(str(tmp_path))
    check_reachable(tmp_path)


@pytest.mark.parametrize(
    ("place", "fault", "told"),
    [
        ("no-such-bucket/home", None, r"http://127.0.0.1:\d+ has no bucket no-such-bucket; create it"),
        ("lake/home", "away", r"s3a://lake/home: http://127.0.0.1:9 does not answer .*AWS_ENDPOINT_URL"),
        # A port like 40117 was taken for a 401.
        ("lake/home-401/of-403", "away", "does not answer"),
        ("lake/home", Fault.SKEWED, "clock differs too much .* set the clock"),
        ("lake/home", Fault.DENIED, "refuses these credentials"),
    ],
)
def test_what_is_wrong_with_a_store_is_told_with_what_to_do(
    bucket, object_store: ObjectStore, monkeypatch, place, fault, told
):
    with faulty_store(object_store.endpoint) as faulty:
        environment = object_store.environment("http://127.0.0.1:9" if fault == "away" else faulty.endpoint)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        faulty.choose = lambda _: fault if isinstance(fault, Fault) else None
        with pytest.raises(KeyfoldError, match=told) as refused:
            check_reachable(f"s3a://{place}")
    assert isinstance(refused.value, NotAnsweringError) == (fault == "away")
    assert environment["AWS_SECRET_ACCESS_KEY"] not in str(refused.value)


def test_without_credentials_it_says_so(bucket, object_store: ObjectStore, monkeypatch):
    with faulty_store(object_store.endpoint) as faulty:
        monkeypatch.setenv("AWS_ENDPOINT_URL", faulty.endpoint)
        faulty.choose = lambda _: Fault.DENIED
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.delenv(name)
        # In place of a machine's own role, which would be asked for over the network.
        monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
        with pytest.raises(
            KeyfoldError, match="no credentials: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set"
        ):
            check_reachable(f"s3a://{bucket}/home")


class _Empty(BaseHTTPRequestHandler):
    """An answer of a bucket that has nothing."""

    def do_GET(self) -> None:
        body = b"<ListBucketResult><Name>lake</Name><IsTruncated>false</IsTruncated></ListBucketResult>"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def store_with(certificate: Path) -> Iterator[str]:
    """A store behind TLS with a certificate; gives its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Empty)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"https://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.skipif(bool(why_no_certificates()), reason=why_no_certificates())
def test_a_store_whose_certificate_has_another_name_or_an_unknown_signer_is_refused_with_the_reason(
    tmp_path, monkeypatch
):
    right = make_certificates(tmp_path / "right")
    wrong = make_certificates(tmp_path / "wrong", "subjectAltName=DNS:other.example.org")
    for name, value in {"ACCESS_KEY_ID": "key", "SECRET_ACCESS_KEY": "planted-secret", "REGION": "us-east-1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    for served, trusted, why in (
        (right, right, None),
        (wrong, wrong, "it is for another host name"),
        (right, wrong, "no authority that this machine trusts has signed it"),
    ):
        monkeypatch.setenv("SSL_CERT_FILE", str(trusted.authority))
        with store_with(served.broker) as address:
            monkeypatch.setenv("AWS_ENDPOINT_URL", address)
            if why is None:
                check_reachable("s3a://lake/home")
                continue
            with pytest.raises(
                Misconfigured, match=rf"{address} shows a certificate that is not accepted: {why}"
            ) as told:
                check_reachable("s3a://lake/home")
            assert "planted-secret" not in str(told.value)


def test_a_store_that_keeps_conditions_is_taken_and_left_as_it_was(bucket):
    home = BucketPath(f"s3a://{bucket}/home")
    check_conditions(home)
    assert list(home.rglob("*")) == []


def test_a_store_that_writes_whatever_the_condition_is_refused(bucket, monkeypatch):
    home = BucketPath(f"s3a://{bucket}/home")
    monkeypatch.setattr(BucketPath, "create", lambda self, content: str(self.write_bytes(content)))
    with pytest.raises(KeyfoldError, match="takes writes whose condition does not hold"):
        check_conditions(home)
    assert str(home) not in reachable._CHECKED


def test_a_store_that_is_busy_is_asked_again(bucket, object_store: ObjectStore, monkeypatch):
    with faulty_store(object_store.endpoint) as faulty:
        monkeypatch.setenv("AWS_ENDPOINT_URL", faulty.endpoint)
        faulty.choose = lambda request: Fault.BUSY if request.number < 5 else None
        check_reachable(f"s3a://{bucket}/home")
        assert faulty.count(Fault.BUSY) == 5


@pytest.mark.parametrize("number", range(4))
def test_an_answer_to_the_probe_of_conditions_that_was_lost_is_no_fault(
    bucket, object_store: ObjectStore, monkeypatch, number
):
    with faulty_store(object_store.endpoint) as faulty:
        monkeypatch.setenv("AWS_ENDPOINT_URL", faulty.endpoint)
        faulty.choose = lambda request: Fault.LOST if request.number == number else None
        check_conditions(f"s3a://{bucket}/home-{number}")
        assert faulty.count(Fault.LOST) == 1
