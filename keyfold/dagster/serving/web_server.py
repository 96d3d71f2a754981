"""`python -m keyfold.dagster.serving.web_server`: serve Dagster's web server on loopback, behind the gate.

--port         port of the pages; default: 3000
--workspace    Dagster's workspace file; default: `workspace.yaml`
--path-prefix  prefix of all addresses, such as /dagster, if a proxy serves the pages below it
--read-only    refuses all changes
--data-docs    folder of result pages, to which checks link; they are served below /data_docs

DAGSTER_HOME      the folder of Dagster's data; while the server runs, the token is in `ui-PORT.token` there
KEYFOLD_UI_HOSTS  host names of a proxy before this server, separated by blanks; loopback's names always work

This module uses private interfaces of Dagster: the process context, the loader of a workspace file, and the factory of the web
application. Dagster has no public way to add a middleware to its web server; `dagster-webserver` itself uses these three. A
test names the version that they were checked with.
"""

import argparse
import asyncio
import os
import re
import secrets
import signal
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

import dagster as dg
import uvicorn
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import WorkspaceFileTarget
from dagster_webserver.app import create_app_from_workspace_process_context
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from keyfold.dagster.serving.gate import TOKEN, Gate
from keyfold.errors import KeyfoldError, Misconfigured
from keyfold.machine.loopback import ADDRESS
from keyfold.machine.private_files import keep_files_private, write_private

HOSTS_VARIABLE = "KEYFOLD_UI_HOSTS"

_STATEMENT_MILLISECONDS, _POOL_RECYCLE_SECONDS, _POOL_OVERFLOW, _POLL_MILLISECONDS = 15_000, 3_600, 20, 2_000
"""The values of `dagster-webserver`."""


def main(arguments: list[str] | None = None) -> None:
    """Serve until the process is stopped."""
    parser = argparse.ArgumentParser(description="Serve Dagster's pages on loopback to users with the link.")
    parser.add_argument("--port", type=int, default=3000)
    parser.add_argument("--workspace", type=Path, default=Path("workspace.yaml"))
    parser.add_argument("--path-prefix", default="")
    parser.add_argument("--read-only", action="store_true")
    parser.add_argument("--data-docs", type=Path)
    given = parser.parse_args(arguments)
    keep_files_private()
    try:
        names = ui_hosts()
        listening = socket.create_server((ADDRESS, given.port), backlog=128)
    except KeyfoldError as error:
        sys.exit(f"error: {error}")
    except OSError as error:
        sys.exit(f"error: port {given.port} of {ADDRESS} cannot be used ({error.strerror}); give another with --port")
    for number in (signal.SIGINT, signal.SIGTERM):
        # uvicorn raises the signal again after it has stopped; without a handler, the token's file would remain.
        signal.signal(number, _end)
    port = listening.getsockname()[1]
    with dg.DagsterInstance.get() as instance:
        instance.optimize_for_webserver(_STATEMENT_MILLISECONDS, _POOL_RECYCLE_SECONDS, _POOL_OVERFLOW)
        target = WorkspaceFileTarget([str(given.workspace)])
        with WorkspaceProcessContext(instance, target, version=dg.__version__, read_only=given.read_only) as context:
            pages = create_app_from_workspace_process_context(
                context, given.path_prefix, _POLL_MILLISECONDS, lifespan=_lifespan
            )
            if given.data_docs is not None:
                # First: Dagster's own routes end with one that takes everything.
                pages.routes.insert(0, Mount(f"{given.path_prefix}/data_docs", result_pages(given.data_docs)))
            token = secrets.token_urlsafe(32)
            file = token_file(Path(instance.root_directory), port)
            write_private(file, f"{token}\n")
            try:
                # The socket is listening already, so the link works from here on.
                print(f"Dagster's pages: http://{ADDRESS}:{port}{given.path_prefix}/?{TOKEN}={token}", flush=True)
                server = uvicorn.Server(uvicorn.Config(Gate(pages, token, names), log_level="warning"))
                server.run(sockets=[listening])
            finally:
                file.unlink(missing_ok=True)


def result_pages(folder: Path) -> StaticFiles:
    """Build an application that serves result pages: no listing, and nothing behind a symbolic link.

    Args:
        folder: the folder of the pages; created if it does not exist.
    """
    folder.mkdir(parents=True, exist_ok=True)
    return _ResultPages(directory=folder)


class _ResultPages(StaticFiles):
    def file_response(self, *arguments: Any, **more: Any) -> Response:
        response = super().file_response(*arguments, **more)
        # `sandbox` gives the page no origin: a script from a row's text could not call Dagster.
        response.headers["Content-Security-Policy"] = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
        response.headers["Referrer-Policy"] = "no-referrer"
        response.headers["Cache-Control"] = "no-store"
        return response


def token_file(home: Path, port: int) -> Path:
    """Return the file with the token of the server on a port, for programs of the same user.

    Args:
        home: DAGSTER_HOME.
        port: the port of the pages.
    """
    return home / f"ui-{port}.token"


def ui_hosts(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return the host names of KEYFOLD_UI_HOSTS.

    Raises:
        KeyfoldError: one is not a host name.
    """
    names = environment.get(HOSTS_VARIABLE, "").split()
    for name in names:
        if not re.fullmatch(r"[\w.-]+", name, re.ASCII):
            raise Misconfigured(
                f"{HOSTS_VARIABLE}: {name!r} is not a host name; give names without scheme and port, separated by blanks"
            )
    return names


def _end(_signal: int, _frame: object) -> NoReturn:
    raise SystemExit(0)


@asynccontextmanager
async def _lifespan(_: Starlette) -> AsyncIterator[None]:
    # uvicorn cancels the lifespan when it stops.
    with suppress(asyncio.CancelledError):
        yield


if __name__ == "__main__":
    main()
