"""Find the project that Keyfold runs in, with its streams, jobs, suites, groups of assets and commands.

A project's `pyproject.toml` names its `Project` value:

    [tool.keyfold]
    project = "my_project.project:PROJECT"

In a code location of Dagster without that table, commands find streams and jobs by the module of its definitions, which `--module`
names, or `[tool.dg]`.
"""

import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keyfold.discovery import import_modules
from keyfold.errors import Misconfigured, NotFound, first_line
from keyfold.project_folder import add_to_path, definitions_at, definitions_module, project_folder, project_setting

if TYPE_CHECKING:
    from keyfold.keyed.job.contract import KeyedJob
    from keyfold.stream import Stream
    from keyfold.suite import Suite


# Not a `declaration`: the command line, which starts with it, would load pydantic and Polars for 0.3 s.
@dataclass(frozen=True)
class Project:
    """The declarations of a team, by import names, so that a command imports only the modules that it needs.

    Attributes:
        streams_at: `module:NAME` of the mapping of streams by name.
        jobs_at: `module:NAME` of the mapping of jobs by name.
        suites_in: the package with a module for each table; the module's `EXPECTATIONS` is the table's suite.
        groups_in: the package with a module for each group of assets, whose `GROUP` is made by `keyfold.dagster.keyfold_group`.
        packages: the project's own packages that workers need.
        commands: commands that the project adds to `keyfold`, by name: `module:name` of the function, whose docstring is the help. A
            parameter `lakehouse` becomes `--home`; `keyfold.cli.terminal.report` prints what it made, as JSON with `--json`.
        translator_at: `module:NAME` of the `KeyfoldTranslator` of its assets, for continuous runs, which report to Dagster from outside
            of a code location; empty for the default one.

    Example:
        >>> Project(streams_at="spark_jobs.streams:STREAMS", jobs_at="spark_jobs.jobs.registry:JOBS").streams["sales"].name
        'sales'
    """

    streams_at: str
    jobs_at: str
    suites_in: str = "expectations"
    groups_in: str = "assets"
    packages: tuple[str, ...] = ()
    commands: Mapping[str, str] = field(default_factory=dict)
    translator_at: str = ""

    @cached_property
    def streams(self) -> Mapping[str, "Stream"]:
        """Every stream, by name.

        Raises:
            KeyfoldError: a module of the project cannot be imported.
        """
        return _value_at(self.streams_at)

    @cached_property
    def jobs(self) -> Mapping[str, "KeyedJob"]:
        """Every job, by name.

        Raises:
            KeyfoldError: a module of the project cannot be imported.
        """
        # Streams first: if a stream cannot be imported, the error names it, and not every job that reads it.
        _ = self.streams
        return _value_at(self.jobs_at)

    @cached_property
    def suites(self) -> Mapping[str, "Suite"]:
        """Every suite, by its table.

        Raises:
            KeyfoldError: a module of the project cannot be imported.
        """
        if find_spec(self.suites_in) is None:
            return {}
        modules = import_modules(self.suites_in)
        return {
            module.__name__.rpartition(".")[2]: module.EXPECTATIONS
            for module in modules
            if hasattr(module, "EXPECTATIONS")
        }

    @cached_property
    def translator(self) -> Any:
        """The translator of the project's assets; None for the default one.

        Raises:
            KeyfoldError: it cannot be imported.
        """
        return _value_at(self.translator_at) if self.translator_at else None


def current_project() -> Project:
    """Return the project of this process.

    It is the project in the folder that `KEYFOLD_PROJECT` names; or else in the nearest folder, from the working directory up,
    with a `pyproject.toml` that has `[tool.keyfold]`; or else in the folder of Python's virtual environment. In a command, the
    module of definitions that it was given comes first, and `[tool.dg]` of such a folder counts as well.

    Raises:
        KeyfoldError: there is no project, or its value cannot be imported.
    """
    module = definitions_module()
    return _project_of(module) if module else _project_in(project_folder())


def project_streams() -> Mapping[str, "Stream"]:
    """Return the streams of the current project, by name."""
    return current_project().streams


def project_jobs(module: str = "") -> Mapping[str, "KeyedJob"]:
    """Return the jobs of the current project, by name; or of a code location, by the module of its definitions."""
    return (_project_of(module) if module else current_project()).jobs


def project_suites() -> Mapping[str, "Suite"]:
    """Return the suites of the current project, by table.

    Example:
        >>> "ride_summaries" in project_suites()
        True
    """
    return current_project().suites


def project_if_any() -> Project | None:
    """Return the current project; None where there is none, as in a guest's code location.

    Raises:
        KeyfoldError: its value cannot be imported.
    """
    try:
        return current_project()
    except NotFound:
        return None


def jobs_if_any() -> Mapping[str, "KeyedJob"]:
    """Return the jobs of the current project; none where there is no project."""
    project = project_if_any()
    return project.jobs if project else {}


def project_packages() -> tuple[str, ...]:
    """Return the packages that workers need of the current project; none where there is no project."""
    project = project_if_any()
    return project.packages if project else ()


@cache
def _project_of(module: str) -> Project:
    """Return the streams and jobs that the definitions in a module have assets of."""
    add_to_path(Path.cwd())
    declared = "keyfold.dagster.declared"
    try:
        # Without a module, so that definitions which ask for a project find none; and a print would break a command's JSON.
        with redirect_stdout(sys.stderr), definitions_at(None):
            # By name: Keyfold needs no Dagster.
            import_module(declared).load(module)
    except Exception as error:  # whatever the module of a user raises
        lacks = getattr(error, "name", None) if isinstance(error, ModuleNotFoundError) else None
        if lacks and f"{module}.".startswith(f"{lacks}."):
            raise Misconfigured(
                f"there is no module {lacks}: change to the folder that it is in, or install it, or give another --module"
            ) from error
        raise Misconfigured(
            f"the definitions in {module} cannot be loaded: {type(error).__name__}: {first_line(error)}; see `dg check defs`"
        ) from error
    return Project(streams_at=f"{declared}:STREAMS", jobs_at=f"{declared}:JOBS")


@cache
def _project_in(folder: Path) -> Project:
    target = project_setting(folder)
    assert target is not None  # noqa: S101 - `project_folder` has checked it
    add_to_path(folder)
    project = _value_at(target)
    if not isinstance(project, Project):
        raise Misconfigured(
            f"{folder / 'pyproject.toml'}: {target} is a {type(project).__name__}: name a keyfold.Project, as module:NAME"
        )
    return project


def _value_at(target: str) -> Any:
    module, _, name = target.partition(":")
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name and (module == error.name or module.startswith(f"{error.name}.")):
            raise Misconfigured(
                f"the project names {target}, but there is no module {error.name}: correct the name in pyproject.toml, or install the module"
            ) from error
        raise
    except AttributeError as error:
        if getattr(error, "obj", None) is sys.modules.get(module):
            raise Misconfigured(
                f"the project names {target}, but {module} has no {name}: correct the name in pyproject.toml"
            ) from error
        raise
