"""Import the public names of a package when they are first used, so that importing the package is cheap."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


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
