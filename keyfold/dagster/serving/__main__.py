"""`make ui` (`python -m keyfold.dagster.serving`): serve Dagster's pages behind the gate, with Dagster's daemon as a child.

KEYFOLD_HOME     lakehouse directory; default: `.keyfold`
DAGSTER_HOME     folder of Dagster's data; default: `dagster` in the lakehouse directory, `.keyfold/dagster` for a bucket
PORT             `PORT` or `ADDRESS:PORT` to listen on; default: 127.0.0.1:3000
KEYFOLD_UI_URL   address that users open, if a proxy serves it; its host name is admitted, and links begin with it

The token is in `ui.token` in DAGSTER_HOME; deleting the file makes a new one. Private interfaces of Dagster are used, as in
`dagster dev`: there is no public way to put a middleware before its web application. A test names their version.
"""

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import dagster as dg
import uvicorn
from dagster._cli.proxy_server_manager import ProxyServerManager
from dagster._cli.workspace.cli_target import WorkspaceOpts, workspace_opts_to_load_target
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import WorkspaceFileTarget
from dagster_webserver.app import create_app_from_workspace_process_context
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from keyfold.dagster.serving import open_dagster_home
from keyfold.dagster.serving.gate import PRIVATE, TOKEN, Gate, with_headers
from keyfold.errors import KeyfoldError, Locked, Misconfigured
from keyfold.machine import ADDRESS, keep_files_private, lock_for_life
from keyfold.project_folder import project_folder
from keyfold.storage.disk_path import DiskPath
from keyfold.storage.place import to_place

# Only its parent can write to its standard input: it ends with its parent, however that ends.
_DAEMON = """
import os, signal, sys, threading
def end_with_parent():
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)
threading.Thread(target=end_with_parent, daemon=True).start()
from dagster._daemon.cli import main
main()
"""

_FIRST_PAGE = "/asset-groups"
"""The lineage of all assets: Dagster's own first page is a timeline, which is empty until something has run by itself."""


def main() -> int:
    """Serve until this process is stopped; return 1 if serving cannot begin, or if the daemon ends by itself."""
    keep_files_private()
    # Interrupts too where they are ignored, as in the background of a script: Dagster's processes map SIGTERM to them.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit(0))
    try:
        return _serve()
    except (KeyfoldError, click.UsageError) as error:  # Dagster's, of a project without a code location
        print(f"error: {error}", file=sys.stderr)
        return 1


def _serve() -> int:
    host, _, port = (os.environ.get("PORT") or "3000").rpartition(":")
    address = host or ADDRESS
    url = (os.environ.get("KEYFOLD_UI_URL") or f"http://{address}:{port}").rstrip("/")
    try:
        listening = socket.create_server((address, int(port)), backlog=128)
    except (OSError, ValueError, OverflowError) as error:
        raise Misconfigured(f"port {port} of {address} cannot be used ({error}): give another PORT") from None
    lakehouse = to_place(os.environ.get("KEYFOLD_HOME") or ".keyfold").expanduser().resolve()
    on_disk = lakehouse.local_path
    home = DiskPath(os.environ.get("DAGSTER_HOME") or (on_disk or Path(".keyfold")) / "dagster").expanduser().resolve()
    # For the code server, and so for runs.
    os.environ.update(KEYFOLD_HOME=str(lakehouse), DAGSTER_HOME=str(home), KEYFOLD_UI_URL=url)
    os.chdir(project_folder())
    with open_dagster_home(home) as instance, ExitStack() as serving:
        try:
            # Two daemons on one DAGSTER_HOME would launch every run twice, and Dagster only warns.
            lock = lock_for_life(home / "daemon.lock")
        except BlockingIOError:
            raise Locked(f"another process serves {home}: stop it, or give another DAGSTER_HOME") from None
        # Pages and daemon share the code server. Its location has the name that the project gives it.
        target = workspace_opts_to_load_target(WorkspaceOpts())
        code = serving.enter_context(ProxyServerManager(instance, target, "WARNING"))
        workspace = home / "workspace.yaml"
        workspace.write_text(json.dumps({"load_from": code.get_code_server_specs()}), encoding="utf-8")
        # In a session of its own: it hears of a terminal's Ctrl-C only by its parent.
        command = [sys.executable, "-c", _DAEMON, "run", "--workspace", str(workspace)]
        options: Any = {"stdin": subprocess.PIPE, "start_new_session": True, "pass_fds": [lock]}
        daemon = serving.enter_context(subprocess.Popen(command, **options))
        target = WorkspaceFileTarget([str(workspace)])
        context = serving.enter_context(WorkspaceProcessContext(instance, target, version=dg.__version__))
        # The values of `dagster-webserver`, for databases other than SQLite.
        instance.optimize_for_webserver(15_000, 3_600, 20)
        pages = create_app_from_workspace_process_context(context, live_data_poll_rate=2_000)
        # First: Dagster's own routes end with one that takes everything.
        pages.routes.insert(0, Mount("/data_docs", data_docs((on_disk or home) / "data_docs")))
        file = home / "ui.token"
        if not file.exists() or file.stat().st_size < 32:
            file.write_whole(secrets.token_urlsafe(32).encode())
        token = file.read_text(encoding="ascii").strip()
        gate = Gate(pages, token, urlsplit(url).hostname or ADDRESS)
        server = uvicorn.Server(uvicorn.Config(gate, log_level="warning", timeout_graceful_shutdown=2))
        threading.Thread(target=_stop_with, args=(daemon, server), daemon=True).start()
        # No log must have the token.
        shown = token if sys.stdout.isatty() else f"$(cat {file})"
        print(f"Dagster's pages: {url}{_FIRST_PAGE}?{TOKEN}={shown}", flush=True)
        # After a signal, it raises the signal again.
        server.run(sockets=[listening])
    print(f"error: Dagster's daemon has ended (exit code {daemon.returncode}): see its last lines", file=sys.stderr)
    return 1


def data_docs(folder: Path) -> ASGIApp:
    """Build an application that serves a folder of result pages: no listing, and nothing behind a symbolic link."""
    # `sandbox` gives the page no origin: a script from a row's text could not call Dagster.
    policy = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox"}
    return with_headers(StaticFiles(directory=folder, check_dir=False), PRIVATE | policy)


def _stop_with(daemon: subprocess.Popen[bytes], server: uvicorn.Server) -> None:
    daemon.wait()
    server.should_exit = True


if __name__ == "__main__":
    sys.exit(main())
