"""`make ui` (`python -m keyfold.dagster.serving.pages`): serve Dagster's pages on loopback, with the servers they need.

KEYFOLD_HOME  lakehouse directory; default: `.keyfold`
DAGSTER_HOME  folder of Dagster's data; default: `dagster` in the lakehouse directory
PORT          port of the pages; default: 3000
KEYFOLD_UI_HOSTS  host names of a proxy, besides loopback's
KEYFOLD_DATA_DOCS_URL  address of Data Docs, if another server serves them; default: below /data_docs
"""

import json
import os
import shutil
import socket
import sys
import tempfile
from pathlib import Path

from keyfold.dagster.serving.home import make_databases, prepare_dagster_home
from keyfold.dagster.serving.supervisor import Server, supervise
from keyfold.errors import KeyfoldError, Misconfigured
from keyfold.machine.private_files import keep_files_private
from keyfold.project import current_project, project_folder
from keyfold.storage.place import local_path, to_place

_HOST = "127.0.0.1"


def main() -> int:
    """Serve until this process is stopped; return 1 if serving cannot begin, or if a server ended by itself."""
    try:
        return _serve(os.environ.get("PORT") or "3000")
    except KeyfoldError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _serve(port: str) -> int:
    keep_files_private()
    _check_free(port)
    lakehouse = to_place(os.environ.get("KEYFOLD_HOME") or ".keyfold").expanduser().resolve()
    given = os.environ.get("DAGSTER_HOME")
    if not given and local_path(lakehouse) is None:
        raise Misconfigured(f"{lakehouse} is in a bucket: set DAGSTER_HOME to a folder of this machine")
    home = Path(given or f"{lakehouse}/dagster").expanduser().resolve()
    os.environ.update(KEYFOLD_HOME=str(lakehouse), DAGSTER_HOME=str(home))
    if differs := prepare_dagster_home(home):
        print(differs, file=sys.stderr)
    # Before the servers start: two of them that create the databases of a new home at once fail.
    make_databases(home)
    # A short path, not below the home: the path of a socket is limited to about a hundred bytes.
    folder = Path(tempfile.mkdtemp(prefix="keyfold-ui-"))
    print(f"Dagster's pages start on port {port} in a few seconds; their link follows. Ctrl-C stops them.", flush=True)
    return supervise(
        # Result pages are files on a disk: in DAGSTER_HOME, if the lakehouse is in a bucket.
        _servers(folder, local_path(lakehouse) or home, port),
        at_end=lambda: shutil.rmtree(folder, ignore_errors=True),
    )


def _servers(folder: Path, shared: Path, port: str) -> list[Server]:
    python = [sys.executable, "-m"]
    code, workspace = folder / "code", folder / "workspace.json"
    # JSON is YAML. Pages and daemon share one code server, so that definitions are loaded once.
    workspace.write_text(
        json.dumps({"load_from": [{"grpc_server": {"socket": str(code), "location_name": "keyfold"}}]}),
        encoding="utf-8",
    )
    environment = dict[str, str]()
    served = list[str]()
    if not os.environ.get("KEYFOLD_DATA_DOCS_URL"):
        environment["KEYFOLD_DATA_DOCS_URL"] = f"http://{_HOST}:{port}/data_docs"
        served = ["--data-docs", str(shared / "data_docs")]
    return [
        Server(
            "the code server",
            [
                *(*python, "dagster", "code-server", "start", "--socket", str(code), "--location-name", "keyfold"),
                *("--module-name", current_project().definitions, "--working-directory", str(project_folder())),
                *("--inject-env-vars-from-instance", "--log-level", "warning"),
            ],
            environment=environment,
        ),
        Server(
            "the web server",
            [*python, "keyfold.dagster.serving.web_server", "--port", port, "--workspace", str(workspace), *served],
            after=code,
        ),
        Server(
            "the daemon",
            [*python, "keyfold.dagster.serving.daemon", "--workspace", str(workspace)],
            environment=environment,
        ),
    ]


def _check_free(port: str) -> None:
    """Check that a port can be used.

    Raises:
        Misconfigured: the port is no port number, or is in use.
    """
    if not port.isdecimal() or not 0 < int(port) < 65_536:
        raise Misconfigured(f"PORT is {port!r}: give a number from 1 to 65535")
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a server that has just ended must not count
        try:
            tried.bind((_HOST, int(port)))
        except OSError as error:
            other = int(port) + 1 if int(port) < 65_535 else 3000
            raise Misconfigured(
                f"port {port} of {_HOST} cannot be used ({error.strerror}): perhaps another "
                f"`make ui` serves these pages already; give another port: make ui PORT={other}"
            ) from None


if __name__ == "__main__":
    sys.exit(main())
