"""Which worker of pytest-xdist runs a test: those of a file go to one, and all that share a server to another.

Each worker has a session of its own, and so would start a Java of its own, which is warm when most of its tests are over.
"""

from typing import Any

import pytest
from _pytest.nodeid import NodeId
from xdist.scheduler import LoadFileScheduling

SERVERS = {"spark": "tests", "broker": "tests/keyfold"}
"""The fixtures of sessions that start a Java, and whose conftest has them."""


class ByServer(LoadFileScheduling):
    """Hands out files, and the tests that share a server, as `say_server` marks them, at once."""

    def _split_scope(self, nodeid: str) -> str:
        file, _, server = super()._split_scope(nodeid), *nodeid.rpartition("]")[2].rpartition("@")[1:]
        return server if server in SERVERS else file


def server_of(item: Any) -> str | None:
    """The server whose fixture a test takes."""
    fixtures = getattr(item, "_fixtureinfo", None)
    return next((name for name, base in SERVERS.items() if fixtures and _takes(fixtures, name, base)), None)


def say_servers(items: list[pytest.Item]) -> None:
    """Have each test's node id say its server, as `--dist loadgroup` does, and those of Spark come first: they take longest."""
    for item in items:
        if server := server_of(item):
            item._id = NodeId.parse(f"{item.nodeid}@{server}")  # type: ignore[attr-defined]
    items.sort(key=lambda item: not item.nodeid.endswith("@spark"))


def _takes(fixtures: Any, name: str, base: str) -> bool:
    found = list(fixtures.name2fixturedefs.get(name, ()))
    # Some modules have another of that name, which does without the server, unless it is made of this one.
    return any(one.baseid == base for one in found) and (found[-1].baseid == base or name in found[-1].argnames)
