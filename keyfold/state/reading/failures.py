"""What Spark and its workers say of state that cannot be read, said plainly."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from keyfold.errors import Damaged, error_in

REMEDY = "nothing was changed; restore the checkpoint from a backup, or read another batch or generation"


@contextmanager
def explained(where: str) -> Iterator[None]:
    """Failures of Spark as errors for people.

    Raises:
        KeyfoldError: what a worker said, or what Spark's innermost cause was.
    """
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        text = str(error)
        # From a worker its class is a word in Python's traceback, within Java's.
        if raised := error_in(text):
            raise raised from error
        # The innermost cause names the file; those around it say that a stage failed.
        causes = re.findall(r"^\s*Caused by: [\w.$]+: (.*)", text, re.MULTILINE)
        first = next((line for line in text.splitlines() if line.strip()), "")
        raise Damaged(f"{where}: its state cannot be read: {causes[-1] if causes else first}; {REMEDY}") from error
