"""Extract the exact JSON text of values from many lines at once.

Parsers do not keep the text: what they write again may differ (2^53 + 1 as a float). So this module works on the bytes as an
array: positions of quotes, brackets and commas, nesting depths, and positions of keys.
"""

import json
import re
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keyfold.stream.raw_paths import Path

Numbers = npt.NDArray[np.int64]

_QUOTE, _BACKSLASH, _COLON, _COMMA = (ord(sign) for sign in '"\\:,')
_BLANKS = np.isin(np.arange(256), list(b" \t\r\n"))
_STEPS = np.zeros(256, np.int8)
_STEPS[list(b"{[")], _STEPS[list(b"}]")], _STEPS[_COMMA] = 1, -1, 2


class JsonTexts:
    """Valid JSON objects, one per line, as bytes."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._bytes = np.frombuffer(text, np.uint8)
        quotes = np.flatnonzero(self._bytes == _QUOTE)
        self._has_escapes = b"\\" in text
        if self._has_escapes:
            quotes = quotes[~self._is_escaped(quotes)]
        # In valid JSON, quotes open and close strings in turn.
        self._opened, self._closed = quotes[0::2], quotes[1::2]
        steps = _STEPS[self._bytes]
        marks = np.flatnonzero(steps)
        # An even number of quotes before a bracket or comma means that it is outside of strings.
        marks = marks[(np.searchsorted(quotes, marks) & 1) == 0]
        steps = steps[marks]
        self._marks = marks
        brackets = np.where(steps == 2, 0, steps)
        self._after = np.cumsum(brackets, dtype=np.int32)
        # Opening and closing brackets have the depth of their content.
        self._is_open, self._is_close = brackets == 1, brackets == -1
        self._depth = self._after + self._is_close

    def at(self, path: Path) -> pa.Array:
        """Return the text of the value at a path of keys, for each line; NULL if it is missing or null."""
        opens = self._opens(1)
        rows, lines = np.arange(len(opens)), len(opens)
        starts = opens
        for depth, key in enumerate(path, 1):
            # Find the key's value in each object, then the objects among these values for the next key.
            starts = self._values(str(key), depth, opens, rows, lines)
            opens = self._opens(depth + 1)
            rows = np.full(len(opens), -1)
            inside = np.flatnonzero((starts >= 0) & (self._bytes[starts] == ord("{")))
            rows[np.searchsorted(opens, starts[inside])] = inside
        return self._slices(starts, self._ends(starts, len(path) + 1))

    def _opens(self, depth: int) -> Numbers:
        return self._marks[self._is_open & (self._depth == depth)]

    def _values(self, key: str, depth: int, opens: Numbers, rows: Numbers, lines: int) -> Numbers:
        """Return the start of a key's value for each line, in the objects that open at `opens`; -1 if there is none."""
        starts = np.full(lines, -1, dtype=np.int64)
        tokens = self._named(key)
        first = self._opened[tokens]
        level = self._after[np.searchsorted(self._marks, first) - 1]
        tokens, first = tokens[level == depth], first[level == depth]
        if not len(tokens):
            return starts
        row = rows[np.searchsorted(opens, first) - 1]
        colon = self._skip(self._closed[tokens] + 1)
        is_key = (row >= 0) & (self._bytes[colon] == _COLON)
        # If a key is repeated, the last one counts, as in JSON parsers.
        starts[row[is_key]] = self._skip(colon[is_key] + 1)
        return starts

    def _named(self, key: str) -> Numbers:
        """Return the strings, keys or values, that equal a name."""
        name = np.frombuffer(key.encode(), np.uint8)
        tokens = np.flatnonzero(self._closed - self._opened - 1 == len(name))
        for offset, one in enumerate(name):
            tokens = tokens[self._bytes[self._opened[tokens] + 1 + offset] == one]
        if not self._has_escapes:
            return tokens
        escapes = np.flatnonzero(self._bytes == _BACKSLASH)
        escaped = np.unique(np.searchsorted(self._opened, escapes) - 1)
        # With every character as \uXXXX, a name has six times its length. Longer strings need not be decoded.
        escaped = escaped[(self._closed - self._opened)[escaped] <= 6 * len(key) + 1]
        same = [token for token in escaped.tolist() if json.loads(self._token(token)) == key]
        return np.union1d(np.setdiff1d(tokens, escaped), np.array(same, dtype=np.int64))

    def _token(self, token: int) -> bytes:
        return self._text[self._opened[token] : self._closed[token] + 1]

    def _ends(self, starts: Numbers, depth: int) -> Numbers:
        """Return the ends of the values that begin at `starts`, all at one depth."""
        ends = np.full(len(starts), -1, dtype=np.int64)
        there = np.flatnonzero(starts >= 0)
        begin, first = starts[there], self._bytes[starts[there]]
        # A number, true, false or null ends at the next comma or bracket, without blanks.
        end = self._marks[np.minimum(np.searchsorted(self._marks, begin), len(self._marks) - 1)]
        while (is_blank := _BLANKS[self._bytes[end - 1]]).any():
            end = end - is_blank
        is_text = first == _QUOTE
        end[is_text] = self._closed[np.searchsorted(self._opened, begin[is_text])] + 1
        is_nested = (first == ord("{")) | (first == ord("["))
        # At one depth, opening and closing brackets alternate.
        brackets = self._marks[(self._is_open | self._is_close) & (self._depth == depth)]
        end[is_nested] = brackets[np.searchsorted(brackets, begin[is_nested]) + 1] + 1
        ends[there] = end
        return ends

    def _slices(self, starts: Numbers, ends: Numbers) -> pa.Array:
        import pyarrow.compute as pc  # noqa: PLC0415 - takes 50 ms

        is_there = starts >= 0
        ends = np.maximum.accumulate(np.where(is_there, ends, 0)) if len(ends) else ends
        offsets = np.empty(2 * len(starts) + 1, dtype=np.int64)
        offsets[0::2] = np.concatenate([[0], ends])
        offsets[1::2] = np.where(is_there, starts, ends)
        # Odd slices are the values, even slices are the text between them.
        spans = pa.LargeBinaryArray.from_buffers(
            pa.large_binary(), 2 * len(starts), [None, pa.py_buffer(offsets), pa.py_buffer(self._text)]
        )
        texts = spans.take(pa.array(np.arange(len(starts)) * 2 + 1)).cast(pa.string())
        is_null = pc.call_function("equal", [texts, pa.scalar("null")]).to_numpy(zero_copy_only=False)
        return pc.call_function("if_else", [pa.array(is_there & ~is_null), texts, pa.scalar(None, pa.string())])

    def _skip(self, at: Numbers) -> Numbers:
        while (is_blank := _BLANKS[self._bytes[at]]).any():
            at = at + is_blank
        return at

    def _is_escaped(self, quotes: Numbers) -> npt.NDArray[np.bool_]:
        """Whether each quote is preceded by an odd number of backslashes."""
        odd = np.zeros(len(quotes), dtype=bool)
        left, at = np.arange(len(quotes)), quotes - 1
        while len(left):
            is_more = (at >= 0) & (self._bytes[at] == _BACKSLASH)
            left, at = left[is_more], at[is_more] - 1
            odd[left] = ~odd[left]
        return odd


BESIDE = 64 << 10
"""Maximum characters beside a list that are repeated with each quarantined element. If there are more, only the element is
kept."""

_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


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
    start, end = _skip(text, 0), len(text)
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
