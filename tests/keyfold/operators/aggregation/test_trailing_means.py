"""Means of trailing windows, against exact sums."""

import numpy as np
import pytest

from keyfold.operators.aggregation.trailing_means import trailing_means


def test_sums_are_of_the_window_alone_even_beside_infinities():
    values = np.array([np.inf, 1.0, 2.0, 3.0, -np.inf, np.nan, 1e300, 1.0, 1.0])
    position = np.array([0, 1, 2, 3, 4, 0, 1, 2, 3])
    means = trailing_means(values, position, 2)
    np.testing.assert_array_equal(means, [np.inf, np.inf, 1.5, 2.5, -np.inf, np.nan, 1e300, 5e299, 1.0])


@pytest.mark.parametrize("length", [1, 2, 7, 100, 10_000])
def test_long_windows_agree_with_exact_sums_across_chunks(length):
    chance = np.random.default_rng(3)
    values = np.where(chance.random(100_000) < 0.1, np.nan, chance.normal(1000, 10, 100_000))
    position = np.arange(100_000) - 30_000 * (np.arange(100_000) // 30_000)
    means = trailing_means(values, position, length)
    for row in [0, 29_999, 30_000, 32_767, 32_768, 65_536, 70_001, 99_999]:
        window = values[row - min(position[row], length - 1) : row + 1]
        window = window[~np.isnan(window)]
        assert means[row] == pytest.approx(np.mean(window), rel=1e-14) if len(window) else np.isnan(means[row])
