"""Tokens for what cannot be undone: pages can start such a run, and only who can read Keyfold's files can confirm it.

A dry run writes a token to `destroy.token` in DAGSTER_HOME, which its user alone can read (mode 0600). The run that is to
do it is given the same config with `dry_run: false` and this token. The token is valid once, and for that config alone:
what is done is what the dry run has shown. Another dry run replaces it.
"""

import hashlib
import hmac
import json
import secrets
from pathlib import Path
from typing import Any, Protocol

import dagster as dg

from keyfold.errors import KeyfoldError
from keyfold.machine.private_files import write_private

FILE = "destroy.token"

TOKEN_HELP = f"With dry_run false: the token that a dry run of this very config has written to {FILE} in DAGSTER_HOME. It is valid once."


class Confirmed(Protocol):
    """The config of a tool that asks for a token."""

    dry_run: bool
    token: str

    def model_dump(self) -> dict[str, Any]:
        """All fields."""
        ...


def check_token(context: dg.OpExecutionContext, config: Confirmed) -> None:
    """Use up the token of a run that is to change something; of a dry run, nothing.

    Raises:
        KeyfoldError: the token is not that of the last dry run, or that one had another config; nothing was changed.
    """
    if config.dry_run:
        return
    file = _file(context)
    wanted = _read(file)
    # Both are compared whatever the first says: which of them is wrong is nobody's to know.
    is_same = hmac.compare_digest(wanted.get("token", secrets.token_hex()).encode(), config.token.encode())
    if not (is_same & hmac.compare_digest(wanted.get("of", ""), _digest(context, config))):
        raise KeyfoldError(
            f"nothing was changed: this cannot be undone, and asks for a token. Start a dry run of this very config; it "
            f"writes a token to {file}; then give that as `token`, with dry_run false"
        )
    # Before the work: a token that stands in a run's config, for pages to show, is worth nothing.
    file.unlink()


def token_told(context: dg.OpExecutionContext, config: Confirmed) -> dict[str, str]:
    """Write a token, after a dry run; gives the metadata that says where, and never what it is."""
    if not config.dry_run:
        return {}
    file = _file(context)
    told = json.dumps({"of": _digest(context, config), "token": secrets.token_urlsafe(24)})
    write_private(file, f"{told}\n")
    return {"token": f"in {file}: give it with dry_run false, and all else as it is"}


def _file(context: dg.OpExecutionContext) -> Path:
    return Path(context.instance.root_directory) / FILE


def _read(file: Path) -> dict[str, str]:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}


def _digest(context: dg.OpExecutionContext, config: Confirmed) -> str:
    asked = {name: value for name, value in config.model_dump().items() if name not in ("dry_run", "token")}
    return hashlib.sha256(json.dumps([context.op.name, asked], sort_keys=True, default=str).encode()).hexdigest()
