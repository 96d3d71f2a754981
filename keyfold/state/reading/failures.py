"""Turn Spark's errors about state into errors with a cause and a remedy."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from keyfold.errors import Damaged, error_in

REMEDY = "nothing was changed; restore it from a backup, or read another batch or generation"


@contextmanager
def explained(where: str) -> Iterator[None]:
    """Replace errors of Spark.

    Raises:
        KeyfoldError: the worker's error, or an error with Spark's innermost cause.
    """
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        text = str(error)
        # Spark quotes a worker's traceback in the message of its own error.
        if raised := error_in(text):
            raise raised from error
        # The innermost cause names the file; the outer ones only say that a stage failed.
        causes = re.findall(r"^\s*Caused by: [\w.$]+: (.*)", text, re.MULTILINE)
        first = next((line for line in text.splitlines() if line.strip()), "")
        raise Damaged(f"{where}: its state cannot be read: {causes[-1] if causes else first}; {REMEDY}") from error
