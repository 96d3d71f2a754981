"""`keyfold new` and `keyfold add`: write a project, or another stream and its job, from a sample file."""

import shlex
import shutil
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from keyfold.cli.new.names import check_name
from keyfold.cli.new.project_files import example_rows, job_of, project_files, stream_files, stream_of, write_files
from keyfold.cli.new.sample import LARGEST, propose
from keyfold.cli.terminal import report, usage_faults, warn
from keyfold.errors import KeyfoldError
from keyfold.ingestion.ingest_records import zone_warnings
from keyfold.ingestion.parsing import UnreadableFileError, parse_file
from keyfold.project import project_jobs, project_streams
from keyfold.project_folder import project_folder
from keyfold.storage.place import to_place
from keyfold.stream import Stream

Sample = typer.Option("--from", metavar="FILE", help="A sample of its files: CSV, JSON lines or Parquet, .gz too.")
Time = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN[=FORMAT]",
        help="Column with the event's time; its format if that is not ISO 8601 (s, ms, us, ns, or such as "
        "%d/%m/%Y %H:%M); or `arrival` if there is none [default: the only column of times].",
    ),
]
Key = Annotated[str | None, typer.Option(metavar="COLUMN", help="The key [default: the only column of text].")]


def new(
    folder: Annotated[Path, typer.Argument(metavar="NAME", help="New or empty folder; names project and stream.")],
    sample: Annotated[Path | None, Sample] = None,
    time: Time = None,
    key: Key = None,
) -> None:
    """Write a project that runs: a stream as in a sample file (default: an example), its job, checks and tests."""
    root = folder.expanduser().resolve()
    name = root.name
    with usage_faults():
        check_name(name)
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise KeyfoldError(f"{root} exists and is not an empty folder; nothing was written: choose another")
    following = [f"cd {shlex.quote(str(folder))}", "make demo", "make test", "make ui"]
    if sample is None:
        example = root / "sample" / f"{name}.ndjson"
        write_files(root, {example.relative_to(root): example_rows()})
        _write(root, name, "new", example, (time, key), project_files(name), following)
        return
    if sample.is_file() and sample.stat().st_size > LARGEST:
        raise KeyfoldError(
            f"{sample} has {sample.stat().st_size >> 20:,} MB, and a sample is copied into the project: give one of at most "
            f"{LARGEST >> 20} MB, such as the first ten thousand lines; nothing was written"
        )
    _write(root, name, "new", sample, (time, key), project_files(name, is_mine=True), following)
    # Not in the project's history: it may have personal values.
    (root / "sample").mkdir()
    shutil.copyfile(sample, root / "sample" / sample.name)


def add(
    name: Annotated[str, typer.Argument(help="Name of the stream: lower-case letters, digits, underscores.")],
    sample: Annotated[Path, Sample],
    time: Time = None,
    key: Key = None,
) -> None:
    """Add a stream as in a sample file to the project, with its job, checks and tests."""
    with usage_faults():
        check_name(name)
    for kind, chosen, declared in (("stream", name, project_streams()), ("job", job_of(name), project_jobs())):
        if chosen in declared:
            raise KeyfoldError(f"a {kind} named {chosen!r} exists; choose another name")
    commands = (f"python -m pytest tests/test_{name}.py", f"keyfold ingest {name} --from FOLDER")
    following = [*commands, f"keyfold run {job_of(name)}"]
    _write(project_folder(), name, "add", sample, (time, key), {}, following)


def _write(
    root: Path,
    name: str,
    command: str,
    sample: Path,
    chosen: tuple[str | None, str | None],
    texts: Mapping[Path, str],
    following: list[str],
) -> None:
    """Write the files of the stream and its job with the others, and report them."""
    proposal = propose(sample, *chosen)
    texts = {**texts, **stream_files(name, proposal, command)}
    stream = stream_of(texts, name)
    accepted, reasons, without_zone = _try(stream, sample)
    write_files(root, texts)
    warn(zone_warnings(name, without_zone))
    summary = {
        "stream": name,
        "job": job_of(name),
        "columns": {column.name: str(column.kind) for column in proposal.read},
        "event_time": proposal.time,
        "key": proposal.key.name,
        "private": [column.name for column in proposal.private],
        "left_out": [column.raw for column in proposal.columns if column.kind is None],
        "accepted": accepted,
        "rejected": len(reasons),
        "reasons": reasons[:3],
        "files": [str(path) for path in texts],
        "next": following,
    }
    report(summary)


def _try(stream: Stream, sample: Path) -> tuple[int, list[str], int]:
    """Parse the beginning of the sample with the stream.

    Returns:
        How many rows it accepts, why it rejects others, and how many times have no zone.

    Raises:
        KeyfoldError: it accepts none.
    """
    accepted, reasons, without_zone = 0, [], 0
    try:
        for rows in islice(parse_file(stream, to_place(sample), datetime.now(UTC)), 2):
            accepted += rows.accepted.height
            without_zone += rows.without_zone
            reasons += [f"line {reject.line}: {reject.reason}" for reject in rows.rejects]
    except UnreadableFileError as error:
        raise KeyfoldError(f"{sample}: {error}") from None
    if not accepted:
        raise KeyfoldError(f"{sample}: ingest would accept none of its rows; {'; '.join(reasons[:1])}")
    return accepted, reasons, without_zone
