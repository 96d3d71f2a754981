"""Find the streams and jobs that the modules of a package declare, so that a new one needs no registration."""

import sys
import traceback
from collections.abc import Iterator
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import Protocol, TypeVar, cast

from keyfold.errors import Misconfigured


class Named(Protocol):
    """A declaration: a stream or a job."""

    @property
    def name(self) -> str:
        """The declared name."""
        ...


T = TypeVar("T")
"""The type of a declaration. Not bound by `Named`: type checkers take a field with a converter for a descriptor."""


def import_modules(package: str, *, within: str | None = None, skip: frozenset[str] = frozenset()) -> list[ModuleType]:
    """Import the modules of a package, in order of their names.

    Args:
        package: dotted name of the package.
        within: name of the module to import in each sub-package; sub-packages without it are skipped. None skips all.
        skip: names of modules that declare nothing.

    Raises:
        KeyfoldError: some modules cannot be imported; names each with its file and the reason. The other modules are not
            returned: a job that is missing without an error would be noticed days later.

    Example:
        >>> [module.__name__ for module in import_modules("spark_jobs.streams", skip=frozenset({"metrics"}))][:2]
        ['spark_jobs.streams.payments', 'spark_jobs.streams.position_rules']
    """
    modules: list[ModuleType] = []
    faults: list[str] = []
    causes: list[Exception] = []
    for name, file in _files(package, within, skip):
        try:
            # A module that prints during its import would break a command's JSON on stdout.
            with redirect_stdout(sys.stderr):
                modules.append(import_module(name))
        except Exception as error:  # a project's module may raise anything
            faults.append(_reason(file, error))
            causes.append(error)
    if faults:
        raise Misconfigured("; ".join(faults)) from causes[0]
    return modules


def declarations(modules: list[ModuleType], kind: type[T], *, first: tuple[str, ...] = ()) -> dict[str, T]:
    """Return the values of a type that modules define at their top level, by their names.

    Args:
        kind: type of the values.
        first: names that come first, in this order; the others follow by name.

    Raises:
        KeyfoldError: two values have the same name.

    Example:
        >>> from keyfold import Stream
        >>> from spark_jobs.streams import weather
        >>> list(declarations([weather], Stream))
        ['weather']
    """
    by_name: dict[str, tuple[T, ModuleType]] = {}
    for module in modules:
        for value in vars(module).values():
            if not isinstance(value, kind):
                continue
            name = cast(Named, value).name
            declared, declared_in = by_name.setdefault(name, (value, module))
            # A module may import a value that another module defines: that is no second declaration.
            if declared is not value:
                raise Misconfigured(
                    f"{declared_in.__file__} and {module.__file__} both declare a {kind.__name__} named {name!r}; rename one of them"
                )
    order = {name: place for place, name in enumerate(first)}
    return {name: by_name[name][0] for name in sorted(by_name, key=lambda name: (order.get(name, len(order)), name))}


def _files(package: str, within: str | None, skip: frozenset[str]) -> Iterator[tuple[str, Path]]:
    """Yield the dotted names of a package's modules, and their files, without importing sub-packages."""
    for place in import_module(package).__path__:
        for module in sorted(iter_modules([place]), key=lambda module: module.name):
            name, path = f"{package}.{module.name}", Path(place) / module.name
            if module.name in skip:
                continue
            if not module.ispkg:
                yield name, path.with_suffix(".py")
            elif within is not None and (path / f"{within}.py").is_file():
                yield f"{name}.{within}", path / f"{within}.py"


def _reason(file: Path, error: Exception) -> str:
    if isinstance(error, SyntaxError):
        return f"{error.filename} cannot be imported: line {error.lineno}: {error.msg}"
    # The innermost frame in the package: frames below it are of libraries, frames above it of Python's importer.
    own = [
        frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).is_relative_to(file.parent)
    ]
    position = f" ({own[-1].filename}, line {own[-1].lineno})" if own else ""
    return f"{file} cannot be imported: {type(error).__name__}: {error}{position}"
