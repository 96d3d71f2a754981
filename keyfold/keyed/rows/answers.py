"""Answers from outside are written down before they are used: a batch that is worked on again gets the same ones.

A step that asks a service is pure but for its answers. If a crash lets it ask again and the service says something else,
the state of one attempt would belong to the tables of another.
"""

from typing import Protocol

from keyfold.lakehouse.files import write_once
from keyfold.storage.place import Place


class Answers(Protocol):
    """What the world outside said, by a key that names the question."""

    def get(self, key: str) -> str | None:
        """The answer that was kept under a key, None where there is none."""
        ...

    def keep(self, key: str, answer: str) -> None:
        """Keep an answer, durably; call it before the answer is used."""
        ...


class AnswersInMemory:
    """Answers as long as a process lives, for the harness."""

    def __init__(self) -> None:
        self._kept: dict[str, str] = {}

    def get(self, key: str) -> str | None:
        """The answer that was kept under a key, None where there is none."""
        return self._kept.get(key)

    def keep(self, key: str, answer: str) -> None:
        """Keep an answer."""
        self._kept[key] = answer


class AnswersInFiles:
    """Answers in a folder that lives as long as its batch may be worked on again: one small file each.

    Keys must be names that a file can have.
    """

    def __init__(self, folder: Place) -> None:
        self._folder = folder

    def get(self, key: str) -> str | None:
        """The answer that was kept under a key, None where there is none."""
        path = self._folder / key
        return path.read_text(encoding="utf-8") if path.exists() else None

    def keep(self, key: str, answer: str) -> None:
        """Keep an answer, durably.

        Raises:
            OSError: the disk is full or fails; the answer must not be used then.
        """
        write_once(self._folder / key, answer.encode())
