"""A folder of result pages for a browser on this machine: `python -m keyfold.dagster.quality.serve_pages --folder F --port P`.

A browser opens no file from a page that came over http, so Dagster's pages need an address to link to. This serves
finished `.html` files below the folder, on loopback, to GET, and nothing else: no listing, no hidden file, nothing
behind a symbolic link. Whoever asks by another host name than loopback's is refused: else any web page could have its
name point here, and read.
"""

import argparse
import signal
import sys
from http import HTTPStatus
from pathlib import Path
from typing import NoReturn, cast
from urllib.parse import unquote

from keyfold.dagster.quality.pages import CONTENT_SECURITY_POLICY
from keyfold.loopback import ADDRESS, LoopbackHandler, LoopbackServer

_HEADERS = {
    # A page must not be framed either: that only a header can say.
    "Content-Security-Policy": f"{CONTENT_SECURITY_POLICY}; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class PageServer(LoopbackServer):
    """Serves the pages below a folder on loopback.

    Args:
        folder: may be made later.
        port: 0 takes a free one; see `url`.

    Raises:
        OSError: the port is taken.

    Example:
        >>> with PageServer(Path("data_docs"), 0) as server:
        ...     server.url.startswith("http://127.0.0.1:")
        True
    """

    def __init__(self, folder: Path, port: int) -> None:
        super().__init__(port, _Handler)
        self.folder = folder

    @property
    def url(self) -> str:
        return f"http://{ADDRESS}:{self.server_port}"


def find_page(folder: Path, path: str) -> Path | None:
    """The page that the path of an address names; None where there is none that may be served.

    Args:
        folder: of the pages.
        path: as it came, quoted.
    """
    parts = unquote(path).removeprefix("/").split("/")
    if any(not part or part.startswith(".") or "\0" in part or "\\" in part for part in parts):
        return None
    page = folder.resolve().joinpath(*parts)
    try:
        # Resolved it is itself: no part of it is a symbolic link.
        is_page = page.suffix == ".html" and page.is_file() and page.resolve() == page
    except (OSError, ValueError):
        # The file system cannot have such a name: it is too long, or no Unicode.
        return None
    return page if is_page else None


def main(arguments: list[str] | None = None) -> None:
    """Serve until the process is told to end."""
    parser = argparse.ArgumentParser(description="Serve result pages on loopback.")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    given = parser.parse_args(arguments)
    try:
        server = PageServer(given.folder, given.port)
    except OSError as error:
        sys.exit(f"result pages cannot be served on {ADDRESS}:{given.port}: {error.strerror}; choose another port")
    signal.signal(signal.SIGTERM, _end)
    with server:
        server.serve_forever()


class _Handler(LoopbackHandler):
    def answer(self) -> None:
        """Answer with a page."""
        # Not urlsplit, which fails on what is no URL.
        page = find_page(cast(PageServer, self.server).folder, self.path.partition("?")[0])
        try:
            content = page.read_text(encoding="utf-8") if page else None
        except OSError:
            content = None
        if content is None:
            told = "No such page. Pages are linked from the checks in Dagster; old ones are deleted.\n"
            self.send(HTTPStatus.NOT_FOUND, "text/plain; charset=utf-8", told, _HEADERS)
        else:
            self.send(HTTPStatus.OK, "text/html; charset=utf-8", content, _HEADERS)


def _end(_signal: int, _frame: object) -> NoReturn:
    raise SystemExit(0)


if __name__ == "__main__":
    main()
