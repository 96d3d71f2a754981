"""Names of libraries that are installed with an extra of Keyfold, such as `keyfold[kafka]`, and that may be missing."""

from importlib import import_module
from typing import Any, NoReturn

from keyfold.errors import Misconfigured


class _Missing(type):
    """The type of a stand-in: using it says which extra to install. A class, since `except` clauses name it too."""

    remedy: str

    def __call__(cls, *_: Any, **__: Any) -> NoReturn:
        raise Misconfigured(cls.remedy)

    def __getattr__(cls, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise Misconfigured(cls.remedy)


def from_extra(extra: str, module: str, *names: str) -> list[Any]:
    """Names of a module, or the module itself where none is given; stand-ins where its library is not installed.

    Args:
        extra: of Keyfold, that installs the library.
        module: where the names are.
        names: what to import.

    Example:
        >>> (Client,) = from_extra("kafka", "no_such_library", "Client")
        >>> Client()
        Traceback (most recent call last):
        keyfold.errors.Misconfigured: no_such_library is not installed; install keyfold[kafka]
    """
    library = module.partition(".")[0]
    try:
        found = import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != library:
            raise
        remedy = f"{library} is not installed; install keyfold[{extra}]"
        return [_Missing(name, (Exception,), {"remedy": remedy}) for name in names or (library,)]
    return [getattr(found, name) for name in names] if names else [found]
