"""Looks: what each source finds becomes conditions, changes wait in the outbox with them, and are sent."""

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
"""The source of what the looks themselves cannot do."""


@dataclass
class Watch:
    """Looks, and remembers in `state` what it has reported.

    Attributes:
        instance: Dagster's, which also keeps the state.
        lakehouse: whose journals and disk are looked at.
        streams: of the lakehouse.
        settings: where alerts go.
        log: takes what people are to read where no destination is set, line by line.
        began: when this process began, seconds since 1970.
        silence: after which the daemon is taken for dead.
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
        self.state = self._kept = State.load(self.instance)

    def look(self, now: float | None = None) -> Sequence[Change]:
        """Look once at everything, keep what has changed, and send what waits.

        A source that cannot be looked at is a condition itself; what it had raised stays raised meanwhile.
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
        if self.state != self._kept:  # also where it could not be kept before
            self._save()
        self._deliver()
        return changes

    def last_look(self, seconds: float) -> None:
        """What a server that has ended means, before this process ends too; sent within so many seconds, or later."""
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
        except Exception as error:  # whatever it is, the other sources are looked at
            self.state, changes = before, []
            # Of a library's error, which may hold what a database was asked for, the type alone.
            said = first_line(error) if isinstance(error, KeyfoldError) else type(error).__name__
            self.log(f"{source} cannot be looked at: {plain(first_line(error))}")
            failure = Condition(
                name, "error", f"{source} cannot be looked at: {said}", "see the log of the alerts' process"
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
            # The first look only takes its place; earlier failures are in Dagster's pages.
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
                self.log(f"{name} is no destination any more: {len(queue.waiting)} alerts for it are dropped")
        queues = {name: self.state.queues.get(name, Queue()) for name in names}
        self.state = replace(
            self.state, queues={name: queue.add(entries) if entries else queue for name, queue in queues.items()}
        )

    def _save(self) -> None:
        try:
            self.state.save(self.instance)
            self._kept = self.state
        except Exception as error:  # a full disk: alerts go out all the same, and are kept when it can be
            self.log(f"Dagster's database does not keep what was reported: {type(error).__name__}")

    def _deliver(self, seconds: float | None = None) -> None:
        for to in self.settings.destinations:

            def save(queue: Queue, name: str = to.name) -> None:
                self.state = replace(self.state, queues={**self.state.queues, name: queue})
                self._save()

            queue = self.state.queues.get(to.name, Queue())
            deliver(queue, sender(to, seconds), most=most_in_a_message(to), save=save, log=self.log)
