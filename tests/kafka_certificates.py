"""Certificates of a broker of tests: an authority, the broker's own, and a client's with a key that wants a password."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

KEY_PASSWORD = "planted-key-password"  # noqa: S105 - of a key that a test makes
"""Of the client's key."""

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256")
_NAMES = "subjectAltName=IP:127.0.0.1,DNS:localhost"


@dataclass(frozen=True)
class Certificates:
    """Files in PEM.

    Attributes:
        authority: that all of them trust.
        broker: its certificate and key, in one file.
        client, client_key: a client's.
    """

    authority: Path
    broker: Path
    client: Path
    client_key: Path


def why_no_certificates() -> str:
    """Why there are none here; empty where there are some."""
    return "" if shutil.which("openssl") else "there is no openssl to make certificates with"


def make_certificates(folder: Path, names: str = _NAMES) -> Certificates:
    """Make them in a folder, for servers of these names."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "password").write_text(KEY_PASSWORD)
    (folder / "names").write_text(names)
    _openssl(folder, "req", "-x509", *_KEY, "-nodes", "-days", "2", "-subj", "/CN=authority", "-keyout", "authority.key",
             "-out", "authority.pem")  # fmt: skip
    _signed(folder, "broker", "-nodes")
    _signed(folder, "client", "-passout", "file:password")
    (folder / "both.pem").write_text((folder / "broker.key").read_text() + (folder / "broker.pem").read_text())
    return Certificates(folder / "authority.pem", folder / "both.pem", folder / "client.pem", folder / "client.key")


def _signed(folder: Path, name: str, *how: str) -> None:
    _openssl(
        folder, "req", "-new", *_KEY, *how, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr"
    )
    _openssl(folder, "x509", "-req", "-in", f"{name}.csr", "-CA", "authority.pem", "-CAkey", "authority.key",
             "-CAcreateserial", "-days", "2", "-extfile", "names", "-out", f"{name}.pem")  # fmt: skip


def _openssl(folder: Path, *command: str) -> None:
    subprocess.run(["openssl", *command], cwd=folder, check=True, capture_output=True, stdin=subprocess.DEVNULL)
