"""The runners of a command, checked before anything runs."""

from keyfold.runners import Runners
from keyfold.storage.reachable import check_reachable


def runners_for(choice: str | None, *places: object) -> Runners:
    """Return the runners of a command; Spark is started when work first needs it.

    Args:
        choice: the option `--runner`; None for the environment's.
        places: what the command reads and writes. A bucket is checked before the seconds that Spark takes to start.

    Raises:
        KeyfoldError: a setting is wrong, or a bucket cannot be reached.
    """
    runners = Runners.from_environment(choice)
    for place in places:
        check_reachable(place)
    return runners
