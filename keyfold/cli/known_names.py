"""Check names of jobs, streams and tables that a command is given; an unknown name is bad usage."""

from collections.abc import Collection
from difflib import get_close_matches

import typer


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
