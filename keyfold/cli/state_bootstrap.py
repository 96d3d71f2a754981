"""`keyfold state bootstrap`: a job's state made of any table."""

from dataclasses import asdict
from typing import Annotated

import typer

from keyfold.cli.options import DEFAULT_HOME, AsJson, Home, Parameters, given_pairs, given_parameters
from keyfold.cli.spark import spark_of_environment
from keyfold.cli.state_jobs import build_live_job
from keyfold.cli.terminal import failures, report, usage_faults
from keyfold.errors import KeyfoldError
from keyfold.lakehouse import Lakehouse
from keyfold.state.making.bootstrap import Bootstrap, Bootstrapped, ReadFrom, bootstrap
from keyfold.state.rows.lines import json_lines
from keyfold.times import BEGINNING, parse_time

_NAMES: dict[str, ReadFrom] = {"live": "live", "latest": "latest", "start": "start"}


def state_bootstrap(
    job: Annotated[str, typer.Argument(help="The job.")],
    source: Annotated[
        str, typer.Option("--from", metavar="TABLE|PATH", help="A table, or Delta, Parquet, CSV or JSON lines.")
    ],
    mapping: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="COLUMN=EXPR", help="What a column of state is: SQL over the source's columns."),
    ] = None,
    watermark: Annotated[
        str | None,
        typer.Option(
            metavar="ISO_TIME", help="Event time that the state has reached [default: the live generation's]."
        ),
    ] = None,
    from_version: Annotated[
        str | None,
        typer.Option(
            metavar="N|live|latest|start",
            help="Version of the event table that the state has seen; `live`: what the live generation has read.",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check, count and show; change nothing.")] = False,
    param: Parameters = None,
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Seed a new generation of a job from a table; the next run goes on from there."""
    with usage_faults():
        wanted = Bootstrap(
            source, given_pairs("--map", mapping), parse_time("--watermark", watermark), _version(from_version)
        )
    with failures():
        lakehouse = Lakehouse(home)
        keyed_job = build_live_job(lakehouse, job, given_parameters(param))
        with spark_of_environment(home) as spark:
            told = bootstrap(spark, lakehouse, keyed_job, wanted, dry_run=dry_run)
        summary = {**asdict(told), "sample": told.sample.to_dicts()}
        report(summary, as_json, _text(told))


def _version(text: str | None) -> ReadFrom | None:
    if text is None:
        return None
    if text in _NAMES:
        return _NAMES[text]
    if not text.isdigit():
        raise KeyfoldError(f"--from-version is {text!r}; give a version's number, live, latest or start")
    return int(text)


def _text(told: Bootstrapped) -> str:
    checked = told.checked
    timers = ", ".join(f"{count:,} with a {name}" for name, count in checked.timers.items()) or "none with a timer"
    watermark = "not set" if told.watermark == BEGINNING else f"{told.watermark:%Y-%m-%d %H:%M:%S}"
    lines = [
        f"{told.job}: {checked.rows:,} rows of {checked.keys:,} keys, {timers}; they stand for {checked.events:,} events",
        *(
            [f"empty, since the source has nothing for it: {', '.join(checked.left_empty)}"]
            if checked.left_empty
            else []
        ),
        f"watermark {watermark}; {told.new_rows:,} rows of the event table come next",
        *(f"  {line}" for line in json_lines(told.sample, (), "jsonl")),
        f"{told.generation} is live now" if told.generation else "nothing was changed (--dry-run)",
    ]
    return "\n".join(lines)
