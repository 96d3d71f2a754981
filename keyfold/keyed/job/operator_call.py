"""What an author gave to a function that declares something.

It stays with what the function made: with a job of an operator (`KeyedJob.operator`), with an aggregate (`MadeByCall.call`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, get_type_hints

KEEPS_ORDER = "keyfold.keeps_order"
"""Metadata of a field of a declaration: the order of the mapping in it counts."""


@dataclass(frozen=True)
class OperatorCall:
    """A call of an operator, or of another function that declares a part of a job.

    Attributes:
        function: the function.
        arguments: its arguments by parameter, defaults included.
        parts: what the operator made of them: a job in which one of these is replaced is no longer the operator's.
    """

    function: Callable[..., Any]
    arguments: Mapping[str, Any]
    parts: tuple[Any, ...] = field(default=(), repr=False)

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.function.__name__

    @property
    def hints(self) -> Mapping[str, Any]:
        """The annotations of its parameters."""
        return get_type_hints(self.function)

    def made(self, *parts: Any) -> bool:
        """Whether these parts of a job are those that the operator made."""
        return len(parts) == len(self.parts) and all(
            part is other for part, other in zip(parts, self.parts, strict=True)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # Workers need only the job that was made. The arguments are as large again, and need not fit into a pickle.
        return _absent, ()


@dataclass(frozen=True, kw_only=True)
class MadeByCall:
    """An object that functions make: a fingerprint has the call, and not the fields that the object has.

    Attributes:
        call: the call that made it; None if it was made otherwise.
    """

    call: OperatorCall | None = field(default=None, repr=False, compare=False)


def _absent() -> None:
    return None
