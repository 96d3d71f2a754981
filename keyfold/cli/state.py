"""`keyfold state …`: the state of jobs as data. A module a tool; each loads Spark when it is called."""

import typer

from keyfold.cli.state_diff import diff
from keyfold.cli.state_prune import prune
from keyfold.cli.state_reading import listing, read, stats
from keyfold.cli.state_tools import bootstrap, edit, move

app = typer.Typer(
    help="The state of jobs as data: read it, compare it, seed it, move it.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
app.command("read")(read)
app.command("list")(listing)
app.command("stats")(stats)
app.command("diff")(diff)
app.command("bootstrap")(bootstrap)
app.command("move")(move)
app.command("prune")(prune)
app.command("edit")(edit)
