"""Failures of the object store, and how to recognize them (refused, busy, no answer) in errors of other libraries.

Delta's library, Polars and Spark wrap the store's errors in their own, which other code would take for damaged data.
"""

import re

from keyfold.errors import Unreachable, first_line

_OF_THE_STORE = re.compile(
    r"Generic (S3|GCS|MicrosoftAzure) error|lacked the necessary privileges|Error performing (GET|PUT|HEAD|POST|DELETE) "
    r"|S3Exception|AccessDeniedException|RequestTimeTooSkewed|SlowDown|Service: S3, Status Code"
)


class StoreError(OSError):
    """The store has failed, cannot be reached, or refuses access. The object itself is not damaged.

    Attributes:
        place: the place for `check_reachable`, which may find what is wrong with the settings.
    """

    place: str = ""


class NotAnsweringError(Unreachable):
    """A store does not answer. It may do so later."""


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
            failure = StoreError(
                f"a request to the object store failed for {place}: {first_line(cause)}; nothing in it is known to be "
                "damaged: run this again once the store answers"
            )
            failure.place = str(place)
            return failure
    return None


def _with_causes(error: BaseException) -> list[BaseException]:
    """Return an error and its causes, newest first."""
    chain: list[BaseException] = []
    # A chain can be a cycle: an error raised again `from` one that was raised while handling it.
    while error not in chain:
        chain.append(error)
        error = error.__cause__ or error.__context__ or error
    return chain
