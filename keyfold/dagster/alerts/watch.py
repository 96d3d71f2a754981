"""Look at all sources, turn findings into conditions, and queue and send the changes."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

import dagster as dg

from keyfold.dagster.alerts.condition import Change, Condition, Event, all_found, follow
from keyfold.dagster.alerts.dagster_state import SILENCE, daemon, stale_assets, ticks
from keyfold.dagster.alerts.lakehouse_state import count_rows, disks, quarantine
from keyfold.dagster.alerts.message import entry, line, plain
from keyfold.dagster.alerts.outbox import Queue, deliver
from keyfold.dagster.alerts.runs import newest_end, read_ends
from keyfold.dagster.alerts.senders import most_in_a_message, sender
from keyfold.dagster.alerts.servers import ServerReport, ended_servers
from keyfold.dagster.alerts.settings import AlertSettings
from keyfold.dagster.alerts.state import State
from keyfold.errors import KeyfoldError, first_line
from keyfold.lakehouse import Lakehouse
from keyfold.storage.place import local_path

_LOOKING = "looking"
"""The source of conditions about failing looks."""


@dataclass
class Watch:
    """Looks for faults, and keeps in `state` what it has reported.

    Attributes:
        instance: the Dagster instance, which also stores the state.
        lakehouse: the lakehouse whose journals and disk are checked.
        streams: the streams of the lakehouse.
        settings: thresholds and destinations.
        log: receives every alert as a line of text.
        began: when this process started, in seconds since 1970.
        silence: time without a heartbeat after which the daemon counts as dead.
    """

    instance: dg.DagsterInstance
    lakehouse: Lakehouse
    streams: Sequence[str]
    settings: AlertSettings
    log: Callable[[str], None]
    began: float = field(default_factory=time.time)
    silence: timedelta = SILENCE
    state: State = field(default_factory=State)

    def __post_init__(self) -> None:
        self.state = self._saved = State.load(self.instance)

    def look(self, now: float | None = None) -> Sequence[Change]:
        """Look at all sources once, store the changes, and send waiting alerts.

        A source that fails is itself a condition; its raised conditions stay raised meanwhile.
        """
        now = time.time() if now is None else now
        changes = list[Change]()
        for source, events_of in {
            "runs": self._runs,
            "daemon": lambda: self._all(
                "daemon", daemon(self.instance, now, self.began, self._raised("daemon"), self.silence)
            ),
            "ticks": lambda: self._all("ticks", ticks(self.instance, now, self.began, self._raised("ticks"))),
            "freshness": lambda: self._all("freshness", stale_assets(self.instance)),
            "disks": lambda: self._all(
                "disks", disks(self._folders(), self.settings.disk_percent, self._raised("disks"))
            ),
            "streams": self._streams,
            "servers": lambda: self._servers(now),
        }.items():
            changes += self._apply(source, events_of, now)
        self._queue(changes)
        if self.state != self._saved:  # includes changes that could not be saved before
            self._save()
        self._deliver()
        return changes

    def last_look(self, seconds: float) -> None:
        """Report ended servers before this process ends too; an alert not sent within `seconds` is sent after a restart."""
        changes = self._apply("servers", lambda: self._servers(time.time()), time.time())
        if changes:
            self._queue(changes)
            self._save()
            self._deliver(seconds)

    def _apply(self, source: str, events_of: Callable[[], Iterable[Event]], now: float) -> list[Change]:
        name, failure = f"alerts on {source}", None
        changes = list[Change]()
        before = self.state
        try:
            raised, changes = follow(self._raised(source), events_of(), now)
            self.state = replace(self.state, raised={**self.state.raised, source: raised})
        except Exception as error:  # a fault of one source must not stop the others
            # The source may have stored a position before it failed; its events would be lost.
            self.state, changes = before, []
            # Only the type of a library's error: its text may quote a database statement.
            reason = first_line(error) if isinstance(error, KeyfoldError) else type(error).__name__
            self.log(f"{source} cannot be checked: {plain(first_line(error))}")
            failure = Condition(
                name, "error", f"{source} cannot be checked: {reason}", "see the log of the alerts' process"
            )
        raised, more = follow(self._raised(_LOOKING), [(name, failure)], now)
        self.state = replace(self.state, raised={**self.state.raised, _LOOKING: raised})
        return [*changes, *more]

    def _raised(self, source: str) -> dict[str, Condition]:
        return dict(self.state.raised.get(source, {}))

    def _all(self, source: str, found: Iterable[Condition]) -> list[Event]:
        return all_found(self._raised(source), found)

    def _runs(self) -> list[Event]:
        if self.state.place is None:
            # The first look only stores the position; earlier failures are in Dagster's pages.
            self.state = replace(self.state, place=newest_end(self.instance))
            return []
        events, raised, are_more = list[Event](), self._raised("runs"), True
        while are_more:
            page = read_ends(self.instance, self.state.place or 0, raised)
            raised, _ = follow(raised, page.events, 0)
            events += page.events
            self.state, are_more = replace(self.state, place=page.place), page.are_more
        return events

    def _streams(self) -> list[Event]:
        counts, events = count_rows(self.lakehouse, self.streams)
        events += quarantine(self.state.counts, counts, self.settings.quarantine_percent)
        self.state = replace(self.state, counts={**self.state.counts, **counts})
        return events

    def _servers(self, now: float) -> list[Event]:
        return self._all("servers", ended_servers(ServerReport(self._dagster_home()).read(), now))

    def _folders(self) -> dict[str, Path]:
        home = local_path(self.lakehouse.home)
        return {**({"KEYFOLD_HOME": home} if home else {}), "DAGSTER_HOME": self._dagster_home()}

    def _dagster_home(self) -> Path:
        return Path(self.instance.root_directory)

    def _queue(self, changes: Sequence[Change]) -> None:
        entries = [entry(change) for change in changes]
        for one in entries:
            self.log(line(one))
        names = [to.name for to in self.settings.destinations]
        for name, queue in self.state.queues.items():
            if name not in names and queue.waiting:
                self.log(f"{name} is no longer a destination: {len(queue.waiting)} alerts for it are dropped")
        queues = {name: self.state.queues.get(name, Queue()) for name in names}
        self.state = replace(
            self.state, queues={name: queue.add(entries) if entries else queue for name, queue in queues.items()}
        )

    def _save(self) -> None:
        try:
            self.state.save(self.instance)
            self._saved = self.state
        except Exception as error:  # such as a full disk: alerts are sent all the same, and saved later
            self.log(f"the state of alerts cannot be saved in Dagster's database: {type(error).__name__}")

    def _deliver(self, seconds: float | None = None) -> None:
        for to in self.settings.destinations:

            def save(queue: Queue, name: str = to.name) -> None:
                self.state = replace(self.state, queues={**self.state.queues, name: queue})
                self._save()

            queue = self.state.queues.get(to.name, Queue())
            deliver(queue, sender(to, seconds), most=most_in_a_message(to), save=save, log=self.log)
