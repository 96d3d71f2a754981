"""Extract the exact JSON text of a value in a line, or in a list of a line.

Parsers do not keep the text: what they write again may differ (2^53 + 1 as a float). So Python's decoder finds where a value
begins and ends.
"""

import json
import re
from collections.abc import Callable, Iterator

from keyfold.stream.source import Path

_SPACE = re.compile(r"[ \t\r\n]*")
# Numbers stay text, of any length: only the ends of values matter.
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)


def text_at(line: str, path: Path) -> str | None:
    """Return the text of the value at a path of keys; None if it is missing or null.

    Raises:
        ValueError: Python's decoder cannot read the line: its nesting is too deep, or it has a number such as `Inf`.

    Example:
        >>> text_at('{"a": {"b": 1.0}, "c": 2}', ("a",))
        '{"b": 1.0}'
    """
    try:
        start, end = _span(line, path)
    except LookupError:
        return None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return None if line.startswith("null", start) else line[start:end]


BESIDE = 64 << 10
"""Maximum characters beside a list that are repeated with each quarantined element. If there are more, only the element is
kept."""


def with_one_element(text: str, path: Path) -> Callable[[int], str]:
    """Return a function of an index that returns the text with only that element in the list at a path.

    A text without such a list is returned unchanged. If only the element is kept, it begins with `…`, which is not JSON, so
    that nobody takes it for a whole row.

    Example:
        >>> with_one_element('{"at": 5, "all": [1.0, {"b": 2}]}', ("all",))(1)
        '{"at": 5, "all": [{"b": 2}]}'
    """
    try:
        start, end = _span(text, path)
        elements = list(_elements(text, start)) if text[start] == "[" else []
    except (ValueError, LookupError, RecursionError):
        return lambda place: text

    def cut(place: int) -> str:
        if place >= len(elements):
            return text
        first, last = elements[place]
        if len(text) - (end - start) > BESIDE:
            return f"…{text[first:last]}"
        return f"{text[: start + 1]}{text[first:last]}{text[end - 1 :]}"

    return cut


def _span(text: str, path: Path) -> tuple[int, int]:
    """Return the start and end of the value at a path.

    Raises:
        LookupError: there is no such value.
        ValueError: the text is not JSON.
    """
    start, end = _skip(text, 0), len(text.rstrip(" \t\r\n"))
    for step in path:
        start, end = (
            dict(_members(text, start))[step] if isinstance(step, str) else list(_elements(text, start))[step or 0]
        )
    return start, end


def _members(text: str, at: int) -> Iterator[tuple[str, tuple[int, int]]]:
    at = _skip(text, at + 1) if text[at] == "{" else len(text)
    while at < len(text) and text[at] != "}":
        key, at = _DECODER.raw_decode(text, at)
        start = _skip(text, _skip(text, at) + 1)
        at = _end(text, start)
        yield key, (start, at)
        at = _next(text, at)


def _elements(text: str, at: int) -> Iterator[tuple[int, int]]:
    at = _skip(text, at + 1) if text[at] == "[" else len(text)
    while at < len(text) and text[at] != "]":
        end = _end(text, at)
        yield at, end
        at = _next(text, end)


def _end(text: str, start: int) -> int:
    return _DECODER.raw_decode(text, start)[1]


def _next(text: str, at: int) -> int:
    at = _skip(text, at)
    return _skip(text, at + 1) if text[at] == "," else at


def _skip(text: str, at: int) -> int:
    return _SPACE.match(text, at).end()  # pyright: ignore[reportOptionalMemberAccess] - the pattern matches empty text
