"""The command line `keyfold`: what the Dagster assets do, without Dagster.

Exit codes: 0 done, 1 failed, 2 bad usage.

Each command is a module, imported when it is called: `keyfold --help` loads neither Spark nor Polars.
"""

from importlib import import_module, metadata
from typing import Annotated, Any, NamedTuple, cast

import typer
from typer.core import TyperCommand, TyperGroup

from keyfold.errors import KeyfoldError
from keyfold.machine.private_files import keep_files_private
from keyfold.project import current_project


class LazyCommand(NamedTuple):
    """A command that is not imported yet.

    Attributes:
        target: `module:name` of its function, or of a `typer.Typer` with commands of its own.
        summary: the first line of its help; the function's docstring begins with it.
    """

    target: str
    summary: str


COMMANDS: dict[str, LazyCommand] = {
    "new": LazyCommand(
        "keyfold.cli.new.commands:new",
        "Write a new project, stream or job, with its assets and tests, for you to edit.",
    ),
    "stream": LazyCommand(
        "keyfold.cli.stream:app",
        "The columns of streams: show those of new files that a stream does not know, and accept them.",
    ),
    "ingest": LazyCommand(
        "keyfold.cli.ingest:ingest",
        "Read what is new in a folder, or a topic, into events.STREAM and quarantine.STREAM, and those of streams that share it.",
    ),
    "run": LazyCommand("keyfold.cli.run:run", "Run a keyed job over what is new in its event table."),
    "submit": LazyCommand(
        "keyfold.cli.submit:submit",
        "Run a command of keyfold under spark-submit, in client mode, with the settings of KEYFOLD_SPARK_….",
    ),
    "journal": LazyCommand(
        "keyfold.cli.journal:journal", "Print what was planned lately and what came of it, one line a batch."
    ),
    "jobs": LazyCommand("keyfold.cli.catalogue:jobs", "List the jobs: what each reads, its key, what it writes."),
    "streams": LazyCommand(
        "keyfold.cli.catalogue:streams", "List the streams: the event time, the event id and the columns of each."
    ),
    "tables": LazyCommand(
        "keyfold.cli.catalogue:tables", "List the tables: what writes each, and how many rows it has."
    ),
    "params": LazyCommand(
        "keyfold.cli.catalogue:params",
        "List the parameters of a job: type, default and meaning of each; `keyfold run JOB --param NAME=VALUE` sets one.",
    ),
    "check": LazyCommand(
        "keyfold.cli.check:check",
        "Verify a whole lakehouse without Spark: journals, tables, data files, state; name what is damaged, and the remedy.",
    ),
    "show": LazyCommand(
        "keyfold.cli.show:show", "Print the rows of a table; `--json` prints its name, place and row count instead."
    ),
    "plan": LazyCommand(
        "keyfold.cli.state_tools:plan",
        "Say what a change of a job means before anything runs: free, a move, or a refresh.",
    ),
    "try": LazyCommand(
        "keyfold.cli.state_tools:try_",
        "Run a changed job over history into a branch, and show how its tables differ from the live ones.",
    ),
    "redrive": LazyCommand(
        "keyfold.cli.state_tools:redrive",
        "Show what a job's tables would be had its late events come in time; with --promote make it so.",
    ),
    "promote": LazyCommand(
        "keyfold.cli.state_tools:promote", "Make a branch the live generation; the next run goes on from there."
    ),
    "erase": LazyCommand(
        "keyfold.cli.state_tools:erase",
        "Erase rows of a stream everywhere: state, tables, late, quarantine, events and their history.",
    ),
    "backup": LazyCommand(
        "keyfold.cli.backup:backup",
        "Back the lakehouse up, consistently, while runs go on; what earlier backups hold is not copied again.",
    ),
    "restore": LazyCommand(
        "keyfold.cli.backup:restore", "Restore a backup to a home where nothing is yet; the next runs go on from there."
    ),
    "state": LazyCommand("keyfold.cli.state:app", "The state of jobs as data: read it, compare it, seed it, move it."),
    "warm-spark": LazyCommand(
        "keyfold.cli.warm_spark:warm_spark",
        "Keep a Spark that runs of Dagster attach to, until interrupted; they find it by KEYFOLD_WARM_SPARK.",
    ),
    "archive-classes": LazyCommand(
        "keyfold.cli.archive_classes:archive_classes",
        "Write Java's archive of Spark's classes; with it, Spark starts in about half the time.",
    ),
}
"""Keyfold's own commands, in the order of `keyfold --help`."""


def commands() -> dict[str, LazyCommand]:
    """Every command by its name: the project's, where there is one, and then Keyfold's own."""
    try:
        own = current_project().commands
    except KeyfoldError:  # `keyfold --help` works in any folder; a command that needs the project says what is wrong
        own = {}
    return {name: LazyCommand(one.target, one.summary) for name, one in own.items()} | COMMANDS


class LazyGroup(TyperGroup):
    """The commands by name; all are listed, the one that is called is imported."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, listed in commands().items():
            self.add_command(ListedCommand(name, help=listed.summary))


class ListedCommand(TyperCommand):
    """A command as the list of commands shows it; called, it imports itself and steps aside."""

    def get_short_help_str(self, limit: int = 0) -> str:
        """The summary, whole: click would cut it at the end of a line."""
        return self.help or ""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """What click runs next: the context of the command itself."""
        try:
            command = load(str(self.name))
        except KeyfoldError as error:  # of a stream's or a job's file, which are found when they are imported
            # Here: `keyfold --help` loads no Rich.
            from keyfold.cli.terminal import print_error  # noqa: PLC0415

            print_error(str(error))
            raise typer.Exit(1) from None
        return command.make_context(info_name, args, parent, **extra)


def load(name: str) -> TyperCommand | TyperGroup:
    """Import a command by its name in `commands`."""
    module, _, attribute = commands()[name].target.partition(":")
    target = getattr(import_module(module), attribute)
    if not isinstance(target, typer.Typer):
        alone = typer.Typer(rich_markup_mode=None, add_completion=False)
        alone.command(name)(target)
        target = alone
    return cast(TyperCommand | TyperGroup, typer.main.get_command(target))


app = typer.Typer(
    name="keyfold",
    cls=LazyGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich's help needs 0.2 s to import
    context_settings={"help_option_names": ["-h", "--help"]},  # a command's context inherits it
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"keyfold {metadata.version('keyfold')}")
        raise typer.Exit


@app.callback()
def keyfold(
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Stateful, per-key stream processing: land, ingest, run, look."""
    keep_files_private()
