"""Azurite, the emulator of Azure Blob Storage, on loopback, and containers that no other test has."""

import base64
import hashlib
import hmac
import os
import subprocess
import tempfile
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.ports import free_port, wait_for_port

_REPOSITORY = Path(__file__).parent.parent
_ACCOUNT = "devstoreaccount1"
_VERSION = "2021-08-06"
# Published by Microsoft, and the same on each machine.
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@dataclass(frozen=True)
class AzureStore:
    """An emulator that runs.

    Attributes:
        endpoint: its URL.
    """

    endpoint: str

    def new_bucket(self) -> str:
        """Make a container of a name that none has."""
        name, now = f"c-{uuid.uuid4().hex[:12]}", f"{datetime.now(UTC):%a, %d %b %Y %H:%M:%S GMT}"
        signed = f"x-ms-date:{now}\nx-ms-version:{_VERSION}\n/{_ACCOUNT}/{_ACCOUNT}/{name}\nrestype:container"
        # Twelve headers that the request does not have.
        text = "PUT" + 12 * "\n" + signed
        digest = hmac.new(base64.b64decode(_KEY), text.encode(), hashlib.sha256).digest()
        request = urllib.request.Request(  # noqa: S310
            f"{self.endpoint}/{_ACCOUNT}/{name}?restype=container",
            method="PUT",
            headers={
                "x-ms-date": now,
                "x-ms-version": _VERSION,
                "Authorization": f"SharedKey {_ACCOUNT}:{base64.b64encode(digest).decode()}",
            },
        )
        with urllib.request.urlopen(request, timeout=30):  # noqa: S310
            return name

    def environment(self) -> dict[str, str]:
        """What a process must have in its environment to reach it."""
        return {
            "AZURE_STORAGE_USE_EMULATOR": "true",
            "AZURITE_BLOB_STORAGE_URL": self.endpoint,
            "AZURE_ALLOW_HTTP": "true",
        }


@contextmanager
def running_azure_store() -> Iterator[AzureStore]:
    """Start the emulator, and stop it; what it held is gone. Skip the test if it is not installed."""
    found = subprocess.run(
        [_REPOSITORY / "scripts" / "azurite", "find"], stdout=subprocess.PIPE, text=True, check=False
    )
    if found.returncode != 0:
        pytest.skip("Azurite is not installed; run scripts/azurite")
    port = free_port()
    options = ["--silent", "--inMemoryPersistence", "--disableTelemetry", "--skipApiVersionCheck"]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [found.stdout.strip(), *options, "--blobHost", "127.0.0.1", "--blobPort", str(port)],
                cwd=folder,
                stdout=output,
                stderr=output,
                env=os.environ | {"HOME": folder},
            )
        try:
            wait_for_port(port, process, log, 60)
            yield AzureStore(f"http://127.0.0.1:{port}")
        finally:
            process.kill()
            process.wait()
