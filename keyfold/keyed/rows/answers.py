"""Store answers of external services before a step uses them, so that a repeated batch gets the same answers.

Without that, a service could answer differently after a crash, and the state of one attempt would not fit the tables of
another.
"""

from typing import Protocol

from keyfold.lakehouse.files import write_once
from keyfold.storage.place import Place


class Answers(Protocol):
    """Stored answers of external services, by keys that identify the questions."""

    def get(self, key: str) -> str | None:
        """Return the stored answer of a key; None if there is none."""
        ...

    def keep(self, key: str, answer: str) -> None:
        """Store an answer durably; call it before the answer is used."""
        ...


class AnswersInMemory:
    """Answers in memory, for the harness."""

    def __init__(self) -> None:
        self._answers: dict[str, str] = {}

    def get(self, key: str) -> str | None:
        """Return the stored answer of a key; None if there is none."""
        return self._answers.get(key)

    def keep(self, key: str, answer: str) -> None:
        """Store an answer."""
        self._answers[key] = answer


class AnswersInFiles:
    """Answers in a folder of a batch, one small file each. It is removed when the batch can no longer be repeated.

    Keys must be valid file names.
    """

    def __init__(self, folder: Place) -> None:
        self._folder = folder

    def get(self, key: str) -> str | None:
        """Return the stored answer of a key; None if there is none."""
        # `write_once` renames complete files, so that an existing file has the whole answer.
        path = self._folder / key
        return path.read_text(encoding="utf-8") if path.exists() else None

    def keep(self, key: str, answer: str) -> None:
        """Store an answer durably.

        Raises:
            OSError: the disk is full or fails; the answer must not be used then.
        """
        write_once(self._folder / key, answer.encode())
