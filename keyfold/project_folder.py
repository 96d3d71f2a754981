"""Find the folder of the project that a process runs in, or the module of the code location of Dagster that it is in.

A project's `pyproject.toml` names its `Project` value in `[tool.keyfold]`. In a code location of Dagster without it, commands find
streams and jobs by the module of its definitions, which `--module` names, or `[tool.dg]`.
"""

import os
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any

from keyfold.errors import Misconfigured, NotFound

PROJECT_VARIABLE = "KEYFOLD_PROJECT"
"""Environment variable with the project's folder; needed outside of that folder."""


_MODULE = ContextVar[str | None]("module", default=None)
"""The module of definitions that a command was given; empty where it was given none; None outside of commands."""


def project_folder() -> Path:
    """Return the folder with the `pyproject.toml` of the current project.

    Raises:
        KeyfoldError: there is no project.
    """
    if named := os.environ.get(PROJECT_VARIABLE):
        folder = Path(named).resolve()
        if project_setting(folder) is None:
            raise Misconfigured(
                f"{PROJECT_VARIABLE} is {named}, where no pyproject.toml has [tool.keyfold]; name the folder of a project"
            )
        return folder
    # A command in `.venv/bin` that is called from elsewhere, such as by cron, belongs to the project around that environment.
    folder = _nearest_folder() or Path(sys.prefix).parent
    if project_setting(folder) is not None:
        return folder
    raise NotFound(
        f"no project in {Path.cwd()}, above it, or beside {sys.prefix}: no pyproject.toml there has [tool.keyfold]; change to a "
        f"project's folder, or set {PROJECT_VARIABLE} to it; or name the module of your Dagster definitions with --module"
    )


def project_setting(folder: Path) -> str | None:
    """Return `project` of `[tool.keyfold]`; None if a folder has no such table."""
    if (table := _tools(folder).get("keyfold")) is None:
        return None
    if not isinstance(table.get("project"), str):
        raise Misconfigured(f'{folder / "pyproject.toml"}: [tool.keyfold] has no project = "module:NAME"')
    return table["project"]


def definitions_module() -> str:
    """Return the module of Dagster's definitions by which a command finds streams and jobs; empty where it finds a project."""
    if _MODULE.get() != "" or os.environ.get(PROJECT_VARIABLE):
        return _MODULE.get() or ""
    folder = _nearest_folder()
    if folder is None or project_setting(folder) is not None:
        return ""
    add_to_path(folder, folder / "src")
    project = _project_of_dagster(folder)
    return project.get("code_location_target_module") or f"{project.get('root_module')}.definitions"


@contextmanager
def definitions_at(module: str | None) -> Iterator[None]:
    """Let a command find streams and jobs in a code location without a project.

    Not so while Dagster loads definitions: they would be loaded again.

    Args:
        module: the module of the definitions; empty for the one that `[tool.dg]` names, if there is no project; None for neither.
    """
    token = _MODULE.set(module)
    try:
        yield
    finally:
        _MODULE.reset(token)


def add_to_path(*folders: Path) -> None:
    """Let modules in folders be imported: the command `keyfold` has its own folder on the import path."""
    for folder in map(str, filter(Path.is_dir, folders)):
        if folder not in sys.path:
            sys.path.insert(0, folder)


def _nearest_folder() -> Path | None:
    """Return the nearest folder, from the working directory up, with a project of Keyfold's or Dagster's."""
    here = Path.cwd()
    return next(
        (folder for folder in (here, *here.parents) if project_setting(folder) or _project_of_dagster(folder)), None
    )


def _project_of_dagster(folder: Path) -> Mapping[str, Any]:
    return _tools(folder).get("dg", {}).get("project", {})


@cache
def _tools(folder: Path) -> Mapping[str, Any]:
    file = folder / "pyproject.toml"
    try:
        return tomllib.loads(file.read_text(encoding="utf-8")).get("tool", {}) if file.is_file() else {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Misconfigured(f"{file} cannot be read: {error}") from None
