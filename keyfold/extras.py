"""Import libraries of optional extras, such as `keyfold[kafka]`. A missing one raises an error with the remedy on first use."""

from importlib import import_module
from typing import Any, NoReturn

from keyfold.errors import Misconfigured


class _Missing(type):
    """The type of a stand-in, whose use raises an error with the extra to install. A class, since `except` needs one."""

    remedy: str

    def __call__(cls, *_: Any, **__: Any) -> NoReturn:
        raise Misconfigured(cls.remedy)

    def __getattr__(cls, name: str) -> NoReturn:
        # Tools such as `inspect` look for such names, and expect an AttributeError.
        if name.startswith("__"):
            raise AttributeError(name)
        raise Misconfigured(cls.remedy)


def from_extra(extra: str, module: str, *names: str) -> list[Any]:
    """Import names of a module, or the module itself; returns stand-ins if its library is not installed.

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
        found = import_module(module)
    except ModuleNotFoundError as error:
        # It may be one that the library imports: `registry` needs more of confluent_kafka's own libraries than `kafka`.
        library = (error.name or module).partition(".")[0]
        remedy = f"{library} is not installed; install keyfold[{extra}]"
        return [_Missing(name, (Exception,), {"remedy": remedy}) for name in names or (module,)]
    return [getattr(found, name) for name in names] if names else [found]
