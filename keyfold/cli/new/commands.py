"""`keyfold new`: write a project, a stream from a sample of its files, or a job over a stream."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from keyfold.cli.known_names import require_stream
from keyfold.cli.new.job_files import choose_key, group_of, groups, job_files, job_paths, possible_keys
from keyfold.cli.new.names import check_name
from keyfold.cli.new.project_files import project_files
from keyfold.cli.new.proposal import Proposal, describe_type, propose_stream
from keyfold.cli.new.sample import Sample, read_sample
from keyfold.cli.new.stream_files import stream_files, stream_of, stream_paths
from keyfold.cli.new.writing import check_free, write_files
from keyfold.cli.options import AsJson
from keyfold.cli.terminal import failures, report, usage_faults
from keyfold.errors import KeyfoldError
from keyfold.ingestion.parsing import UnreadableFileError, parse_file
from keyfold.keyed.job.parameters import typical_job
from keyfold.project import project_folder, project_jobs, project_streams

new = typer.Typer(
    help="Write a new project, stream or job, with its assets and tests, for you to edit.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the files; write nothing.")]
_FAULTS_SHOWN = 5


@new.command()
def project(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="New or empty folder; its name is the project's.")],
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Write a project with an example stream and job, their assets, suite and tests, and a Makefile with a demo."""
    root = folder.expanduser().resolve()
    with usage_faults():
        check_name("project", root.name)
    with failures():
        if root.exists() and (not root.is_dir() or any(root.iterdir())):
            raise KeyfoldError(f"{root} exists and is not an empty folder; nothing was written: choose another")
        texts = project_files(root.name)
        following = f"cd {shlex.quote(str(folder))}\nmake demo\nmake test\nmake ui"
        summary = {"project": root.name, "folder": str(root)}
        _write(root, texts, summary, f"project {root.name}", following, dry_run=dry_run, as_json=as_json)


@new.command()
def stream(
    name: Annotated[str, typer.Argument(help="Name of the stream: lower-case letters, digits, underscores.")],
    sample: Annotated[Path, typer.Option("--from", help="A sample file: CSV, JSON lines or Parquet; .gz too.")],
    event_time: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Column with the event's time, or `arrival` if there is none [default: detected]."
        ),
    ] = None,
    event_id: Annotated[
        str | None,
        typer.Option(metavar="COLUMNS", help="Columns that identify an event, a,b; '' for none [default: detected]."),
    ] = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Write a stream with columns, types, event time and event id detected from a sample file."""
    with usage_faults():
        check_name("stream", name)
    with failures():
        root = project_folder()
        _require_free(name, root, stream_paths(name))
        rows = read_sample(sample)
        ids = None if event_id is None else [one.strip() for one in event_id.split(",") if one.strip()]
        proposal = propose_stream(name, rows, event_time, ids)
        texts = stream_files(name, proposal, rows)
        trial = _try(texts[stream_paths(name)[0]], rows)
        summary = {"stream": name, **_summary(proposal), "accepted": trial.accepted, "rejected": trial.rejected}
        following = f"keyfold ingest {name} --from FOLDER --settle 0\nkeyfold new job NAME --stream {name}"
        text = _stream_text(rows, proposal, trial)
        _write(root, texts, summary, text, following, dry_run=dry_run, as_json=as_json)


@new.command()
def job(
    name: Annotated[str, typer.Argument(help="Name of the job: lower-case letters, digits, underscores.")],
    of: Annotated[str, typer.Option("--stream", help="The stream that the job reads.")],
    key: Annotated[str | None, typer.Option(metavar="COLUMNS", help="Key columns, a,b [default: detected].")] = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Write a keyed job over a stream, with a step to edit, its assets, suite and tests."""
    with usage_faults():
        check_name("job", name)
        require_stream(of)
    with failures():
        root = project_folder()
        _require_free(name, root, job_paths(name))
        chosen = choose_key(project_streams()[of], key)
        texts = job_files(name, project_streams()[of], chosen, group_of(root, project_streams()[of]))
        others = [column for column in possible_keys(project_streams()[of]) if column not in chosen]
        also = f" (other candidates: {', '.join(others)}; choose with --key)" if others and key is None else ""
        text = f"{name} reads {of}; its key is {', '.join(chosen)}{also}"
        summary = {"job": name, "stream": of, "key": chosen}
        following = f"python -m pytest {job_paths(name)[-1]}\nkeyfold run {name}"
        _write(root, texts, summary, text, following, dry_run=dry_run, as_json=as_json)


