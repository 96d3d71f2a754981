"""Whether an error is the object store's: it refuses, is busy or does not answer, and what it holds is as it was.

Delta's library, Polars and Spark each wrap what the store said in errors of their own, which other code takes for damage.
"""

import re

from spark_jobs.errors import first_line
from spark_jobs.objects.remote_path import StoreError

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
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, StoreError):
            return seen
        if _OF_THE_STORE.search(str(seen)):
            failed = StoreError(
                f"the object store did not do what was asked of it for {place}: {first_line(seen)}; nothing that it holds is "
                "known to be damaged: run this again once it answers"
            )
            failed.place = str(place)
            return failed
        seen = seen.__cause__ or seen.__context__
    return None
