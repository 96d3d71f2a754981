"""Results keep the order of their functions, and few are called ahead of what is consumed."""

import threading
from functools import partial

import pytest

from keyfold.runners.in_threads import in_threads


def test_results_keep_the_order_of_functions_that_run_at_the_same_time():
    both = threading.Barrier(2)

    def square(number: int) -> int:
        if number in {1, 2}:
            both.wait(timeout=10)
        return number * number

    assert list(in_threads((partial(square, number) for number in range(6)), threads=2)) == [0, 1, 4, 9, 16, 25]


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_comes_in_place_of_its_result_and_little_is_taken_ahead_of_it(threads):
    taken: list[int] = []

    def tasks():
        for number in range(100):
            taken.append(number)
            yield partial(divmod, 12, 3 - number)

    results = in_threads(tasks(), threads)
    assert [next(results), next(results), next(results)] == [(4, 0), (6, 0), (12, 0)]
    with pytest.raises(ZeroDivisionError):
        next(results)
    assert len(taken) <= 4 + threads