def _require_free(name: str, root: Path, paths: list[Path]) -> None:
    """Check that neither the name nor the files are taken."""
    taken = {
        "stream": set(project_streams()),
        "job": set(project_jobs()),
        "group of assets": groups(root),
        "table": {table.name for template in project_jobs().values() for table in typical_job(template).tables},
        "table's asset": {f"{stream}_{kind}" for stream in project_streams() for kind in _KINDS},
    }
    for what, names in taken.items():
        if name in names:
            raise KeyfoldError(f"a {what} named {name!r} exists; choose another name")
    check_free(root, paths)


_KINDS = ("events", "quarantine", "landing")


@dataclass(frozen=True)
class _Trial:
    """The result of parsing the sample with the proposed stream."""

    accepted: int
    rejected: int
    faults: Sequence[str]


def _try(module: str, sample: Sample) -> _Trial:
    proposed = stream_of(module)
    accepted, faults = 0, []
    rejected = 0
    try:
        for rows in parse_file(proposed, sample.path, datetime.now(UTC)):
            accepted += rows.accepted.height
            rejected += len(rows.rejects)
            faults += [f"line {one.line}: {one.reason}" for one in rows.rejects[: _FAULTS_SHOWN - len(faults)]]
            # Stop after the rows from which the columns were detected.
            if accepted + rejected >= sample.rows + len(sample.bad):
                break
    except UnreadableFileError as error:
        raise KeyfoldError(f"{sample.path}: {error}") from None
    return _Trial(accepted, rejected, faults)


def _stream_text(sample: Sample, proposal: Proposal, trial: _Trial) -> str:
    width = max(len(column.name) for column in proposal.columns)
    lines = [f"{sample.path.name}: {sample.rows:,} rows{', the first part of the file' if sample.is_cut else ''}"]
    for column in proposal.columns:
        kind = describe_type(column.source)
        shape = f", written as {column.source.time}" if column.source.time else ""
        source = f", from {column.source.raw!r}" if column.source.raw != column.name else ""
        lines.append(f"  {column.name:{width}}  {kind}{'' if column.nullable else ', required'}{shape}{source}")
    lines.append(f"event time: {proposal.event_time}")
    lines.append(f"event id: {', '.join(proposal.event_id) or 'none'}")
    lines += [f"note: {note}" for note in proposal.notes]
    lines.append(f"ingest would accept {trial.accepted:,} of these rows and reject {trial.rejected:,}")
    lines += [f"  {fault}" for fault in trial.faults]
    return "\n".join(lines)


def _summary(proposal: Proposal) -> dict[str, Any]:
    return {
        "columns": {column.name: str(column.kind) for column in proposal.columns},
        "event_time": proposal.event_time,
        "event_id": list(proposal.event_id),
        "private": list(proposal.private),
        "notes": list(proposal.notes),
    }


def _write(
    root: Path,
    texts: Mapping[Path, str],
    summary: Mapping[str, Any],
    text: str,
    following: str,
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Write the files unless it is a dry run, and report them."""
    if dry_run:
        files = "\n".join(f"--- {path}\n{content}" for path, content in texts.items())
        written = f"would write:\n{files}"
    else:
        write_files(root, texts)
        files = "\n".join(f"  {path}" for path in texts)
        then = "\n".join(f"  {line}" for line in following.splitlines())
        written = f"wrote:\n{files}\nthen:\n{then}"
    paths = [str(path) for path in texts]
    report({**summary, "files": paths, "written": not dry_run}, as_json, f"{text}\n{written}")
