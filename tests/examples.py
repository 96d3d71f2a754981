"""How many examples hypothesis makes: a twentieth of a test's number in `make test`, all of them in `make examples`.

What is tried differs from run to run, so that runs add up, but for CI, where hypothesis repeats its choice; and no test tries
fewer than five, or than its number.
"""

import os
from collections.abc import Callable, Collection
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

ALL = os.environ.get("EXAMPLES") == "all"


def examples(
    number: int, suppress_health_check: Collection[HealthCheck] = (), *, shrinks: bool = True
) -> Callable[[Any], Any]:
    """Try a test on so many examples where there is time for all: see above.

    Args:
        number: how many.
        suppress_health_check: as of hypothesis.
        shrinks: whether a smaller example is looked for where one fails; not where each takes seconds.
    """
    tried = number if ALL else max(number // 20, min(number, 5))

    def mark(test: Any) -> Any:
        phases = [phase for phase in Phase if shrinks or phase not in (Phase.shrink, Phase.explain)]
        limited = settings(
            deadline=None, max_examples=tried, suppress_health_check=suppress_health_check, phases=phases
        )
        return pytest.mark.examples(limited(test))

    return mark
