"""Options that several commands share, and checks of what they are given."""

from collections.abc import Collection
from difflib import get_close_matches
from typing import Annotated

import typer

from keyfold.journal.clock import LOOK_EVERY
from keyfold.runners import Choice, Runners
from keyfold.storage.reachable import check_reachable

DEFAULT_HOME = ".keyfold"

Home = Annotated[
    str,
    typer.Option(
        "--home",
        envvar="KEYFOLD_HOME",
        help="The lakehouse directory, with tables, journals and state: a folder, or the URL of one in a bucket (s3://, gs://, az://).",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print a summary as one line of JSON.")]
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
        help=f"Run until interrupted, and look for new input this often [default: {LOOK_EVERY.total_seconds():g}].",
    ),
]

Metrics = Annotated[
    str | None,
    typer.Option(
        metavar="[ADDRESS:]PORT",
        help="Run until interrupted, and serve /health and /metrics there; on 127.0.0.1, unless an address is given.",
    ),
]


def given_pairs(option: str, given: list[str] | None) -> dict[str, str]:
    """Parse the values of an option, each `name=value`; of several for one name, the last counts."""
    return {name: values[-1] for name, values in given_values(option, given or [], "name").items()}


def given_values(option: str, given: list[str], what: str = "column") -> dict[str, list[str]]:
    """Parse the values of an option, each `column=value`, into the values of each column."""
    values: dict[str, list[str]] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name or not (value or what == "name"):
            raise typer.BadParameter(f"{option} {text!r}: write it as {what}=value")
        values.setdefault(name.strip(), []).append(value.strip() if what == "name" else value)
    return values


def require_known(kind: str, name: str, known: Collection[str]) -> None:
    """Check that a name is known.

    Args:
        kind: what the name stands for, in the singular.
        known: all known names.

    Raises:
        typer.BadParameter: the name is unknown. The message suggests the closest name and lists all.
    """
    if name in known:
        return
    near = get_close_matches(name, known, n=1)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    raise typer.BadParameter(f"no {kind} {name!r}. {hint}Known: {', '.join(known) or 'none'}")


def runners_for(choice: str | None, *places: object) -> Runners:
    """Return the runners of a command; Spark is started when work first needs it.

    Args:
        choice: the option `--runner`; None for the environment's.
        places: what the command reads and writes. A bucket is checked before the seconds that Spark takes to start.

    Raises:
        KeyfoldError: a setting is wrong, or a bucket cannot be reached.
    """
    runners = Runners.from_environment(choice)
    for place in places:
        check_reachable(place)
    return runners
