"""Stores of other providers than S3, on loopback: Azurite, and fake-gcs-server behind a proxy (`google_proxy`) for what it lacks."""

import base64
import hashlib
import hmac
import json
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from tests.object_store import process_with_port
from tests.ports import free_port, listening

_SCRIPTS = Path(__file__).parent.parent / "scripts"
_ACCOUNT = "devstoreaccount1"
_VERSION = "2021-08-06"
# Published by Microsoft, and the same on each machine.
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@dataclass(frozen=True)
class Emulator:
    """An emulator that runs.

    Attributes:
        variables: what a process must have in its environment to reach it.
        creation: asks it to make a bucket of a name.
    """

    variables: dict[str, str]
    creation: Callable[[str], Request]

    def new_bucket(self) -> str:
        """Make a bucket, or a container, of a name that none has."""
        name = f"t-{uuid.uuid4().hex[:12]}"
        with urlopen(self.creation(name), timeout=30):  # noqa: S310 - our own
            return name

    def environment(self) -> dict[str, str]:
        """What a process must have in its environment to reach it."""
        return self.variables


@contextmanager
def running_azure_store() -> Iterator[Emulator]:
    """Start Azurite, and stop it; what it held is gone. Skip the test if it is not installed."""
    port = free_port()
    endpoint = f"http://127.0.0.1:{port}"
    options = ["--silent", "--inMemoryPersistence", "--disableTelemetry", "--skipApiVersionCheck"]
    variables = {
        "AZURE_STORAGE_USE_EMULATOR": "true",
        "AZURITE_BLOB_STORAGE_URL": endpoint,
        "AZURE_ALLOW_HTTP": "true",
    }

    def creation(name: str) -> Request:
        now = f"{datetime.now(UTC):%a, %d %b %Y %H:%M:%S GMT}"
        signed = f"x-ms-date:{now}\nx-ms-version:{_VERSION}\n/{_ACCOUNT}/{_ACCOUNT}/{name}\nrestype:container"
        # Twelve headers that the request does not have.
        text = "PUT" + 12 * "\n" + signed
        digest = base64.b64encode(hmac.new(base64.b64decode(_KEY), text.encode(), hashlib.sha256).digest()).decode()
        headers = {"x-ms-date": now, "x-ms-version": _VERSION, "Authorization": f"SharedKey {_ACCOUNT}:{digest}"}
        address = f"{endpoint}/{_ACCOUNT}/{name}?restype=container"
        return Request(address, method="PUT", headers=headers)  # noqa: S310 - our own

    with _running("azurite", port, *options, "--blobHost", "127.0.0.1", "--blobPort", str(port)):
        yield Emulator(variables, creation)


@contextmanager
def running_google_store() -> Iterator[Emulator]:
    """Start fake-gcs-server and its proxy, and stop them. Skip the test if the server is not installed."""
    port = free_port()
    # The proxy is a process of its own: a client that waits for an answer may let no other thread of Python run.
    with process_with_port([sys.executable, "-m", "tests.google_proxy", str(port)]) as (_, at):
        endpoint = f"http://127.0.0.1:{at}"
        options = ["-backend", "memory", "-scheme", "http", "-host", "127.0.0.1", "-port", str(port)]
        options += ["-public-host", f"127.0.0.1:{at}", "-external-url", endpoint]
        account = {"gcs_base_url": endpoint, "disable_oauth": True}
        account |= dict.fromkeys(("client_email", "private_key", "private_key_id"), "")
        variables = {
            "GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps(account),
            "GOOGLE_BASE_URL": endpoint,
            "GOOGLE_ALLOW_HTTP": "true",
        }

        def creation(name: str) -> Request:
            return Request(f"{endpoint}/storage/v1/b?project=tests", json.dumps({"name": name}).encode())  # noqa: S310

        with _running("fake-gcs", port, *options):
            yield Emulator(variables, creation)


@contextmanager
def _running(script: str, port: int, *options: str) -> Iterator[None]:
    found = subprocess.run([_SCRIPTS / script, "find"], stdout=subprocess.PIPE, text=True, check=False)
    if found.returncode != 0:
        pytest.skip(f"not installed; run scripts/{script}")
    with (
        tempfile.TemporaryDirectory() as folder,
        listening([found.stdout.strip(), *options], port, Path(folder), HOME=folder),
    ):
        yield
