"""`keyfold state …`: the state of jobs as data. A module a tool; each loads Spark when it is called."""

import typer

from keyfold.cli.state_bootstrap import state_bootstrap
from keyfold.cli.state_diff import diff
from keyfold.cli.state_edit import state_edit
from keyfold.cli.state_move import state_move, state_prune
from keyfold.cli.state_reading import listing, read, stats

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
app.command("bootstrap")(state_bootstrap)
app.command("move")(state_move)
app.command("prune")(state_prune)
app.command("edit")(state_edit)
