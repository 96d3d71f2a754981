"""Import the public names of a package when they are first used, so that importing it is cheap; and libraries of optional extras,
such as `keyfold[kafka]`, of which a missing one raises an error with the remedy on first use.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NoReturn

from keyfold.errors import Misconfigured


def lazy_names(package: dict[str, Any], modules: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package (PEP 562).

    The package's `if TYPE_CHECKING` block imports the same names, for type checkers.

    Args:
        package: the package's `globals()`, in which imported names are cached.
        modules: the names that each module defines.

    Example:
        >>> get = lazy_names({"__name__": "numbers"}, {"fractions": ("Fraction",)})
        >>> get("Fraction")(1, 2)
        Fraction(1, 2)
    """
    module_of = {name: module for module, names in modules.items() for name in names}

    def get(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package['__name__']!r} has no attribute {name!r}")
        package[name] = getattr(import_module(module_of[name]), name)
        return package[name]

    return get


class _Missing(type):
    """The type of a placeholder, whose use raises an error with the extra to install. A class, since `except` needs one."""

    remedy: str

    def __call__(cls, *_: Any, **__: Any) -> NoReturn:
        raise Misconfigured(cls.remedy)

    def __getattr__(cls, name: str) -> NoReturn:
        # Tools such as `inspect` look for such names, and expect an AttributeError.
        if name.startswith("__"):
            raise AttributeError(name)
        raise Misconfigured(cls.remedy)


def from_extra(extra: str, module: str, *names: str) -> list[Any]:
    """Import names of a module, or the module itself; returns placeholders if its library is not installed.

    Args:
        extra: the extra of Keyfold that installs the library.
        module: dotted name of the module.
        names: the names to import; none imports the module.

    Example:
        >>> (Client,) = from_extra("kafka", "no_such_library", "Client")
        >>> Client()
        Traceback (most recent call last):
        keyfold.errors.Misconfigured: no_such_library is not installed; install keyfold[kafka]
    """
    try:
        imported = import_module(module)
    except ModuleNotFoundError as error:
        # It may be one that the library imports: `registry` needs more of confluent_kafka's own libraries than `kafka`.
        library = (error.name or module).partition(".")[0]
        remedy = f"{library} is not installed; install keyfold[{extra}]"
        return [_Missing(name, (Exception,), {"remedy": remedy}) for name in names or (module,)]
    return [getattr(imported, name) for name in names] if names else [imported]
