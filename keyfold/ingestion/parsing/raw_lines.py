"""Give the raw text of lines, for quarantine."""


class RawLines:
    """The raw lines of a chunk, split when the first one is requested."""

    def __init__(self, chunk: bytes) -> None:
        self._chunk = chunk
        self._lines: list[bytes] | None = None

    def __call__(self, position: int) -> str:
        if self._lines is None:
            self._lines = self._chunk.split(b"\n")
        return line_text(self._lines[position])


def line_text(value: bytes) -> str:
    """Return a line as text for quarantine."""
    return value.removesuffix(b"\r").decode("utf-8", "replace")
