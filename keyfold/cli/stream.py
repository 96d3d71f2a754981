"""`keyfold stream …`: compare a stream's columns with those of its landing files, and accept new ones."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from keyfold.cli.known_names import require_stream
from keyfold.cli.new.accepting import Acceptance, accepted_module, propose_accepted
from keyfold.cli.new.module_edit import UnsafeEditError
from keyfold.cli.new.proposal import describe_type
from keyfold.cli.options import DEFAULT_HOME, AsJson, Home
from keyfold.cli.terminal import failures, report, warn
from keyfold.errors import KeyfoldError
from keyfold.ingestion.drift import Drift, find_drift
from keyfold.ingestion.landing import landing_folder, newest_files
from keyfold.lakehouse import Lakehouse
from keyfold.privacy import MASK
from keyfold.project import project_folder, project_streams
from keyfold.storage.place import Place, local_path, to_place
from keyfold.stream import Stream
from keyfold.stream.sharing import streams_with

app = typer.Typer(
    help="Compare the columns of a stream with those of new files, and accept new columns.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

Name = Annotated[str, typer.Argument(metavar="STREAM", help="The stream.")]
From = Annotated[
    str | None, typer.Option("--from", help="A file, or a folder of files [default: the stream's landing folder].")
]


@app.command()
def drift(stream: Name, source: From = None, home: Home = DEFAULT_HOME, as_json: AsJson = False) -> None:
    """Show the columns that the newest landing files have and a stream does not, and those that they lack."""
    require_stream(stream)
    with failures():
        found = [one for one in _drift(project_streams()[stream], source, home) if one.is_any]
        private = bool(project_streams()[stream].private)
        files = {str(one.file): {"unknown": _shown(one.unknown, private), "lacking": one.lacking} for one in found}
        lines = [
            *(f"{one.file.name}: unknown: {', '.join(_shown(one.unknown, private))}" for one in found if one.unknown),
            *(f"{one.file.name}: lacking: {', '.join(one.lacking)}" for one in found if one.lacking),
        ]
        unknown = dict.fromkeys(name for one in found for name in one.unknown)
        names = ["COLUMN"] if private and unknown else [shlex.quote(name) for name in unknown]
        lines += [f"keyfold stream accept {stream} {name}" for name in names]
        report({"stream": stream, "files": files}, as_json, "\n".join(lines) or f"{stream} has every column")


@app.command()
def accept(
    stream: Name,
    column: Annotated[str, typer.Argument(help="A raw column, named as by `keyfold stream drift`.")],
    source: From = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the lines; write nothing.")] = False,
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Add a raw column of new files, or all fields of a raw object, to a stream's module; the next ingest reads it."""
    require_stream(stream)
    with failures():
        known = project_streams()[stream]
        file = _file_with(known, column, _drift(known, source, home))
        accepted = propose_accepted(known, column, file)
        module = project_folder() / "spark_jobs" / "streams" / f"{stream}.py"
        text = module.read_text(encoding="utf-8") if module.is_file() else ""
        try:
            changed = accepted_module(known, text, accepted, column, file)
        except UnsafeEditError as error:
            raise KeyfoldError(
                f"{module} cannot be edited safely: {error}. Add to its Stream:\n{_lines(accepted)}"
            ) from None
        if not dry_run:
            module.write_text(changed, encoding="utf-8")
        warn(accepted.notes)
        _report(stream, accepted, module, dry_run=dry_run, as_json=as_json)


def _shown(names: Sequence[str], private: bool) -> Sequence[str]:
    """Return column names of a file; only their number if the stream has private columns.

    In a file without a header, the first row's values are taken for names and may be private.
    """
    return [f"({len(names):,} not shown: {MASK})"] if private and names else names


def _report(stream: str, accepted: Acceptance, module: Path, *, dry_run: bool, as_json: bool) -> None:
    columns = [f"{one.name}: {describe_type(one.source)}, from {one.source.raw!r}" for one in accepted.columns]
    verb = "would add" if dry_run else "added"
    summary: dict[str, Any] = {
        "stream": stream,
        "columns": {one.name: str(one.kind) for one in accepted.columns},
        "private": list(accepted.private),
        "file": str(module),
        "written": not dry_run,
    }
    text = "\n".join(
        [*columns, f"{verb} to {module}:", _lines(accepted), "the column is NULL in older events; then run:"]
    )
    report(summary, as_json, f"{text}\n  keyfold ingest {stream}")


def _lines(accepted: Acceptance) -> str:
    return "\n".join(f"  {argument}: {line}" for argument, lines in accepted.entries.items() for line in lines)


def _drift(stream: Stream, source: str | None, home: str) -> list[Drift]:
    place = to_place(source) if source is not None else landing_folder(Lakehouse(home), stream.landing or stream.name)
    streams = streams_with(stream, project_streams())
    if place.is_dir():
        return find_drift(stream, newest_files(stream, place), sharing=streams)
    if source is None or not place.exists():
        raise KeyfoldError(f"{place} does not exist: give a file, or a folder of files, with --from")
    return find_drift(stream, [place], sharing=streams)


def _file_with(stream: Stream, column: str, found: list[Drift]) -> Path:
    files: list[Place] = [one.file for one in found if column in one.unknown]
    if not files:
        unknown = dict.fromkeys(name for one in found for name in one.unknown)
        raise KeyfoldError(
            f"stream {stream.name} has {column!r}, or none of the files has it; "
            + (
                f"unknown columns: {', '.join(_shown(list(unknown), bool(stream.private)))}"
                if unknown
                else "the stream has every column of the files"
            )
        )
    if (newest := local_path(files[-1])) is None:
        raise KeyfoldError(f"{files[-1]} is in a bucket: copy it here, and name it with --from")
    return newest
