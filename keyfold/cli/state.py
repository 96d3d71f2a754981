"""Read, compare, seed, move and edit the state of jobs."""

from dataclasses import asdict
from typing import Annotated

import typer

from keyfold.cli.options import DEFAULT_HOME, AsJson, Home
from keyfold.cli.state_jobs import job_or_name, require_job_or_state, require_lakehouse
from keyfold.cli.state_reading import checkpoint, listing, read, stats
from keyfold.cli.state_tools import bootstrap, edit, move
from keyfold.cli.terminal import failures, report
from keyfold.errors import KeyfoldError
from keyfold.lakehouse import Lakehouse
from keyfold.state.changing import promoting
from keyfold.state.differences import Difference, diff_states, diff_with_table
from keyfold.state.reading.export import write_state
from keyfold.state.reading.reader import read_state
from keyfold.state.reading.state_rows import StateRows
from keyfold.storage.reachable import check_reachable

LIVE = "live"
_TABLE = "table:"

app = typer.Typer(
    help=__doc__,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


def diff(
    job: Annotated[str, typer.Argument(help="The job.")],
    before: Annotated[
        str,
        typer.Argument(help="A batch (17), a generation or branch (generation-0001), or both (generation-0001:17)."),
    ],
    after: Annotated[str, typer.Argument(help="The same, `live`, or `table:` and a table's name or path.")] = LIVE,
    rows: Annotated[int, typer.Option(min=0, help="Print this many differing keys, before and after.")] = 0,
    to: Annotated[
        str | None, typer.Option(metavar="PATH", help="Write all differing keys to this folder as Parquet.")
    ] = None,
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Compare two states of a job, or its state and a table: keys added, removed and changed."""
    check_reachable(home)
    lakehouse = Lakehouse(home)
    require_job_or_state(lakehouse, job)
    difference = _diff(lakehouse, job, before, after)
    summary = difference.summary()
    written = asdict(write_state(difference, to, "parquet")) if to is not None else None
    samples = {"samples": difference.first_rows(rows)} if rows else {}
    report({**asdict(summary), **samples, "written": written}, as_json)


def prune(
    job: Annotated[str, typer.Argument(help="The job.")],
    branches: Annotated[bool, typer.Option("--branches", help="Also remove the job's branches.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Report what would be removed; remove nothing.")] = False,
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Remove all generations of a job except the live one."""
    lakehouse = Lakehouse(home)
    require_lakehouse(lakehouse)
    removed = promoting.prune(lakehouse, job, branches=branches, dry_run=dry_run)
    report({"job": job, "removed": removed, "dry_run": dry_run}, as_json)


def _diff(lakehouse: Lakehouse, job: str, before: str, after: str) -> Difference:
    if before.startswith(_TABLE):
        raise KeyfoldError("give the state first, then the table that it is compared with")
    state_before = _state(lakehouse, job, before)
    if after.startswith(_TABLE):
        return diff_with_table(state_before, lakehouse, after.removeprefix(_TABLE))
    return diff_states(state_before, _state(lakehouse, job, after))


def _state(lakehouse: Lakehouse, job: str, text: str) -> StateRows:
    name, colon, number = text.partition(":")
    if text.isdigit():
        name, colon, number = LIVE, ":", text
    if colon and not number.isdigit():
        raise KeyfoldError(f"{text}: {number!r} is not a batch number; write it as generation-0001:17")
    generation = None if name == LIVE else name
    keyed_job = job_or_name(lakehouse, job, generation)
    return read_state(lakehouse, keyed_job, generation=generation, batch=int(number) if colon else None)


for name, function in {
    "read": read,
    "checkpoint": checkpoint,
    "list": listing,
    "stats": stats,
    "diff": diff,
    "bootstrap": bootstrap,
    "move": move,
    "prune": prune,
    "edit": edit,
}.items():
    app.command(name)(failures()(function))
