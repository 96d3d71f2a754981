"""What became of a message's bytes."""

from typing import NamedTuple


class Decoded(NamedTuple):
    """A value or a key of a message, as text.

    Attributes:
        text: its text; None if it has none, or if it cannot be decoded.
        fault: why it cannot be decoded; empty if it can.
    """

    text: bytes | None
    fault: str = ""


def fault(reason: str) -> Decoded:
    """Return what became of bytes that cannot be decoded."""
    return Decoded(None, reason)


def too_long(size: int, longest: int) -> str:
    """Say that a message has more bytes than its stream takes."""
    return f"the message has {size:,} bytes, more than its stream's limit of {longest:,}"
