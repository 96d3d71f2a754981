"""Write new files of the project: all or none, and never over an existing file."""

import os
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, StrictUndefined

from keyfold.errors import KeyfoldError

TEMPLATES = files("keyfold.cli.new") / "templates"
# Not escaped for HTML: the templates are Python.
_ENVIRONMENT = Environment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)  # noqa: S701


def render(template: str, **values: str) -> str:
    """Render a template, given by its path in `templates/` without `.jinja`."""
    return _ENVIRONMENT.from_string(TEMPLATES.joinpath(f"{template}.jinja").read_text(encoding="utf-8")).render(values)


def check_free(root: Path, paths: Mapping[Path, str] | list[Path]) -> None:
    """Check that none of these files exists, nor a package of the same name.

    Raises:
        KeyfoldError: some exist; the message names them.
    """
    taken = [path for path in paths if (root / path).exists() or (root / path).with_suffix("").is_dir()]
    if taken:
        there = ", ".join(str(path) for path in taken)
        raise KeyfoldError(
            f"{there} {'exists' if len(taken) == 1 else 'exist'}; nothing was written: choose another name"
        )


def write_files(root: Path, texts: Mapping[Path, str]) -> None:
    """Write files below the root.

    Raises:
        KeyfoldError: a file exists or cannot be written; all files written so far are removed.
    """
    check_free(root, texts)
    written: list[Path] = []
    try:
        for path, text in texts.items():
            target = root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            # Mode "x", so that a file created since the check is not overwritten.
            with open(target, "x", encoding="utf-8") as file:
                written.append(target)
                file.write(text)
    except OSError as error:
        for target in written:
            os.unlink(target)
        raise KeyfoldError(f"{error.filename} cannot be written: {error.strerror}; nothing was written") from None
