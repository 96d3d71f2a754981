"""Store responses of external services before a step uses them, so that a repeated batch gets the same responses.

Without that, a service could answer differently after a crash, and the state of one attempt would not fit the tables of
another.
"""

from typing import Protocol

from keyfold.storage.place import Place


class ResponseCache(Protocol):
    """Stored responses of external services, by keys that identify the requests.

    Example:
        >>> def price_of(item: str, cache: ResponseCache) -> str:
        ...     response = cache.get(item)
        ...     if response is None:
        ...         response = f"the service's price of {item}"
        ...         cache.keep(item, response)
        ...     return response
        >>> cache = ResponsesInMemory()
        >>> price_of("tea", cache), cache.get("tea")
        ("the service's price of tea", "the service's price of tea")
    """

    def get(self, key: str) -> str | None:
        """Return the stored response of a key; None if there is none."""
        ...

    def keep(self, key: str, response: str) -> None:
        """Store a response durably; call it before the response is used."""
        ...


class ResponsesInMemory:
    """Responses in memory, for the harness."""

    def __init__(self) -> None:
        self._responses: dict[str, str] = {}

    def get(self, key: str) -> str | None:
        """Return the stored response of a key; None if there is none."""
        return self._responses.get(key)

    def keep(self, key: str, response: str) -> None:
        """Store a response."""
        self._responses[key] = response


class ResponsesInFiles:
    """Responses in a folder of a batch, one small file each. It is removed when the batch can no longer be repeated.

    Keys must be valid file names.
    """

    def __init__(self, folder: Place) -> None:
        self._folder = folder

    def get(self, key: str) -> str | None:
        """Return the stored response of a key; None if there is none."""
        # `write_once` renames complete files, so that an existing file has the whole response.
        path = self._folder / key
        return path.read_text(encoding="utf-8") if path.exists() else None

    def keep(self, key: str, response: str) -> None:
        """Store a response durably.

        Raises:
            OSError: the disk is full or fails; the response must not be used then.
        """
        (self._folder / key).write_once(response.encode())
