"""Options that several commands share."""

from typing import Annotated

import typer

from keyfold.journal.clock import LOOK_EVERY

DEFAULT_HOME = ".keyfold"
DEFAULT_EVERY = LOOK_EVERY.total_seconds()

Home = Annotated[
    str,
    typer.Option(
        "--home",
        envvar="KEYFOLD_HOME",
        help="The lakehouse directory, with tables, checkpoints and state: a folder, or s3a://BUCKET/FOLDER.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print a summary as one line of JSON.")]
Parameters = Annotated[
    list[str] | None, typer.Option("--param", help="A job parameter as name=value; may be repeated.")
]

WithConsumers = Annotated[
    bool,
    typer.Option(
        "--with-consumers",
        help="Also refresh the jobs that read this job's tables, in order; all become live in one step.",
    ),
]

Continuous = Annotated[
    bool,
    typer.Option(help="Run until interrupted (SIGINT, SIGTERM); the current batch is finished first."),
]

Every = Annotated[
    float,
    typer.Option(min=0.01, metavar="SECONDS", help="With --continuous: how often to look for new input."),
]

MetricsPort = Annotated[
    int | None,
    typer.Option(min=1, max=65535, help="With --continuous: serve /health and /metrics on this port of 127.0.0.1."),
]


def given_columns(text: str | None) -> dict[str, str]:
    """Parse `--columns a,b=NAME` into the new name of each column."""
    pairs = [part.partition("=") for part in (text.split(",") if text else [])]
    if any(not old.strip() or (equals and not new.strip()) for old, equals, new in pairs):
        raise typer.BadParameter(f"--columns {text!r}: write it as a,b=NAME")
    return {old.strip(): new.strip() or old.strip() for old, _, new in pairs}


def given_pairs(option: str, given: list[str] | None) -> dict[str, str]:
    """Parse the values of an option, each `name=value`."""
    pairs: dict[str, str] = {}
    for text in given or []:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{option} {text!r}: write it as name=value")
        pairs[name.strip()] = value.strip()
    return pairs


def given_values(option: str, given: list[str]) -> dict[str, list[str]]:
    """Parse the values of an option, each `column=value`, into the values of each column."""
    values: dict[str, list[str]] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise typer.BadParameter(f"{option} {text!r}: write it as column=value")
        values.setdefault(name.strip(), []).append(value)
    return values
