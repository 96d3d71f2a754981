"""`keyfold state edit` and `keyfold erase`: state and rows changed by hand, and written down."""

import getpass
from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated

import typer

from keyfold.cli.known_names import require_stream
from keyfold.cli.options import DEFAULT_HOME, AsJson, Home, given_pairs
from keyfold.cli.run import run_summary, run_text
from keyfold.cli.spark import spark_of_environment
from keyfold.cli.state_jobs import build_live_job
from keyfold.cli.terminal import failures, report, usage_faults
from keyfold.errors import KeyfoldError
from keyfold.keyed.generation.generations import live_generation_name
from keyfold.keyed.job.contract import KeyedJob
from keyfold.lakehouse import Lakehouse
from keyfold.project import project_jobs, project_streams
from keyfold.runs import refresh_all
from keyfold.sharing import sharing
from keyfold.state.changing.audit import Author
from keyfold.state.changing.editing import Edit, Edited, edit_state
from keyfold.state.erasure.erasing import Erased, Erasure, erase
from keyfold.state.rows.lines import json_lines

_Why = Annotated[str, typer.Option("--why", help="Why it is done; it is written down.")]
_Who = Annotated[str | None, typer.Option("--who", help="Who does it [default: the user of this machine].")]
_Dry = Annotated[bool, typer.Option("--dry-run", help="Say what would change; change nothing.")]


def state_edit(
    job: Annotated[str, typer.Argument(help="The job.")],
    key: Annotated[list[str], typer.Option("--key", help="A key; of several columns a JSON object. May be repeated.")],
    why: _Why,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="COLUMN=EXPR", help="What a column is to be: SQL over the state's."),
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the keys' state.")] = False,
    who: _Who = None,
    dry_run: _Dry = False,
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Correct or remove the state of named keys, in a new generation."""
    with usage_faults():
        if bool(set_) == remove:
            raise KeyfoldError("say what is to become of the keys: --set COLUMN=EXPR, or --remove")
        edit = Edit(tuple(key), given_pairs("--set", set_), Author(who or getpass.getuser(), why))
    with failures():
        lakehouse = Lakehouse(home)
        keyed_job = build_live_job(lakehouse, job, {})
        with spark_of_environment(home) as spark:
            edited = edit_state(spark, lakehouse, keyed_job, edit, dry_run=dry_run)
        summary = {
            "job": job,
            "generation": edited.generation,
            "before": edited.rows_before.to_dicts(),
            "after": edited.rows_after.to_dicts(),
        }
        report(summary, as_json, _edit_text(edited))


def erase_(
    stream: Annotated[str, typer.Argument(help=f"One of: {', '.join(project_streams())}.")],
    where: Annotated[
        list[str],
        typer.Option("--where", metavar="COLUMN=VALUE", help="Whose rows: a column's value. May be repeated."),
    ],
    why: _Why,
    who: _Who = None,
    remove_unsearchable: Annotated[
        bool,
        typer.Option(
            "--remove-unsearchable",
            help="Remove quarantined lines too whose fields cannot be told, whoever's they are.",
        ),
    ] = False,
    refresh: Annotated[
        bool,
        typer.Option(
            "--refresh",
            help="Make jobs anew that have summed such rows up without their columns, with those that read them.",
        ),
    ] = False,
    dry_run: _Dry = False,
    confirm: Annotated[str | None, typer.Option(help="The stream's name again: what is erased is gone.")] = None,
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Erase rows of a stream everywhere: state, tables, late, quarantine, events and their history."""
    require_stream(stream)
    with usage_faults():
        erasure = Erasure(_values(where), Author(who or getpass.getuser(), why), remove_unsearchable)
        if not dry_run and confirm != stream:
            raise KeyfoldError(
                f"what is erased is gone, from backups of Delta's history too: look with --dry-run, then give --confirm {stream}"
            )
    with failures():
        lakehouse = Lakehouse(home)
        jobs = list(_live_jobs(lakehouse))
        with spark_of_environment(home) as spark:
            erased = erase(
                spark,
                lakehouse,
                project_streams()[stream],
                jobs,
                erasure,
                sharing=sharing(project_streams(), stream),
                dry_run=dry_run,
            )
            refreshed = (
                refresh_all(spark, lakehouse, erased.summed_up_by, project_jobs()) if refresh and not dry_run else []
            )
        summary = {
            "stream": stream,
            "rows": erased.rows,
            "sums": erased.sums,
            "summed_up_by": erased.summed_up_by,
            "refreshed": [run_summary(one) for one in refreshed],
            "unsearchable": asdict(erased.unsearchable),
            "generations": erased.generations,
            "files_deleted": erased.files_deleted,
            "dry_run": dry_run,
        }
        text = _erase_text(
            lakehouse, erased, removed=remove_unsearchable, dry_run=dry_run, is_refreshed=bool(refreshed)
        )
        report(summary, as_json, "\n".join([text, *map(run_text, refreshed)]))


def _live_jobs(lakehouse: Lakehouse) -> Iterable[KeyedJob]:
    """The jobs of the project that have run, as they are live."""
    for name in project_jobs():
        if live_generation_name(lakehouse, name) is not None:
            yield build_live_job(lakehouse, name, {})


def _values(where: list[str]) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    for text in where:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise KeyfoldError(f"--where {text!r}: write it as column=value")
        values.setdefault(name.strip(), []).append(value)
    return values


def _edit_text(edited: Edited) -> str:
    lines = [f"before: {line}" for line in json_lines(edited.rows_before, (), "jsonl")]
    lines += [f"after:  {line}" for line in json_lines(edited.rows_after, (), "jsonl")]
    lines.append(f"{edited.generation} is live now" if edited.generation else "nothing was changed (--dry-run)")
    return "\n".join(lines)


def _erase_text(lakehouse: Lakehouse, erased: Erased, *, removed: bool, dry_run: bool, is_refreshed: bool) -> str:
    held = "holds" if dry_run else "held"
    lines = [f"{place} {held} {count:,} rows" for place, count in erased.rows.items()] or ["nothing holds such a row"]
    if erased.sums:
        left = "made anew" if is_refreshed else "left as it is"
        lines.append(f"summed up without these columns, and {left}: {', '.join(erased.sums)}")
        if not is_refreshed:
            commands = (
                lakehouse.command("run", job, "--full-refresh", "--with-consumers") for job in erased.summed_up_by
            )
            lines += [f"to sum up without such rows: `{command}`" for command in commands]
    if (cannot := erased.unsearchable).lines and not removed:
        more = ", …" if cannot.lines > len(cannot.where) else ""
        lines.append(
            f"{cannot.lines:,} quarantined lines cannot be searched, since their fields cannot be told, and stay "
            f"({', '.join(cannot.where)}{more}): look at them, or give --remove-unsearchable"
        )
    if dry_run:
        lines.append("nothing was erased (--dry-run)")
    else:
        lines.append(f"none of them holds one now; {erased.files_deleted:,} files of older versions were deleted")
    lines += [f"look yourself: {place}" for place in erased.not_touched]
    return "\n".join(lines)
