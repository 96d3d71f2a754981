"""Names that a command is given: a job, a stream, a table. An unknown one is bad usage, and the nearest is named."""

from collections.abc import Collection
from difflib import get_close_matches

import typer

from keyfold.project import project_jobs, project_streams


def require_job(name: str) -> None:
    """Check that the project has a job.

    Raises:
        typer.BadParameter: it has none of that name.
    """
    require_known("job", name, project_jobs())


def require_stream(name: str) -> None:
    """Check that the project has a stream.

    Raises:
        typer.BadParameter: it has none of that name.
    """
    require_known("stream", name, project_streams())


def require_known(kind: str, name: str, known: Collection[str]) -> None:
    """Check that a name is known.

    Args:
        kind: what it names, in the singular.
        name: as it was given.
        known: all that there are.

    Raises:
        typer.BadParameter: it is not known. The message names the nearest, where one is near, and all of them.
    """
    if name in known:
        return
    near = get_close_matches(name, known, n=1)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    raise typer.BadParameter(f"no {kind} {name!r}. {hint}Known: {', '.join(known) or 'none'}")
