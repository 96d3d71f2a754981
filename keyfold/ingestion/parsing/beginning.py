"""Judge a file by its beginning: one that is no file of its stream is rejected as a whole, before each of its lines is.

A few kilobytes of compressed text may have millions of lines, and each refused line costs as much as many good ones, and a row of
quarantine. So a file is rejected if of its first `FIRST_ROWS` rows fewer than one in `ONE_IN` are fit. A shorter file is never
judged, and neither are later rows: a file that goes bad after a good beginning keeps its rows, each with its reason.

The answer depends on the file alone: rows are counted in the order of their lines, however they were cut into chunks, and a row that
is only too old, or too far in the future, is fit, since that depends on when it came.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from keyfold.ingestion.parsing.rows import Lines, Reject, ValidatedRows
from keyfold.ingestion.parsing.text import UnreadableFileError

FIRST_ROWS = 10_000
ONE_IN = 100

_ELEMENT = re.compile(r"^\S+\[\d+\]: ")
_SHOWN_LINES = 3
_SHOWN_CHARACTERS = 1_000


class Beginning:
    """The first rows of a file."""

    def __init__(self) -> None:
        self._fit: list[Lines] = []
        self._rejects: list[Reject] = []
        self._is_judged = False

    def judged(self, parts: Iterable[ValidatedRows]) -> Iterator[ValidatedRows]:
        """Yield the rows of the next chunk, and judge the file behind them.

        Raises:
            UnreadableFileError: the file is rejected as a whole.
        """
        for part in parts:
            if not self._is_judged:
                self._fit += [part.lines, _lines([reject for reject in part.rejects if reject.is_untimely])]
                self._rejects += [reject for reject in part.rejects if not reject.is_untimely]
            yield part
        if not self._is_judged:
            self._judge()

    def _judge(self) -> None:
        fit = np.concatenate([_lines([]), *self._fit])
        lines = np.sort(np.concatenate([fit, _lines(self._rejects)]))
        if len(lines) < FIRST_ROWS:
            return
        self._is_judged = True
        # All elements of a line's list belong together.
        last = lines[FIRST_ROWS - 1]
        first, good = int((lines <= last).sum()), int((fit <= last).sum())
        if good * ONE_IN < first:
            raise self._rejection([reject for reject in self._rejects if reject.line <= last], first)
        self._fit, self._rejects = [], []

    def _rejection(self, rejects: list[Reject], first: int) -> UnreadableFileError:
        # Without the values that reasons quote: they are in the sample.
        reasons = Counter(_ELEMENT.sub("", reject.reason).partition(": ")[0] for reject in rejects)
        most = sorted(reasons, key=lambda reason: (-reasons[reason], reason))[0]
        rejects.sort(key=lambda reject: reject.line)
        return UnreadableFileError(
            f"the file is rejected as a whole: {len(rejects):,} of its first {first:,} rows are refused, most often: {most}",
            "\n".join(reject.raw[:_SHOWN_CHARACTERS] for reject in rejects[:_SHOWN_LINES]),
        )


def _lines(rejects: Sequence[Reject]) -> Lines:
    return np.array([reject.line for reject in rejects], np.int64)
