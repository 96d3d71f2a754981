"""`keyfold state prune`: what is not live any more, removed."""

from dataclasses import asdict
from typing import Annotated

import typer

from keyfold.cli.options import DEFAULT_HOME, AsJson, Home
from keyfold.cli.terminal import failures, report
from keyfold.lakehouse import Lakehouse
from keyfold.state.changing import pruning


def prune(
    job: Annotated[str, typer.Argument(help="The job.")],
    branches: Annotated[bool, typer.Option("--branches", help="Remove its branches too.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go; remove nothing.")] = False,
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Remove all generations of a job but the live one."""
    with failures():
        gone = pruning.prune(Lakehouse(home), job, branches=branches, dry_run=dry_run)
        would = "would go" if dry_run else "is gone"
        text = "\n".join(f"{one.name}, {one.bytes:,} bytes: {would}" for one in gone) or "there is nothing to remove"
        report({"job": job, "removed": [asdict(one) for one in gone], "dry_run": dry_run}, as_json, text)
