"""The command line `keyfold`: ingest, run and maintain without Dagster.

Exit codes: 0 success, 1 failure, 2 bad usage.

Each command's module is imported when the command is called, so `keyfold --help` loads neither Spark nor Polars.
"""

import ast
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from typer.core import TyperCommand, TyperGroup

from keyfold.errors import KeyfoldError
from keyfold.machine import keep_files_private
from keyfold.project import current_project

GROUPS = {
    "Run": {
        "ingest": "keyfold.cli.ingest:ingest",
        "run": "keyfold.cli.run:run",
        "journal": "keyfold.cli.monitoring:journal",
        "verify": "keyfold.cli.run:verify",
        "health": "keyfold.cli.monitoring:health",
    },
    "Tables": {
        "show": "keyfold.cli.show:show",
        "explain": "keyfold.cli.explain:explain",
        "check": "keyfold.cli.whole_lakehouse:check",
        "erase": "keyfold.cli.event_tools:erase",
        "correct": "keyfold.cli.event_tools:correct",
        "quarantine": "keyfold.cli.event_tools:quarantine",
        "reprocess": "keyfold.cli.event_tools:reprocess",
        "backup": "keyfold.cli.whole_lakehouse:backup",
        "restore": "keyfold.cli.whole_lakehouse:restore",
    },
    "State": {
        "state": "keyfold.cli.state_commands:app",
        "plan": "keyfold.cli.planning:plan",
        "try": "keyfold.cli.trials:try_",
        "promote": "keyfold.cli.state_tools:promote",
    },
    "Project": {
        "new": "keyfold.cli.new.commands:new",
        "add": "keyfold.cli.new.commands:add",
        "drift": "keyfold.cli.ingest:drift",
        "jobs": "keyfold.cli.show:jobs",
        "streams": "keyfold.cli.show:streams",
    },
}
"""Keyfold's own commands, by group, in the order of `keyfold --help`: `module:name` of each one's function or `typer.Typer`."""

COMMANDS = {name: target for group in GROUPS.values() for name, target in group.items()}
"""Keyfold's own commands by name."""


def commands() -> dict[str, str]:
    """Return `module:name` of every command by its name: Keyfold's own, then the project's."""
    try:
        own = current_project().commands
    except KeyfoldError:  # `keyfold --help` works in any folder; a command that needs the project reports the error
        own = {}
    # Keyfold's own commands win: a project cannot replace one of them.
    return COMMANDS | {name: target for name, target in own.items() if name not in COMMANDS}


def summary(target: str) -> str:
    """Return the first line of a command's docstring, or of its module's if it is no function, without importing it."""
    module, _, name = target.partition(":")
    package, *parts = module.split(".")
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return ""
    source = Path(spec.submodule_search_locations[0], *parts).with_suffix(".py")
    tree = ast.parse(source.read_text(encoding="utf-8")) if source.is_file() else ast.Module([], [])
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
    return (ast.get_docstring(functions[0] if functions else tree) or "").partition("\n")[0]


class LazyGroup(TyperGroup):
    """Lists all commands, and imports only the one that is called."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = dict.fromkeys(commands(), cast(Any, None))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import a command."""
        try:
            return load(cmd_name) if cmd_name in self.commands else None
        except KeyfoldError as error:  # a stream's or a job's module is imported here and may be wrong
            # Imported late: `keyfold --help` must not load Rich.
            from keyfold.cli.terminal import print_error  # noqa: PLC0415

            print_error(str(error))
            raise typer.Exit(1) from None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands by group; those of the project last."""
        project = {name: target for name, target in commands().items() if name not in COMMANDS}
        for group, targets in (GROUPS | {"Commands of this project": project}).items():
            if targets:
                with formatter.section(group):
                    formatter.write_dl([(name, summary(target)) for name, target in targets.items()])


def load(name: str) -> TyperCommand | TyperGroup:
    """Import the command that `commands` lists under a name."""
    module, _, attribute = commands()[name].partition(":")
    target = getattr(import_module(module), attribute)
    if not isinstance(target, typer.Typer):
        # Imported late: `keyfold --help` must not load Rich.
        from keyfold.cli.options import as_command  # noqa: PLC0415

        alone = typer.Typer(rich_markup_mode=None, add_completion=False)
        alone.command(name)(as_command(target))
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
