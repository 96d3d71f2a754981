"""Recognize failures of the object store (refused, busy, no answer) in errors of other libraries.

Delta's library, Polars and Spark wrap the store's errors in their own, which other code would take for damaged data.
"""

import re

from keyfold.errors import first_line
from keyfold.storage.remote_path import StoreError

_OF_THE_STORE = re.compile(
    r"Generic (S3|GCS|MicrosoftAzure) error|lacked the necessary privileges|Error performing (GET|PUT|HEAD|POST|DELETE) "
    r"|S3Exception|AccessDeniedException|RequestTimeTooSkewed|SlowDown|Service: S3, Status Code"
)


def failure_of_store(error: BaseException, place: object = "") -> StoreError | None:
    """Return the store's failure that caused an error; None if the error has another cause.

    Args:
        error: an error of any library.
        place: what was read or written.
    """
    for cause in _with_causes(error):
        if isinstance(cause, StoreError):
            return cause
        if _OF_THE_STORE.search(str(cause)):
            failed = StoreError(
                f"a request to the object store failed for {place}: {first_line(cause)}; nothing in it is known to be "
                "damaged: run this again once the store answers"
            )
            failed.place = str(place)
            return failed
    return None


def _with_causes(error: BaseException) -> list[BaseException]:
    """Return an error and its causes, newest first."""
    chain: list[BaseException] = []
    # A chain can be a cycle: an error raised again `from` one that was raised while handling it.
    while error not in chain:
        chain.append(error)
        error = error.__cause__ or error.__context__ or error
    return chain
