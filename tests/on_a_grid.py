"""Times and limits that property tests draw: most on a coarse grid, and many events, so that boundaries and ties are common."""

from typing import TypeVar

import polars as pl
from hypothesis import strategies as st

from keyfold import TestHarness

T = TypeVar("T")


def on_grid(last: int, step: int, first: int = 0) -> st.SearchStrategy[int]:
    """Draw a whole number from `first` to `last`: three of four times a multiple of `step`.

    Two times are then often exactly as far apart as a limit that is drawn from the same grid, in every run of a few examples.
    """
    # Each is a strategy of its own: hypothesis drops a strategy that is given twice.
    multiples = [st.integers(-(-first // step), last // step).map(lambda number: number * step) for _ in range(3)]
    return st.one_of(*multiples, st.integers(first, last))


def many_of(elements: st.SearchStrategy[T], most: int, least: int = 1) -> st.SearchStrategy[list[T]]:
    """Draw a list, two of three times of at least half of `most` elements: by itself, hypothesis draws about six."""
    long = [st.lists(elements, min_size=most // 2, max_size=size) for size in (most, most - 1)]
    return st.one_of(*long, st.lists(elements, min_size=least, max_size=most))


def assert_nothing_is_due(harness: TestHarness) -> None:
    """Assert that no row of state has a deadline that the watermark has reached: a step handles such rows at once."""
    assert harness.state.filter(pl.col("deadline") <= harness.watermark).is_empty()


def moments(last: int, step: int, first: int = 0, seconds: int = 60) -> st.SearchStrategy[float]:
    """Draw a moment in minutes, or other units of so many seconds: a multiple of `step`, or a microsecond before or after one.

    So borders are met, and just missed.
    """
    return st.builds(
        lambda number, tick: number * step + tick / (seconds * 1_000_000),
        st.integers(-(-first // step), last // step),
        st.sampled_from([0, 0, -1, 1]),
    )
