"""Make functions commands; and options that several commands share, with checks of what they are given."""

import inspect
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from inspect import Parameter
from typing import Annotated, Any, Literal, TypeVar

import typer

from keyfold.cli.terminal import AS_JSON, failures
from keyfold.journal.clock import LOOK_EVERY
from keyfold.lakehouse import Lakehouse
from keyfold.project import project_if_any
from keyfold.project_folder import definitions_at
from keyfold.runners import Choice, Runners
from keyfold.storage.reachable import check_reachable

T = TypeVar("T")

Home = Annotated[
    str,
    typer.Option(
        "--home",
        envvar="KEYFOLD_HOME",
        help="The lakehouse directory, with tables, journals and state: a folder, or the URL of one in a bucket (s3://, gs://, az://).",
    ),
]
Module = Annotated[
    str,
    typer.Option(
        envvar="KEYFOLD_MODULE",
        metavar="MODULE",
        help="The module of your Dagster definitions, whose streams and jobs are found by their assets [default: the project, "
        "else the one that [tool.dg] names].",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print a line of JSON for programs.")]
Parameters = Annotated[
    list[str] | None, typer.Option("--param", help="A job parameter as name=value; may be repeated.")
]

Continuous = Annotated[
    bool,
    typer.Option("--continuous", help="Run until interrupted (SIGINT, SIGTERM); the current batch is finished first."),
]

RunnerChoice = Annotated[
    Choice | None,
    typer.Option(
        "--runner",
        help="Where work is done: `local` in this process, `spark`, or `auto` by the planned bytes (KEYFOLD_LOCAL_BELOW) "
        "[default: KEYFOLD_RUNNER, else auto].",
    ),
]

Every = Annotated[
    float | None,
    typer.Option(
        min=0.01,
        metavar="SECONDS",
        help=f"Run until interrupted, and look for new input at this interval [default: {LOOK_EVERY.total_seconds():g}].",
    ),
]

Metrics = Annotated[
    str | None,
    typer.Option(
        metavar="[ADDRESS:]PORT",
        help="Run until interrupted, and serve /health and /metrics there; on 127.0.0.1, unless an address is given.",
    ),
]


def as_command(function: Callable[..., None]) -> Callable[..., None]:
    """Make a function a command: it takes `--module` and `--json`, which what it prints follows, and prints an error as one message.

    A parameter `lakehouse` becomes the option `--home`.
    """
    declared = inspect.signature(function).parameters
    taken = {
        name: parameter.replace(kind=Parameter.KEYWORD_ONLY)
        for name, parameter in declared.items()
        if name != "lakehouse"
    }
    if "lakehouse" in declared:
        taken["home"] = Parameter("home", Parameter.KEYWORD_ONLY, default=".keyfold", annotation=Home)
    taken["module"] = Parameter("module", Parameter.KEYWORD_ONLY, default="", annotation=Module)
    taken["as_json"] = Parameter("as_json", Parameter.KEYWORD_ONLY, default=False, annotation=AsJson)

    def command(*, module: str, as_json: bool, **arguments: Any) -> None:
        token = AS_JSON.set(as_json)
        try:
            with failures(), definitions_at(module):
                if "lakehouse" in declared:
                    arguments["lakehouse"] = Lakehouse(arguments.pop("home"))
                function(**arguments)
        finally:
            AS_JSON.reset(token)

    command.__doc__, command.__name__ = function.__doc__, function.__name__
    command.__signature__ = inspect.Signature(list(taken.values()))  # type: ignore[attr-defined]
    command.__annotations__ = {name: parameter.annotation for name, parameter in taken.items()}
    return command


def given_pairs(option: str, texts: list[str] | None) -> list[tuple[str, str]]:
    """Parse the values of an option, each `name=value`. In a dictionary of them, the last value of a name counts."""
    for text in texts or ():
        if not text.partition("=")[0].strip() or "=" not in text:
            raise typer.BadParameter(f"{option} {text!r}: write it as name=value")
    return [(name.strip(), value) for name, _, value in (text.partition("=") for text in texts or ())]


def one_of(kind: Literal["streams", "jobs"]) -> str:
    """Return the help of an argument that names a stream or a job: those of the project, without loading Dagster's definitions."""
    project = project_if_any()
    return f"The {kind[:-1]}." if project is None else f"One of: {', '.join(getattr(project, kind))}."


def look_up(kind: str, name: str, among: Mapping[str, T]) -> T:
    """Return the value of a name.

    Args:
        kind: what the name stands for, in the singular.
        name: the name.
        among: the values of all names.

    Raises:
        typer.BadParameter: the name is unknown. The message suggests the closest name and lists all.
    """
    if name in among:
        return among[name]
    near = get_close_matches(name, among, n=1)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    raise typer.BadParameter(f"no {kind} {name!r}. {hint}Known: {', '.join(among) or 'none'}")


def runners_for(choice: str | None, place: object = None) -> Runners:
    """Return the runners of a command; Spark is started when work first needs it.

    Args:
        choice: the option `--runner`; None for the environment's.
        place: what the command reads and writes. A bucket is checked before the seconds that Spark takes to start.

    Raises:
        KeyfoldError: a setting is wrong, or a bucket cannot be reached.
    """
    check_reachable(place)
    return Runners.from_environment(choice)
