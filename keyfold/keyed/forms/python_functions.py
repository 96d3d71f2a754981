"""See the Python functions within an expression, such as those of `map_elements`: Polars only shows them pickled."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FunctionType, ModuleType
from typing import Any

_LOCK = threading.Lock()

Recorded = tuple[Any, dict[str, Any]]
"""A function as its author gave it to Polars, and what Polars does with it otherwise than the serialized tree says."""


@contextmanager
def functions_recorded() -> Iterator[list[Recorded]]:
    """Record the functions that this thread serializes with an expression; their bytes are then `keyfold-function-<place>`.

    Polars pickles a function that has no name of its own, such as a lambda, with `cloudpickle`. What that makes of it differs
    with the file, the line and the version of Python, and it need not be installed. So Polars finds a module here that keeps the
    functions instead. Other threads get what they asked for.
    """
    recorded: list[Recorded] = []
    with _LOCK:
        before, stand_in = sys.modules.get("cloudpickle"), _Recorder(recorded)
        sys.modules["cloudpickle"] = stand_in
        try:
            yield recorded
        finally:
            if before is None:
                sys.modules.pop("cloudpickle", None)
            else:
                sys.modules["cloudpickle"] = before


class _Recorder(ModuleType):
    """Stands for `cloudpickle` in one thread."""

    def __init__(self, recorded: list[Recorded]) -> None:
        super().__init__("cloudpickle")
        self._recorded, self._thread, self._real = recorded, threading.get_ident(), None
        with suppress(ImportError):
            import cloudpickle  # type: ignore[import-not-found]  # noqa: PLC0415 - need not be installed

            self._real = cloudpickle

    def dumps(self, function: Any, *args: Any, **options: Any) -> bytes:
        """Record a function."""
        if threading.get_ident() != self._thread and self._real is not None:
            return self._real.dumps(function, *args, **options)
        self._recorded.append(_handed_over(function))
        return b"keyfold-function-%d" % (len(self._recorded) - 1)

    def __getattr__(self, name: str) -> Any:
        if self.__dict__.get("_real") is None:
            raise AttributeError(name)
        return getattr(self._real, name)


def _handed_over(function: Any) -> Recorded:
    """Return the function that the author gave to Polars, of one that Polars has wrapped."""
    options: dict[str, Any] = {}
    while (
        type(function).__module__ if not isinstance(function, FunctionType) else function.__module__ or ""
    ).startswith("polars."):
        if isinstance(function, FunctionType):
            closed = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
            within = {name: cell.cell_contents for name, cell in closed.items()}
        else:
            within = vars(function)
        options |= {name: value for name, value in within.items() if name == "skip_nulls"}
        following = within.get("function") or next((value for value in within.values() if callable(value)), None)
        if following is None:
            break
        function = following
    return function, options
