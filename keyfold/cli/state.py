"""`keyfold state …`: the state tools, and that which removes generations."""

from dataclasses import asdict
from typing import Annotated

import typer

from keyfold.cli.options import DEFAULT_HOME, AsJson, Home
from keyfold.cli.state_diff import diff
from keyfold.cli.state_reading import listing, read, stats
from keyfold.cli.state_tools import bootstrap, edit, move
from keyfold.cli.terminal import failures, report
from keyfold.lakehouse import Lakehouse
from keyfold.state.changing import promoting

app = typer.Typer(
    help="Read, compare, seed, move and edit the state of jobs.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


def prune(
    job: Annotated[str, typer.Argument(help="The job.")],
    branches: Annotated[bool, typer.Option("--branches", help="Also remove the job's branches.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Report what would be removed; remove nothing.")] = False,
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Remove all generations of a job except the live one."""
    with failures():
        removed = promoting.prune(Lakehouse(home), job, branches=branches, dry_run=dry_run)
        verb = "would be removed" if dry_run else "removed"
        text = "\n".join(f"{one.name}, {one.bytes:,} bytes: {verb}" for one in removed) or "nothing to remove"
        report({"job": job, "removed": [asdict(one) for one in removed], "dry_run": dry_run}, as_json, text)


app.command("read")(read)
app.command("list")(listing)
app.command("stats")(stats)
app.command("diff")(diff)
app.command("bootstrap")(bootstrap)
app.command("move")(move)
app.command("prune")(prune)
app.command("edit")(edit)
