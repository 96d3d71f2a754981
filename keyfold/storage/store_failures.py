"""Whether an error is the object store's: it refuses, is busy or does not answer, and what it holds is as it was.

Delta's library, Polars and Spark each wrap what the store said in errors of their own, which other code takes for damage.
"""

import re

from keyfold.errors import first_line
from keyfold.storage.remote_path import StoreError

_OF_THE_STORE = re.compile(
    r"Generic S3 error|lacked the necessary privileges|Error performing (GET|PUT|HEAD|POST|DELETE) "
    r"|S3Exception|AccessDeniedException|RequestTimeTooSkewed|SlowDown|Service: S3, Status Code"
)


def failure_of_store(error: BaseException, place: object = "") -> StoreError | None:
    """The store's failure that an error, or one that it came of, stands for; None where it is another one.

    Args:
        error: of any library.
        place: what was read or written.
    """
    for one in _with_causes(error):
        if isinstance(one, StoreError):
            return one
        if _OF_THE_STORE.search(str(one)):
            failed = StoreError(
                f"the object store did not do what was asked of it for {place}: {first_line(one)}; nothing that it holds is "
                "known to be damaged: run this again once it answers"
            )
            failed.place = str(place)
            return failed
    return None


def _with_causes(error: BaseException) -> list[BaseException]:
    """An error, and what it came of, newest first."""
    found: list[BaseException] = []
    # Chains can be rings: an error that is raised again `from` one which was raised while it was handled.
    while error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__ or error
    return found
