"""Report servers of `make ui` that have ended unexpectedly, from their supervisor's file in DAGSTER_HOME."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from keyfold.dagster.alerts.condition import Condition
from keyfold.errors import Damaged
from keyfold.lakehouse.files import read_json, write_whole

REPORTED_SECONDS = 300.0
"""For how long the restart of a server is reported."""

_REMEDIES = {
    "the warm Spark": "see its last lines in the output of make ui; until it is up, runs start their own Spark, which takes "
    "longer",
}
_REMEDY = "see its last lines in the output of make ui"


@dataclass(frozen=True)
class Ended:
    """A server that has ended unexpectedly.

    Attributes:
        at: when it ended, in seconds since 1970.
        code: its exit code; negative for a signal.
        then: what its supervisor did: `restarted`, `left`, or `ended all`.
    """

    at: float
    code: int
    then: str


class ServerReport:
    """The supervisor's file, with the last end of each server since the supervisor started."""

    def __init__(self, home: Path) -> None:
        self._file = home / "servers.json"
        self._ended = dict[str, Ended]()

    def begin(self) -> None:
        """Delete the report of an earlier supervisor."""
        self._file.unlink(missing_ok=True)

    def add(self, server: str, ended: Ended) -> None:
        """Report that a server has ended."""
        self._ended[server] = ended
        write_whole(self._file, json.dumps({name: asdict(one) for name, one in self._ended.items()}).encode())

    def read(self) -> dict[str, Ended]:
        """Return the last end of each server."""
        try:
            return {name: Ended(**one) for name, one in read_json(self._file).items()}
        except FileNotFoundError:
            return {}
        except TypeError:
            raise Damaged(f"{self._file} is damaged: delete it") from None


def ended_servers(ended: dict[str, Ended], now: float) -> Iterator[Condition]:
    """Return conditions for servers that have ended; restarted ones only for a while."""
    for server, one in ended.items():
        how = f"was ended by signal {-one.code}" if one.code < 0 else f"ended with exit code {one.code}"
        name, why = f"server {server}", f"{server} {how}"
        remedy = _REMEDIES.get(server, _REMEDY)
        if one.then == "ended all":
            yield Condition(
                name, "error", f"{why}; all servers of make ui have ended with it", f"{remedy}; then run make ui again"
            )
        elif one.then == "left":
            yield Condition(name, "error", f"{why}, and is not restarted", f"{remedy}; then run make ui again")
        elif now - one.at < REPORTED_SECONDS:
            yield Condition(name, "warning", f"{why}, and was restarted", f"nothing, unless it ends again; {remedy}")
