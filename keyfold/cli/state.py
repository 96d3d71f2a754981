"""`keyfold state …`: the state tools. Each tool is a module and loads Spark when it is called."""

import typer

from keyfold.cli.state_diff import diff
from keyfold.cli.state_prune import prune
from keyfold.cli.state_reading import listing, read, stats
from keyfold.cli.state_tools import bootstrap, edit, move

app = typer.Typer(
    help="Read, compare, seed, move and edit the state of jobs.",
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
