"""Options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

DEFAULT_HOME = Path(".keyfold")

Home = Annotated[
    Path, typer.Option("--home", envvar="KEYFOLD_HOME", help="The lakehouse: tables, checkpoints and state.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print a summary as one line of JSON.")]
