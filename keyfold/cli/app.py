"""The command line `keyfold`: ingest, run and maintain without Dagster.

Exit codes: 0 success, 1 failure, 2 bad usage.

Each command's module is imported when the command is called, so `keyfold --help` loads neither Spark nor Polars.
"""

from importlib import import_module, metadata
from typing import Annotated, Any, NamedTuple, cast

import typer
from typer.core import TyperCommand, TyperGroup

from keyfold.errors import KeyfoldError
from keyfold.machine import keep_files_private
from keyfold.project import current_project


class LazyCommand(NamedTuple):
    """A command whose module is not imported yet.

    Attributes:
        target: `module:name` of its function, or of a `typer.Typer` with commands of its own.
        summary: the first line of its help, equal to the first line of the function's docstring.
    """

    target: str
    summary: str


GROUPS: dict[str, dict[str, LazyCommand]] = {
    "Run": {
        "ingest": LazyCommand(
            "keyfold.cli.ingest:ingest",
            "Read new files or messages into events.STREAM and quarantine.STREAM.",
        ),
        "run": LazyCommand("keyfold.cli.run:run", "Run a keyed job over the new events of its streams."),
        "journal": LazyCommand(
            "keyfold.cli.journal:journal", "Print the last batches of a job or of a stream's ingest, one line each."
        ),
        "verify": LazyCommand(
            "keyfold.cli.run:verify",
            "Play events to a job in any order, cut and in files; the exit code is 1 if it gives different answers.",
        ),
        "doctor": LazyCommand(
            "keyfold.cli.doctor:doctor",
            "Check a configuration before anything runs: versions, project, storage, clocks, Java, Dagster, Kafka and its registry.",
        ),
        "health": LazyCommand(
            "keyfold.cli.health:health",
            "Print how up to date streams and jobs are, and the free disk space; the exit code is 1 if anything is not well.",
        ),
    },
    "Tables": {
        "tables": LazyCommand("keyfold.cli.show:tables", "List the tables with their writers and row counts."),
        "show": LazyCommand("keyfold.cli.show:show", "Print the rows of a table."),
        "check": LazyCommand(
            "keyfold.cli.whole_lakehouse:check",
            "Verify the journals, tables, data files and state of a lakehouse without Spark; report damage and its remedy.",
        ),
        "erase": LazyCommand(
            "keyfold.cli.event_tools:erase",
            "Erase rows of a stream from its events, quarantine and history, and compute all jobs that read it again.",
        ),
        "correct": LazyCommand(
            "keyfold.cli.event_tools:correct",
            "Replace events by id, and compute all jobs that read their stream again.",
        ),
        "quarantine": LazyCommand(
            "keyfold.cli.event_tools:quarantine",
            "Move events by id from the event table to quarantine, so that a job which fails on them can go on.",
        ),
        "backup": LazyCommand(
            "keyfold.cli.whole_lakehouse:backup",
            "Make a consistent, incremental backup of the lakehouse; runs may continue meanwhile.",
        ),
        "restore": LazyCommand(
            "keyfold.cli.whole_lakehouse:restore",
            "Restore a backup to an empty lakehouse directory; the next runs continue from it.",
        ),
    },
    "State": {
        "state": LazyCommand("keyfold.cli.state:app", "Read, compare, seed, move and edit the state of jobs."),
        "plan": LazyCommand(
            "keyfold.cli.state_tools:plan",
            "Report what a changed job needs before it runs: nothing, a state move, or a full refresh.",
        ),
        "try": LazyCommand(
            "keyfold.cli.state_tools:try_",
            "Run a changed job over history into a branch, and compare its tables with the live ones.",
        ),
        "promote": LazyCommand(
            "keyfold.cli.state_tools:promote", "Make a branch the live generation; the next run continues from it."
        ),
    },
    "Project": {
        "new": LazyCommand(
            "keyfold.cli.new.commands:new",
            "Write a project that runs: a stream as in a sample file (default: an example), its job, checks and tests.",
        ),
        "add": LazyCommand(
            "keyfold.cli.new.commands:add",
            "Add a stream as in a sample file to the project, with its job, checks and tests.",
        ),
        "drift": LazyCommand(
            "keyfold.cli.ingest:drift",
            "Show the columns that the newest landing files have and a stream does not.",
        ),
        "jobs": LazyCommand("keyfold.cli.show:jobs", "List the jobs with their streams, keys and descriptions."),
        "streams": LazyCommand(
            "keyfold.cli.show:streams", "List the streams with their event times, event ids and descriptions."
        ),
        "params": LazyCommand(
            "keyfold.cli.show:params",
            "List the parameters of a job with types and defaults; `keyfold run JOB --param NAME=VALUE` sets one.",
        ),
    },
}
"""Keyfold's own commands, by group, in the order of `keyfold --help`."""

COMMANDS = {name: command for group in GROUPS.values() for name, command in group.items()}
"""Keyfold's own commands by name."""


def commands() -> dict[str, LazyCommand]:
    """Return every command by name: Keyfold's own, then the project's."""
    try:
        own = current_project().commands
    except KeyfoldError:  # `keyfold --help` works in any folder; a command that needs the project reports the error
        own = {}
    # Keyfold's own commands win: a project cannot replace one of them.
    return COMMANDS | {name: LazyCommand(one.target, one.summary) for name, one in own.items() if name not in COMMANDS}


class LazyGroup(TyperGroup):
    """Lists all commands, and imports only the one that is called."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, listed in commands().items():
            self.add_command(ListedCommand(name, help=listed.summary))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands by group; those of the project last."""
        project = [name for name in self.commands if name not in COMMANDS]
        for group, names in (GROUPS | {"Commands of this project": project}).items():
            if names:
                with formatter.section(group):
                    formatter.write_dl([(name, self.commands[name].get_short_help_str()) for name in names])


class ListedCommand(TyperCommand):
    """Stands for a command in the list of commands; when it is called, it imports the command and calls that."""

    def get_short_help_str(self, limit: int = 0) -> str:
        """Return the whole summary; click would cut it at the end of a line."""
        return self.help or ""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Return the context of the imported command, which click runs next."""
        try:
            command = load(str(self.name))
        except KeyfoldError as error:  # a stream's or a job's module is imported here and may be wrong
            # Imported late: `keyfold --help` must not load Rich.
            from keyfold.cli.terminal import print_error  # noqa: PLC0415

            print_error(str(error))
            raise typer.Exit(1) from None
        return command.make_context(info_name, args, parent, **extra)


def load(name: str) -> TyperCommand | TyperGroup:
    """Import the command that `commands` lists under a name."""
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
    context_settings={"help_option_names": ["-h", "--help"]},  # every command inherits this
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
    """Stateful, per-key stream processing: ingest streams, run keyed jobs, inspect tables and state."""
    keep_files_private()
