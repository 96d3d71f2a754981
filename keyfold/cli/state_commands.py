"""Read, compare, seed, move and edit the state of jobs."""

from dataclasses import asdict
from typing import Annotated, Any

import typer

from keyfold.cli.options import as_command, look_up
from keyfold.cli.state_reading import FORMS, LIVE, all_jobs, list_, read, state_rows, stats
from keyfold.cli.state_tools import Job, Yes, edit, following, move, require_lakehouse, seed
from keyfold.cli.terminal import report
from keyfold.errors import KeyfoldError
from keyfold.keyed.job.contract import KeyedJob
from keyfold.lakehouse import Lakehouse
from keyfold.state.changing import promoting
from keyfold.state.differences import Difference, diff_states, diff_with_table
from keyfold.state.reading.export import write_state

_TABLE = "table:"

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False, rich_markup_mode=None)


def diff(
    job: Job,
    lakehouse: Lakehouse,
    before: Annotated[
        str,
        typer.Argument(help=f"The first state: {FORMS}."),
    ],
    after: Annotated[str, typer.Argument(help="The same, `live`, or `table:` and a table's name or path.")] = LIVE,
    rows: Annotated[int, typer.Option(min=0, help="Print this many differing keys, before and after.")] = 0,
    to: Annotated[
        str | None, typer.Option(metavar="PATH", help="Write all differing keys to this folder as Parquet.")
    ] = None,
) -> None:
    """Compare two states of a job, or its state and a table: keys added, removed and changed."""
    difference = _diff(lakehouse, look_up("job", job, all_jobs(lakehouse)), before, after)
    samples: dict[str, Any] = {"samples": difference.first_rows(rows)} if rows else {}
    written = asdict(write_state(difference, to)) if to is not None else None
    report(difference.summary(), **samples, written=written)


def prune(
    job: Job,
    lakehouse: Lakehouse,
    branches: Annotated[bool, typer.Option("--branches", help="Remove the job's branches too.")] = False,
    yes: Yes = False,
) -> None:
    """Remove all generations of a job except the live one."""
    require_lakehouse(lakehouse)
    removed = promoting.prune(lakehouse, job, branches=branches, yes=yes)
    report({"job": job, "removed": removed, **following(yes)})


def _diff(lakehouse: Lakehouse, job: KeyedJob | str, before: str, after: str) -> Difference:
    if before.startswith(_TABLE):
        raise KeyfoldError(
            "a table can only be the second side: give the state first, then the table that it is compared with"
        )
    state_before = state_rows(lakehouse, job, before)
    if after.startswith(_TABLE):
        return diff_with_table(state_before, lakehouse, after.removeprefix(_TABLE))
    return diff_states(state_before, state_rows(lakehouse, job, after))


for function in (read, list_, stats, diff, seed, move, prune, edit):
    app.command(function.__name__.rstrip("_"))(as_command(function))
