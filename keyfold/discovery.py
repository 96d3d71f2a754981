"""What a package declares: its modules are found, so that a file that is put there is enough."""

import sys
import traceback
from collections.abc import Iterator
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import Protocol, TypeVar

from keyfold.errors import Misconfigured


class Named(Protocol):
    """What can be declared: a stream, a job."""

    @property
    def name(self) -> str:
        """By which it is known."""
        ...


T = TypeVar("T", bound=Named)


def import_modules(package: str, *, within: str | None = None, skip: frozenset[str] = frozenset()) -> list[ModuleType]:
    """Every module of a package, by name.

    Args:
        package: its dotted name.
        within: the module of a folder that stands for it; a folder without one is left out. None leaves all out.
        skip: names of modules that declare nothing.

    Raises:
        KeyfoldError: some cannot be imported: all of them, each with its file and the reason. The others are not given
            alone: a job that is missing without a word would be noticed days later.
    """
    found: list[ModuleType] = []
    broken: list[str] = []
    causes: list[Exception] = []
    for name, file in _files(package, within, skip):
        try:
            # A module that prints as it is imported would else print into a command's JSON.
            with redirect_stdout(sys.stderr):
                found.append(import_module(name))
        except Exception as error:  # whatever a module that people write may raise
            broken.append(_reason(file, error))
            causes.append(error)
    if broken:
        raise Misconfigured("; ".join(broken)) from causes[0]
    return found


def declarations(modules: list[ModuleType], kind: type[T], *, first: tuple[str, ...] = ()) -> dict[str, T]:
    """The values of a kind that stand in modules, by their name.

    Args:
        modules: where to look: among the names of each module's top level.
        kind: type of the values.
        first: names that come before all others, in this order; the rest is by name.

    Raises:
        KeyfoldError: two values have one name.
    """
    found: dict[str, tuple[T, ModuleType]] = {}
    for module in modules:
        for value in vars(module).values():
            if not isinstance(value, kind):
                continue
            known, where = found.setdefault(value.name, (value, module))
            # One that a module imports from another is the same value, and no second one.
            if known is not value:
                raise Misconfigured(
                    f"{where.__file__} and {module.__file__} both declare a {kind.__name__} named {value.name!r}; "
                    "rename one of them"
                )
    order = {name: place for place, name in enumerate(first)}
    return {name: found[name][0] for name in sorted(found, key=lambda name: (order.get(name, len(order)), name))}


def _files(package: str, within: str | None, skip: frozenset[str]) -> Iterator[tuple[str, Path]]:
    """The dotted names of a package's modules, and their files; no folder is imported to look into it."""
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
    # The innermost line of the package's own: below it are libraries, above it is Python's importer.
    own = [
        frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).is_relative_to(file.parent)
    ]
    where = f" ({own[-1].filename}, line {own[-1].lineno})" if own else ""
    return f"{file} cannot be imported: {type(error).__name__}: {error}{where}"
