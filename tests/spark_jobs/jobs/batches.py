"""Events in batches, as tests of all jobs bring them: cut anywhere, and late; and their rows."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest


def in_batches(events: list[Any], cuts: Sequence[int]) -> list[list[Any]]:
    """Cut the events at these places."""
    cuts = sorted(min(cut, len(events)) for cut in cuts)
    return [events[a:b] for a, b in zip([0, *cuts], [*cuts, len(events)], strict=True)]


def assert_close(
    rows: Iterable[dict[str, Any]],
    expected: Iterable[dict[str, Any]],
    order: Callable[[dict[str, Any]], Any],
    *,
    rel: float,
    abs: float,
) -> None:
    """Assert that rows are those expected, in any order; floats within tolerances of `pytest.approx`."""
    found, wanted = sorted(rows, key=order), sorted(expected, key=order)
    assert len(found) == len(wanted)
    for row, other in zip(found, wanted, strict=True):
        assert row.keys() == other.keys()
        for name, value in row.items():
            wanted_value = pytest.approx(other[name], rel=rel, abs=abs) if isinstance(value, float) else other[name]
            assert value == wanted_value, f"{name} of {row}"
