"""`keyfold drift`: compare a stream's columns with those of its landing files."""

from collections.abc import Sequence
from typing import Annotated

import typer

from keyfold.cli.known_names import require_known
from keyfold.cli.options import DEFAULT_HOME, AsJson, Home
from keyfold.cli.terminal import failures, report
from keyfold.errors import KeyfoldError
from keyfold.ingestion.landing import find_drift, landing_folder, newest_files
from keyfold.lakehouse import Lakehouse
from keyfold.privacy import MASK
from keyfold.project import project_streams
from keyfold.storage.place import Place, to_place
from keyfold.stream import Stream


def drift(
    stream: Annotated[str, typer.Argument(help="The stream.")],
    source: Annotated[
        str | None, typer.Option("--from", help="A file, or a folder of files [default: the stream's landing folder].")
    ] = None,
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Show the columns that the newest landing files have and a stream does not."""
    require_known("stream", stream, project_streams())
    with failures():
        private = bool(project_streams()[stream].private)
        found = {
            file: _shown(names, private) for file, names in _drift(project_streams()[stream], source, home).items()
        }
        lines = [f"{file.name}: unknown: {', '.join(names)}" for file, names in found.items()]
        files = {str(file): names for file, names in found.items()}
        report({"stream": stream, "files": files}, as_json, "\n".join(lines) or f"{stream} has every column")


def _shown(names: Sequence[str], private: bool) -> Sequence[str]:
    """Return column names of a file; only their number if the stream has private columns.

    In a file without a header, the first row's values are taken for names and may be private.
    """
    return [f"({len(names):,} not shown: {MASK})"] if private and names else names


def _drift(stream: Stream, source: str | None, home: str) -> dict[Place, tuple[str, ...]]:
    place = to_place(source) if source is not None else landing_folder(Lakehouse(home), stream.name)
    if place.is_dir():
        return find_drift(stream, newest_files(stream, place))
    if source is None or not place.exists():
        raise KeyfoldError(f"{place} does not exist: give a file, or a folder of files, with --from")
    return find_drift(stream, [place])
