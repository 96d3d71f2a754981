"""The history of a journal: a line for each of the batches whose records are gone."""

import json
from collections.abc import Iterable
from dataclasses import dataclass

from keyfold.errors import Damaged
from keyfold.storage.place import Place

HISTORY = 2_000
"""Number of older batches of which a line is kept."""


@dataclass(frozen=True)
class PastBatch:
    """A batch in the history of a journal.

    Attributes:
        batch: its number.
        planned_at: when it was planned, ISO 8601.
        finished_at: when it was finished, ISO 8601; None while it is not.
        seconds: duration of the work.
        read: describes its input.
        made: describes its results.
    """

    batch: int
    planned_at: str
    finished_at: str | None
    seconds: float | None
    read: str
    made: str


def read_history(path: Place) -> list[PastBatch]:
    """Return the batches of a history, oldest first.

    Raises:
        Damaged: a line is damaged.
    """
    batches = [_parsed(line) for line in _lines(path)]
    if None in batches:
        raise Damaged(
            f"{path} is damaged; restore it from a backup, or remove it: only the list of old batches is lost"
        )
    return [batch for batch in batches if batch]


def add_to_history(path: Place, batches: Iterable[PastBatch]) -> None:
    """Add batches to a history, of which the newest ones are kept. Batches that it has already are replaced."""
    lines = {line: _parsed(line) for line in _lines(path)}
    by_batch = {batch.batch: line for line, batch in lines.items() if batch}
    by_batch |= {batch.batch: json.dumps(vars(batch)) for batch in batches}
    # Damaged lines stay, so that a check finds them: they describe old batches, and stop no run.
    damaged = [line for line, batch in lines.items() if batch is None]
    newest = [*damaged, *(by_batch[batch] for batch in sorted(by_batch)[-HISTORY:])]
    path.write_durably("".join(f"{line}\n" for line in newest).encode())


def _lines(path: Place) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return []


def _parsed(line: str) -> PastBatch | None:
    """Return the batch of a line; None of a damaged one."""
    try:
        batch = PastBatch(**json.loads(line))
    except (ValueError, TypeError):
        return None
    return batch if isinstance(batch.batch, int) else None
