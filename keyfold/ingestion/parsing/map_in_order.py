"""Apply a function to items in threads, a few items ahead of what is consumed: how all cores read one large file."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_in_order(function: Callable[[Item], Result], items: Iterable[Item], threads: int = 1) -> Iterator[Result]:
    """Yield a function's results in the order of the items. At most one item more than threads is held.

    The first item is worked on before others are taken: what it says of its file may end the work.

    Args:
        function: releases the lock of Python's interpreter for most of its time, if it is to gain.
        items: the items, which are taken in the caller's thread.
        threads: number of threads; with one, nothing is done ahead.

    Raises:
        Exception: what the function raises, where its result would be.

    Example:
        >>> list(map_in_order(len, ["a", "bb", ""], threads=2))
        [1, 2, 0]
    """
    rest = iter(items)
    if threads < 2:
        yield from map(function, rest)
        return
    for item in rest:
        yield function(item)
        break
    with ThreadPoolExecutor(threads) as pool:
        waiting = deque[Future[Result]]()
        try:
            for item in rest:
                waiting.append(pool.submit(function, item))
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
