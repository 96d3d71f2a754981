"""Require a token for runs that cannot be undone: only a person who can read Keyfold's files can confirm them.

A dry run writes a token to `destroy.token` in DAGSTER_HOME, which only its user can read (mode 0600). The real run needs the
same config with `dry_run: false` and this token. A token is valid once, and only for that config, so the run does what the
dry run has shown. Another dry run replaces the token.
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

TOKEN_HELP = (
    f"With dry_run false: the token that a dry run of the same config wrote to {FILE} in DAGSTER_HOME; valid once."
)


class Confirmed(Protocol):
    """The config of a tool that requires a token."""

    dry_run: bool
    token: str

    def model_dump(self) -> dict[str, Any]:
        """Return all fields."""
        ...


def check_token(context: dg.OpExecutionContext, config: Confirmed) -> None:
    """Check and use up the token of a run; a dry run needs none.

    Raises:
        KeyfoldError: the token is not that of the last dry run, or its config was another; nothing was changed.
    """
    if config.dry_run:
        return
    file = _file(context)
    wanted = _read(file)
    # Both are always compared, so that timing does not show which of them is wrong.
    # A random text replaces a missing token, so that an empty one never matches.
    is_same = hmac.compare_digest(wanted.get("token", secrets.token_hex()).encode(), config.token.encode())
    if not (is_same & hmac.compare_digest(wanted.get("of", ""), _digest(context, config))):
        raise KeyfoldError(
            f"nothing was changed: this cannot be undone and requires a token. Start a dry run of the same config, which "
            f"writes a token to {file}; then give it as `token`, with dry_run false"
        )
    # Removed before the work: pages show the run's config, so its token must be worthless from here on.
    file.unlink()


def issue_token(context: dg.OpExecutionContext, config: Confirmed) -> dict[str, str]:
    """Write a token after a dry run, and return metadata with its path, but not the token itself."""
    if not config.dry_run:
        return {}
    file = _file(context)
    content = json.dumps({"of": _digest(context, config), "token": secrets.token_urlsafe(24)})
    write_private(file, f"{content}\n")
    return {"token": f"in {file}: give it with dry_run false and the same config otherwise"}


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
